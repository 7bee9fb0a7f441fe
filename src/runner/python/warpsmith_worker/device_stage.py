"""What a candidate's process is made of on a GPU: its context, the judge's memory, what is watched."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import memory, place
from .arenas import OpenedArenas
from .channel import Message
from .compile_places import place_of_compile_error
from .cuda_driver import DeviceUnavailable, Driver, open_context
from .cuda_errors import ENDS_CONTEXT, code_of, sentence_of
from .errors import UserFiles, chain
from .faults import describe_fault, ours
from .guards import Guards
from .launches import DeviceSession, choose_configurations, record_launches, user_place

_NO_FILES = UserFiles("", "")


class DeviceStage:
    """One for each process; its context is open before any user code is imported."""

    outputs_stay = True
    """Whether the memory of an output is at the same address in every call."""

    def __init__(self, *, blocking: bool) -> None:
        """`blocking`: the host waits for every launch. Ends the process when there is no GPU."""
        self.blocking = blocking
        self.is_broken = False
        if blocking:
            # Read when the context opens.
            os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
        try:
            self.driver: Driver = open_context()
        except DeviceUnavailable as error:
            print(f"warpsmith: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        _ready_triton()
        place.use_gpu()
        self.files = _NO_FILES
        self.arenas = OpenedArenas(self.driver)
        self.device_bytes = 0
        self.guards: Guards | None = None
        self._copies: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}
        """Without shared device memory: of each input by its key, what is mapped and what is on the GPU."""
        self._asked_for: set[str] = set()

    def open(self, request: Message, files: UserFiles) -> None:
        """Set up what user code of these files may use, before it is imported."""
        self.files = files
        self.device_bytes = int(request.get("device_bytes") or 0)
        if self.device_bytes > 0:
            _free_bytes, total_bytes = torch.cuda.mem_get_info(0)
            torch.cuda.set_per_process_memory_fraction(min(1.0, self.device_bytes / total_bytes), 0)
        ours(self._watch)

    def _watch(self) -> None:
        from triton.compiler import CompiledKernel
        from triton.runtime.autotuner import Autotuner
        from triton.runtime.jit import JITFunction

        record_launches(JITFunction, CompiledKernel)
        choose_configurations(Autotuner)
        self.guards = Guards(
            place.current(),
            self.driver.tensor,
            self.driver.synchronize,
            lambda: user_place(self.files),
        )

    def active(self, *, poisons: bool, other_pattern: bool = False) -> contextlib.AbstractContextManager[Any]:
        """While user code runs. `poisons`: what `torch.empty` and its kin return is poisoned and guarded."""
        if not poisons or self.guards is None:
            return contextlib.nullcontext()
        return self.guards.active(other_pattern=other_pattern)

    def session(self, options: Message, _on_progress: Callable[[int, int], None]) -> DeviceSession:
        """What records one call."""
        idle_kernels = options.get("idle_kernels", False)
        return DeviceSession(self.files, options.get("autotune", "drawn"), idle_kernels=idle_kernels)

    def settle(self, session: DeviceSession | None) -> None:
        """Wait for the GPU, and look at the guards. Raises DriverError when something failed on it."""
        self.driver.synchronize()
        damages = self.guards.damages() if self.guards is not None else []
        for damage in damages if session is not None else ():
            session.add_finding("out-of-bounds-store", damage.message, damage.block.place)

    def collect(self, session: DeviceSession | None) -> None:
        """What can still be seen after a call that raised."""
        if self._sticky_error() is None:
            self.settle(session)

    def deliver(self) -> None:
        """What was handed over is to be seen by the judge. Raises DriverError."""
        self.driver.synchronize()
        for key in self._asked_for:
            mapped, on_gpu = self._copies[key]
            # Of inputs as well: whoever writes to one is found out by the judge.
            mapped.copy_(on_gpu)

    # --- memory of the case ---

    def storage(self, item: Message, descriptors: Iterator[int], *, filled: bool) -> torch.Tensor | None:
        """The memory of an input or output (uint8); None when it has none. `filled`: its bytes matter."""
        shared = item.get("device_memory")
        if shared is not None:
            return self.arenas.storage(shared, item["storage_bytes"])
        if not item.get("has_memory"):
            return None
        descriptor = next(descriptors)
        on_gpu = torch.empty(item["storage_bytes"], dtype=torch.uint8, device=place.current())
        if filled:
            mapped = memory.map_storage(descriptor, item["storage_bytes"])
            on_gpu.copy_(mapped)
            self._copies[item["key"]] = mapped, on_gpu
            self._asked_for.add(item["key"])
        return on_gpu

    def skip(self, item: Message, descriptors: Iterator[int]) -> None:
        """The same input as in the call before; the judge may have written other values."""
        if item.get("has_memory"):
            next(descriptors)
        known = self._copies.get(item["key"])
        if known is not None:
            mapped, on_gpu = known
            on_gpu.copy_(mapped)
            self._asked_for.add(item["key"])

    def begin(self) -> None:
        """Memory is asked for by a new request: what is not is as the judge has it."""
        self._asked_for = set()

    def forget_case(self) -> None:
        """The memory of the case before is used no more."""
        self._copies = {}
        self.arenas.forget_old()

    def register_destination(self, tensor: torch.Tensor) -> None:
        """An output's memory, which the judge has poisoned and guarded."""

    def is_in_wrong_memory(self, value: torch.Tensor) -> bool:
        """Whether a returned tensor is not on the GPU."""
        return value.device != place.current()

    def probe(self, request: Message, descriptors: list[int]) -> Message:
        """Whether memory of the judge can be opened: its bytes are read, and others are written."""
        try:
            storage = self.storage(request["input"], iter(descriptors), filled=True)
            if storage is None or not bool((storage == request["pattern"]).all()):
                return {"done": {"refused": "the judge's bytes are not there"}}
            storage.fill_(request["pattern"] + 1)
            self.driver.synchronize()
        except Exception as error:
            return {"done": {"refused": sentence_of(error)}}
        return {"done": {"refused": None}}

    # --- errors ---

    def describe(
        self,
        error: BaseException,
        files: UserFiles | None,
        _unsupported: Message | None,
        session: DeviceSession | None,
    ) -> Message:
        """`Raised` of the protocol. What broke the context ends the process after its answer."""
        raised = describe_fault(error, files, None)
        cause = next((item for item in chain(error) if code_of(item) is not None), None)
        sticky = self._sticky_error()
        if sticky is not None and (cause is None or code_of(cause) not in ENDS_CONTEXT):
            # The exception may be a consequence, or say nothing of it.
            cause = sticky
        code = None if cause is None else code_of(cause)
        if cause is None or code is None:
            return raised
        raised["code"] = code
        raised["message"] = self._message(cause, code, session)
        if code == "compile-error":
            found = place_of_compile_error(error, session.kernels if session else [], self.files)
            raised["place"] = found or raised["place"]
            raised["message"] = _compile_message(cause)
        if code in ENDS_CONTEXT:
            self.is_broken = True
            if not self.blocking or cause is sticky:
                # Where it is noticed says nothing of where it happened.
                raised["place"], raised["called_from"] = None, []
        return raised

    def _sticky_error(self) -> BaseException | None:
        try:
            self.driver.synchronize()
        except Exception as error:
            return error
        return None

    def _message(self, error: BaseException, code: str, session: DeviceSession | None) -> str:
        told = sentence_of(error)
        if "invalid device ordinal" in told:
            return f"{told}; a check sees one GPU, named cuda:0"
        if code == "out-of-memory":
            if self.device_bytes > 0:
                told += (
                    f"; a check may use {self.device_bytes / 2**30:.2f} GiB of the GPU (warpsmith's limit)"
                )
            return told
        kernels = session.told_kernels() if session is not None else ""
        # Outside of a session, as while it is timed, launches are not recorded.
        if session is not None and (code in ENDS_CONTEXT or code == "cuda-error"):
            told += f"; launched in this call: {kernels}" if kernels else "; no Triton kernel was launched"
        elif code == "out-of-resources" and session is not None and session.kernels:
            told = f"`{getattr(session.kernels[-1], '__name__', 'kernel')}`: {told}"
        return told


def _ready_triton() -> None:
    """Let Triton find its driver and its compiler, so that no first launch pays for it."""
    # Whatever is wrong with them is told at a launch.
    with contextlib.suppress(Exception):
        from triton.compiler.compiler import make_backend
        from triton.runtime.driver import driver

        make_backend(driver.active.get_current_target()).hash()


def _compile_message(error: BaseException) -> str:
    """What the compiler says, without the source around it."""
    innermost = [item for item in chain(error) if getattr(item, "error_message", None)]
    told = str(innermost[-1].error_message) if innermost else str(error)
    lines = [line for line in told.strip().splitlines() if line.strip()]
    return "\n".join(lines[-20:])[:4096] or "".join(traceback.format_exception_only(error)).strip()
