"""Threads that run code of the user's beside the one that calls the entry."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from .errors import UserFiles

# User code may replace them.
_frames = sys._current_frames
_own = threading.get_ident


def of_user(files: UserFiles | None) -> set[int]:
    """Other threads on whose stack a function of the user's stands, by their numbers.

    A thread of a pool that waits for work is none of them, nor is one of a library.
    """
    if files is None:
        return set()
    own = _own()
    return {number for number, frame in _frames().items() if number != own and _runs(frame, files)}


def enter_in_each(make: Callable[[], AbstractContextManager[Any]]) -> None:
    """From now on each new thread runs inside of what `make` gives. Once a process."""
    true_start: Any = threading.Thread._bootstrap_inner

    def start(self: threading.Thread) -> None:
        with make():
            true_start(self)

    threading.Thread._bootstrap_inner = start


def _runs(frame: FrameType | None, files: UserFiles) -> bool:
    while frame is not None:
        if files.shown(frame.f_code.co_filename) is not None:
            return True
        frame = frame.f_back
    return False
