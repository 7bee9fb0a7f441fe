"""Runs Triton kernels on a CPU with the numerics of a GPU, and watches every memory access.

`install` once per candidate process, before the user's file is imported and after ``TRITON_INTERPRET=1`` was
set; then one `Session` for each call of the user's entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import InterpreterUnsupported, TritonCompileError
from .places import UserPaths
from .session import Session

__all__ = [
    "InterpreterUnsupported",
    "Session",
    "TritonCompileError",
    "UserPaths",
    "install",
    "refuse_host_memory",
    "register_uninitialised",
]

_runtime: Any = None


def install(user_paths: UserPaths) -> None:
    """Patches Triton's interpreter for the rest of the process."""
    global _runtime
    from . import runtime

    _runtime = runtime.install(user_paths)


def refuse_host_memory(is_in_host_memory: Callable[[Any], bool]) -> None:
    """A launch with a tensor of which this is true ends as on a GPU: its memory cannot be reached."""
    if _runtime is not None:
        _runtime.is_in_host_memory = is_in_host_memory


def register_uninitialised(tensor: Any) -> None:
    """A storage was made by ``torch.empty*`` and filled with a pattern of period 8 bytes or less."""
    if _runtime is not None:
        _runtime.register_uninitialised(tensor)
