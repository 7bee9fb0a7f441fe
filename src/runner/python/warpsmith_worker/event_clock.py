"""The GPU as timing sees it: events, a flush of L2, CUDA graphs, waiting for all of it.

It is imported before any user code and keeps what it needs of torch: user code may replace
`torch.cuda.Event` or `synchronize`. Events and waiting go to the driver itself. All of it is a claim all the
same, because user code runs in the same process; the supervisor holds it against a clock of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable
from typing import Any, Protocol

import torch

_CDLL = ctypes.CDLL
_now_ns = time.perf_counter_ns
_CUDAGraph = torch.cuda.CUDAGraph
_Stream = torch.cuda.Stream
_on_stream = torch.cuda.stream
_current_stream = torch.cuda.current_stream
_current_device = torch.cuda.current_device
_is_available = torch.cuda.is_available
_pool_handle = torch.cuda.graph_pool_handle
_mem_get_info = torch.cuda.mem_get_info
_memory_fraction = getattr(torch.cuda, "get_per_process_memory_fraction", None)
_empty_cache = torch.cuda.empty_cache
_add = torch.Tensor.add_
# Missing where torch was built without CUDA.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_end_allocate_to_pool = getattr(torch._C, "_cuda_endAllocateToPool", None)

# A buffer of twice the cache leaves nothing of what was in it.
_FLUSH_OF_L2 = 2
_SMALLEST_FLUSH_BYTES = 64 << 20
# CU_LIMIT_PERSISTING_L2_CACHE_SIZE of cuda.h.
_PERSISTING_L2_LIMIT = 6


class NoGpu(RuntimeError):
    """There is no GPU, or no driver for it."""


class Graph(Protocol):
    """A captured batch of work."""

    returned: Any
    """What the captured function returned: its memory is written by every replay."""

    def replay(self) -> None: ...


class Clock(Protocol):
    """What timing needs of a GPU; tests have one of their own."""

    l2_bytes: int
    flush_bytes: int

    def now_us(self) -> float:
        """The host's clock, in µs."""

    def free_bytes(self) -> int: ...

    def record(self) -> Any:
        """An event behind the work that was submitted so far."""

    def elapsed_us(self, begin: Any, end: Any) -> float:
        """Between two events that have passed, in µs."""

    def forget_events(self) -> None:
        """Those handed out so far may be used again."""

    def synchronise(self) -> None:
        """Wait for all that this process has on the GPU, on any stream. Raises what went wrong there."""

    def flush(self) -> None:
        """Submit work after which L2 holds nothing of what was in it."""

    def share_l2(self) -> None:
        """Give back what somebody set aside of L2, which flushes do not reach."""

    def capture(self, body: Callable[[], Any]) -> Graph:
        """The work that `body` submits, as a graph. Raises what the capture raised."""

    def release(self) -> None:
        """Give back what torch keeps for later."""


class _CapturedGraph:
    def __init__(self, graph: torch.cuda.CUDAGraph, returned: Any) -> None:
        self.replay: Callable[[], None] = graph.replay
        self.returned = returned


