"""Which source lines belong to the user, and where in them the running code stands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import CodeType, FrameType, TracebackType

from .errors import Place

_HERE = os.path.dirname(os.path.abspath(__file__))
_LIBRARY_FOLDERS = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)


@dataclass
class UserPaths:
    """The user's files. ``text_path`` is the copy that is imported; findings name ``path`` instead."""

    text_path: str
    path: str
    folders: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Position:
    """One frame: its file as it is shown to people, and whether it is one of the user's."""

    file: str
    line: int
    is_users: bool

    def place(self) -> Place:
        """As the protocol's ``Place``."""
        return {"file": self.file, "line": self.line}


class Places:
    """Maps frames to positions."""

    def __init__(self, paths: UserPaths) -> None:
        self._paths = paths
        self._folders = [os.path.realpath(folder) + os.sep for folder in paths.folders]
        self._text_paths = {paths.text_path, os.path.realpath(paths.text_path)}
        self._known: dict[str, tuple[str, bool]] = {}
        self._boundary: set[CodeType] = set()

    def stop_at(self, code: CodeType) -> None:
        """Frames outside this function do not belong to a kernel."""
        self._boundary.add(code)

    def shown(self, filename: str) -> tuple[str, bool]:
        """The file as it is named in findings, and whether it is one of the user's."""
        known = self._known.get(filename)
        if known is None:
            known = self._known[filename] = self._classify(filename)
        return known

    def _classify(self, filename: str) -> tuple[str, bool]:
        real = os.path.realpath(filename)
        if filename in self._text_paths or real in self._text_paths:
            return self._paths.path, True
        if any(folder in real for folder in _LIBRARY_FOLDERS) or real.startswith(_HERE + os.sep):
            return filename, False
        if not os.path.exists(real):
            # Code made from a string (`<string>`): there is no line to show.
            return filename, False
        is_users = any(real.startswith(folder) for folder in self._folders)
        return filename, is_users

    def here(self) -> tuple[Place | None, list[Place]]:
        """Innermost user line of the running kernel and the lines that called it, nearest first."""
        frame: FrameType | None = sys._getframe(1)
        positions = []
        while frame is not None and frame.f_code not in self._boundary:
            positions.append((frame.f_code, frame.f_lineno))
            frame = frame.f_back
        return self._user_lines(positions)

    def host(self) -> Place | None:
        """Innermost user line of the whole stack: the launch, when a kernel is not yet running."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file, is_users = self.shown(frame.f_code.co_filename)
            if is_users:
                return {"file": file, "line": frame.f_lineno}
            frame = frame.f_back
        return None

    def of_traceback(self, traceback: TracebackType | None) -> tuple[Place | None, list[Place]]:
        """As `here`, for a raised exception; frames outside the launch are left out."""
        positions: list[tuple[CodeType, int]] = []
        while traceback is not None:
            code = traceback.tb_frame.f_code
            if code in self._boundary:
                positions.clear()
            else:
                positions.append((code, traceback.tb_lineno))
            traceback = traceback.tb_next
        positions.reverse()
        return self._user_lines(positions)

    def _user_lines(self, frames: Iterable[tuple[CodeType, int]]) -> tuple[Place | None, list[Place]]:
        lines: list[Place] = []
        outsider: Place | None = None
        for code, line in frames:
            file, is_users = self.shown(code.co_filename)
            if not is_users:
                if outsider is None and not self._is_machinery(code.co_filename):
                    outsider = {"file": file, "line": line}
                continue
            place = {"file": file, "line": line}
            if code.co_name != "<lambda>" and (not lines or lines[-1] != place):
                lines.append(place)
        if not lines:
            # A library's kernel: the user's line that launched it says more than the library's own.
            return self.host() or outsider, []
        return lines[0], lines[1:]

    def _is_machinery(self, filename: str) -> bool:
        real = os.path.realpath(filename)
        return (
            real.startswith(_HERE + os.sep)
            or f"{os.sep}triton{os.sep}" in real
            or f"{os.sep}numpy{os.sep}" in real
            or not os.path.exists(real)
        )
