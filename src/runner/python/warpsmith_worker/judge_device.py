"""What the judge has of a GPU: its context, its arenas, and how much memory is left."""

import contextlib
import gc
import os
from collections.abc import Callable, Iterator

import torch

from . import place
from .arenas import ArenaPool
from .channel import Message
from .cuda_driver import DeviceUnavailable, Driver, DriverError, describe_device, open_context
from .cuda_errors import is_broken_context
from .shared import CaseMemory, Files, OneArena, Refused, SharedTensor

Answer = tuple[Message, list[int]]

# Read by cuBLAS: products give the same bits each time.
_CUBLAS_WORKSPACE = ":4096:8"
_PROBE_BYTES = 1 << 16


def is_broken(error: BaseException) -> bool:
    """Whether the judge's own context is of no more use."""
    return isinstance(error, DriverError) or is_broken_context(error)


@contextlib.contextmanager
def precision(*, tf32: bool) -> Iterator[None]:
    """In here references multiply float32 as TF32, or they do not."""
    if not place.is_gpu():
        yield
        return
    _allow_tf32(tf32)
    try:
        yield
    finally:
        _allow_tf32(False)


def _allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


class JudgeDevice:
    """The GPU of the judge's process. `unusable` is the answer to everything when it cannot be used."""

    unusable: Message | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.transport = "ipc"
        self._probe: OneArena | None = None
        self._probe_item: SharedTensor | None = None
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", _CUBLAS_WORKSPACE)
        try:
            self.driver: Driver = open_context()
        except DeviceUnavailable as error:
            self.unusable = {"failed": {"code": error.code, "message": str(error)}}
            return
        place.use_gpu()
        # References make tensors without saying where.
        torch.set_default_device(place.current())
        _compute_like_a_cpu()
        self.pool = ArenaPool(self.driver, place.current())

    def handlers(self) -> dict[str, Callable[[Message], Answer]]:
        """Requests that only a GPU can serve."""
        return {
            "start": self._start,
            "probed": self._probed,
            "transport": self._set_transport,
            "device-state": self._state,
        }

    def case_memory(self, sizes: list[int]) -> CaseMemory:
        """Memory for the tensors of one case, in bytes each."""
        return OneArena(self.pool, sizes) if self.transport == "ipc" else Files()

    def free_memory(self) -> None:
        """Give back all that is only kept for later."""
        gc.collect()
        self.pool.free_kept()
        torch.cuda.empty_cache()

    def _start(self, request: Message) -> Answer:
        """The GPU's description, and memory on which a candidate may try whether it can open it."""
        described = describe_device(self.name, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
        self.transport = request["transport"]
        if self.transport != "ipc" or not request["probes"]:
            return {"done": {"described": described}}, []
        try:
            self._probe = OneArena(self.pool, [_PROBE_BYTES])
            spec = {"name": "probe", "dtype": "int8", "shape": [_PROBE_BYTES]}
            item = self._probe.make("probe", spec, [1], mapped=True)
        except DriverError as error:
            # Its memory cannot be exported at all.
            return {"done": {"described": described, "refused": str(error)}}, []
        item.view(item.shared).fill_(request["pattern"])
        self.driver.synchronize()
        self._probe_item = item
        return {"done": {"described": described, "probe": item.record()}}, []

    def _probed(self, request: Message) -> Answer:
        """Whether the candidate's own bytes stand in the memory."""
        if self._probe is None or self._probe_item is None:
            raise Refused("bad-request", "nothing was there to probe")
        values = self._probe_item.view(self._probe_item.shared)
        seen = bool((values == request["pattern"]).all())
        self._probe.release()
        self._probe = self._probe_item = None
        return {"done": {"seen": seen}}, []

    def _set_transport(self, request: Message) -> Answer:
        self.transport = request["transport"]
        return {"done": {}}, []

    def _state(self, _request: Message) -> Answer:
        """`DeviceState`: what is kept for later counts as free."""
        self.free_memory()
        free_bytes, total_bytes = torch.cuda.mem_get_info(0)
        return {"done": {"free_bytes": free_bytes, "total_bytes": total_bytes}}, []


def _compute_like_a_cpu() -> None:
    """No shortcut that a reference did not ask for, and the same bits each time where that costs little."""
    _allow_tf32(False)
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