class CudaClock:
    """The current GPU of this process."""

    def __init__(self) -> None:
        """Raises NoGpu."""
        if _raw_stream is None or not _is_available():
            raise NoGpu("torch has no GPU here")
        self._driver = _load_driver()
        self._reset_persisting = getattr(self._driver, "cuCtxResetPersistingL2Cache", None)
        self._device = _current_device()
        self._free: list[ctypes.c_void_p] = []
        self._used: list[ctypes.c_void_p] = []
        self.l2_bytes = int(torch.cuda.get_device_properties(self._device).L2_cache_size)
        self.flush_bytes = max(_FLUSH_OF_L2 * self.l2_bytes, _SMALLEST_FLUSH_BYTES)
        # Its first use opens the context.
        self._flushed = torch.zeros(self.flush_bytes // 4, dtype=torch.int32, device=f"cuda:{self._device}")
        self.flush()
        self.synchronise()

    def now_us(self) -> float:
        return _now_ns() / 1e3

    def free_bytes(self) -> int:
        free_bytes, total_bytes = _mem_get_info(self._device)
        # A check may be limited to a part of the memory.
        limit = 1.0 if _memory_fraction is None else _memory_fraction(self._device)
        return int(min(free_bytes, limit * total_bytes))

    def record(self) -> ctypes.c_void_p:
        if self._free:
            event = self._free.pop()
        else:
            event = ctypes.c_void_p()
            self._check(self._driver.cuEventCreate(ctypes.byref(event), 0))
        self._used.append(event)
        self._check(self._driver.cuEventRecord(event, _raw_stream(self._device)))
        return event

    def elapsed_us(self, begin: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        took_ms = ctypes.c_float()
        self._check(self._driver.cuEventElapsedTime(ctypes.byref(took_ms), begin, end))
        return took_ms.value * 1e3

    def forget_events(self) -> None:
        self._free += self._used
        self._used = []

    def synchronise(self) -> None:
        self._check(self._driver.cuCtxSynchronize())

    def flush(self) -> None:
        # Reads and writes every byte of the buffer.
        _add(self._flushed, 1)

    def share_l2(self) -> None:
        # A GPU or driver that has no such cache refuses, and has nothing to give back.
        if self._reset_persisting is not None:
            self._reset_persisting()
            self._driver.cuCtxSetLimit(_PERSISTING_L2_LIMIT, 0)

    def capture(self, body: Callable[[], Any]) -> _CapturedGraph:
        self.synchronise()
        try:
            return self._capture(body)
        except BaseException:
            # What is truly broken fails here again, and then it is told.
            self.synchronise()
            # A capture that fails leaves torch's random generator as if it still went on; one that works
            # mends it.
            with contextlib.suppress(Exception):
                self._capture(self.flush)
            raise

    def _capture(self, body: Callable[[], Any]) -> _CapturedGraph:
        # A pool of its own: what a graph returned outlives the replays of another.
        graph, pool, stream = _CUDAGraph(), _pool_handle(), _Stream(self._device)
        stream.wait_stream(_current_stream(self._device))
        collects = gc.isenabled()
        # It could free what must not be freed during a capture.
        gc.disable()
        try:
            with _on_stream(stream):
                graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    returned = body()
                    graph.capture_end()
                except BaseException:
                    self._abandon(graph, pool)
                    raise
            _current_stream(self._device).wait_stream(stream)
        finally:
            if collects:
                gc.enable()
        return _CapturedGraph(graph, returned)

    def _abandon(self, graph: torch.cuda.CUDAGraph, pool: Any) -> None:
        """End a capture that failed, so that calls without one work again."""
        with contextlib.suppress(Exception):
            graph.capture_end()
        # A failed end leaves the allocator in the belief that the capture goes on.
        with contextlib.suppress(Exception):
            _end_allocate_to_pool(self._device, pool)

    def release(self) -> None:
        self.synchronise()
        for event in self._free + self._used:
            self._driver.cuEventDestroy_v2(event)
        self._free, self._used = [], []
        _empty_cache()

    def _check(self, status: int) -> None:
        if status != 0:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(status, ctypes.byref(text))
            told = (text.value or b"unknown").decode("utf-8", "replace")
            # In torch's words, so that it is read like an error that torch met first.
            raise RuntimeError(f"CUDA error: {told}")


def _load_driver() -> ctypes.CDLL:
    try:
        driver = _CDLL("libcuda.so.1")
    except OSError as error:
        raise NoGpu(f"the CUDA driver cannot be loaded: {error}") from error
    pointer = ctypes.c_void_p
    driver.cuEventCreate.argtypes = (ctypes.POINTER(pointer), ctypes.c_uint)
    driver.cuEventRecord.argtypes = (pointer, pointer)
    driver.cuEventElapsedTime.argtypes = (ctypes.POINTER(ctypes.c_float), pointer, pointer)
    driver.cuEventDestroy_v2.argtypes = (pointer,)
    driver.cuCtxSynchronize.argtypes = ()
    driver.cuCtxSetLimit.argtypes = (ctypes.c_int, ctypes.c_size_t)
    driver.cuGetErrorString.argtypes = (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
    return driver
