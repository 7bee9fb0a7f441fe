"""What a candidate's process is made of without a GPU: the interpreter, and CPU tensors that say "cuda"."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import interpreter, limits, memory, threads
from .channel import Message
from .cuda_shim import Shim, name_device_alike
from .errors import UserFiles
from .faults import describe_fault, ours

Progress = Callable[[int, int], None]


class HostStage:
    """One for each process; it is installed before any user code is imported."""

    is_broken = False
    """Whether the process must end after its answer."""
    outputs_stay = False
    """Whether the memory of an output is at the same address in every call; here it is mapped anew."""

    def __init__(self) -> None:
        self.shim = Shim()
        self.shim.install()
        threads.enter_in_each(self.shim.in_thread)

    def open(self, request: Message, files: UserFiles) -> None:
        """Set up what user code of these files may do and use, before it is imported."""
        self.shim.is_users_file = lambda filename: files.shown(filename) is not None
        self.shim.on_uninitialised = interpreter.register_uninitialised
        limits.limit_address_space(request["address_space_bytes"])
        user_paths = interpreter.UserPaths(text_path=files.text_path, path=files.path, folders=files.folders)
        ours(interpreter.install, user_paths)
        interpreter.refuse_host_memory(self.shim.host.holds)
        ours(name_device_alike)

    def active(
        self, *, poisons: bool, other_pattern: bool = False
    ) -> contextlib.AbstractContextManager[None]:
        """While user code runs. `poisons`: what `torch.empty` and its kin return is poisoned."""
        return self.shim.active(poisons=poisons, other_pattern=other_pattern)

    def session(self, options: Message, on_progress: Progress) -> Any:
        """What records one call."""
        return ours(
            interpreter.Session,
            max_programs=options["max_programs"],
            compare_values=options["compare_values"],
            sampling_seed=options.get("sampling_seed", 0),
            on_progress=on_progress,
            program_order=options.get("program_order", "forward"),
            autotune=options.get("autotune", "drawn"),
            idle_kernels=options.get("idle_kernels", False),
        )

    def settle(self, _session: Any) -> None:
        """The call is over: everything has happened already."""

    def collect(self, _session: Any) -> None:
        """What can still be seen after a call that raised: it was recorded when it happened."""

    def deliver(self) -> None:
        """What was handed over is to be seen by the judge: it is already."""

    def storage(self, item: Message, descriptors: Iterator[int], *, filled: bool) -> torch.Tensor | None:
        """The memory of an input or output (uint8); None when it has none. `filled`: its bytes matter."""
        if not item.get("has_memory"):
            return None
        return memory.map_storage(next(descriptors), item["storage_bytes"])

    def skip(self, item: Message, descriptors: Iterator[int]) -> None:
        """The same input as in the call before, which is mapped already."""
        if item.get("has_memory"):
            next(descriptors)

    def begin(self) -> None:
        """Memory is asked for by a new request."""

    def forget_case(self) -> None:
        """The memory of the case before is used no more."""

    def register_destination(self, tensor: torch.Tensor) -> None:
        """An output's memory, which the entry is to write."""
        interpreter.register_uninitialised(tensor)

    def is_in_wrong_memory(self, value: torch.Tensor) -> bool:
        """Whether a returned tensor would not be on the GPU."""
        return self.shim.host.holds(value)

    def describe(
        self, error: BaseException, files: UserFiles | None, unsupported: Message | None, _session: Any
    ) -> Message:
        """`Raised` of the protocol."""
        return describe_fault(error, files, unsupported)
