"""Turns an exception of user code into the protocol's `Raised`."""

import os
import re
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from . import limits, procfs
from .messages import clean_text

_LONGEST_MESSAGE = 4096
_LONGEST_TRACEBACK = 8192
_MOST_CALLERS = 32
# An allocation that fails with less than this left failed because of the limit.
_NEAR_LIMIT = 0.9

_OUT_OF_MEMORY_TEXTS = ("can't allocate memory", "Unable to allocate", "Cannot allocate memory")
# What torch and Triton say when code wants a real GPU.
_NEEDS_GPU_TEXTS = (
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "Torch not compiled with CUDA enabled",
    "CUDA driver version is insufficient",
    "no CUDA-capable device",
    "Cannot access accelerator device",
    "0 active drivers",
)
_SIZES = re.compile(r"allocate (?P<count>[0-9.]+) ?(?P<unit>bytes|[KMGTPE]iB)")
_UNITS = {unit: 1024**power for power, unit in enumerate(("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}


@dataclass
class UserFiles:
    """Which files are the user's, and how they are shown."""

    text_path: str
    """The copy that is imported."""
    path: str
    """The file it is a copy of."""
    folders: list[str] = field(default_factory=list)
    """Files below these are the user's too, installed packages excepted."""
    _shown: dict[str, str | None] = field(default_factory=dict)

    def shown(self, filename: str) -> str | None:
        """The path that people know, or None when the file is not the user's."""
        if filename not in self._shown:
            self._shown[filename] = self._find(filename)
        return self._shown[filename]

    def _find(self, filename: str) -> str | None:
        if filename == self.text_path or os.path.realpath(filename) == os.path.realpath(self.text_path):
            return self.path
        is_ours = filename.startswith(os.path.dirname(os.path.abspath(__file__)) + os.sep)
        if is_ours or is_installed(filename) or not os.path.isabs(filename):
            return None
        below = any(filename.startswith(os.path.join(folder, "")) for folder in self.folders)
        return filename if below else None


def is_installed(filename: str) -> bool:
    """Whether a file belongs to the standard library or an installed package."""
    parts = filename.split(os.sep)
    if "site-packages" in parts or "dist-packages" in parts:
        return True
    stdlib = sysconfig.get_paths()["stdlib"]
    return filename.startswith(os.path.join(stdlib, ""))


def describe(error: BaseException, files: UserFiles | None = None) -> dict[str, Any]:
    """`Raised` of the protocol, without launches and findings."""
    error = _root(error)
    raised: dict[str, Any] = {
        "exception": type(error).__name__,
        "message": message_of(error),
        "code": _code(error, files),
        "missing": None,
        "place": None,
        "column": None,
        "called_from": [],
        "traceback": _formatted(error, files),
    }
    if isinstance(error, ModuleNotFoundError) and error.name:
        raised["missing"] = error.name.partition(".")[0]
    if files is not None:
        places = user_places(error.__traceback__, files)
        raised["place"] = places[0] if places else None
        raised["called_from"] = places[1 : 1 + _MOST_CALLERS]
    if raised["code"] == "syntax-error":
        _place_syntax_error(raised, error, files)
    return raised


def message_of(error: BaseException) -> str:
    """What the exception says; its own `__str__` may fail."""
    try:
        text = str(error)
    except BaseException as second:
        text = f"(its message cannot be read: {type(second).__name__})"
    return clean_text(text[:_LONGEST_MESSAGE])


def user_places(trace: TracebackType | None, files: UserFiles) -> list[dict[str, Any]]:
    """The lines in the user's files, innermost first."""
    places = []
    for frame, line in traceback.walk_tb(trace):
        shown = files.shown(frame.f_code.co_filename)
        if shown is not None and line:
            places.append({"file": clean_text(shown), "line": line})
    return places[::-1]


def chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, then those that led to it."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def needs_gpu(error: BaseException) -> bool:
    """Whether the code failed because there is no GPU, not because it is wrong."""
    # Deliberately raised AssertionErrors and the like are the user's own words.
    return isinstance(error, RuntimeError) and any(text in message_of(error) for text in _NEEDS_GPU_TEXTS)


def _root(error: BaseException) -> BaseException:
    """Triton wraps what happens inside a kernel; the wrapped exception says more."""
    while type(error).__module__.partition(".")[0] == "triton" and error.__cause__ is not None:
        if type(error).__name__ != "InterpreterError":
            break
        error = error.__cause__
    return error


def _code(error: BaseException, files: UserFiles | None) -> str:
    if isinstance(error, SyntaxError) or _is_null_byte_error(error):
        is_users = files is None or _unparsable_file(error, files) is not None
        return "syntax-error" if is_users else "raised"
    if isinstance(error, ImportError):
        return "import-error"
    if is_out_of_memory(error):
        return "out-of-memory"
    if needs_gpu(error):
        return "unsupported"
    return "raised"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed because of our limit, which is no fault of the kernel.

    An exception that merely says so is not believed: the limit must really have been near.
    """
    text = message_of(error)
    claims = isinstance(error, MemoryError) or any(words in text for words in _OUT_OF_MEMORY_TEXTS)
    limit = limits.address_space_limit_bytes()
    if not claims or limit is None:
        return False
    return procfs.address_space_peak_bytes() + _requested_bytes(text) > _NEAR_LIMIT * limit


def _requested_bytes(text: str) -> float:
    found = _SIZES.search(text)
    return float(found["count"]) * _UNITS[found["unit"]] if found else 0.0


def _is_null_byte_error(error: BaseException) -> bool:
    return type(error) is ValueError and "null bytes" in str(error)


def _unparsable_file(error: BaseException, files: UserFiles) -> str | None:
    """The user's file that is no Python; None when it is another's, or a text that running code compiled."""
    filename = getattr(error, "filename", None)
    if filename:
        return files.shown(filename)
    # Bytes that are no text at all: the error names no file, and no line of the file ever ran.
    return None if user_places(error.__traceback__, files) else files.path


def _place_syntax_error(raised: dict[str, Any], error: BaseException, files: UserFiles | None) -> None:
    shown = getattr(error, "filename", None) if files is None else _unparsable_file(error, files)
    # An undecodable file has no line, some errors have line 0.
    line = max(getattr(error, "lineno", None) or 1, 1)
    raised["place"] = {"file": clean_text(shown or ""), "line": line}
    if isinstance(error, SyntaxError):
        raised["message"] = clean_text((error.msg or "invalid syntax")[:_LONGEST_MESSAGE])
        raised["column"] = error.offset if error.offset and error.offset > 0 else None


def _formatted(error: BaseException, files: UserFiles | None) -> str:
    try:
        lines = traceback.TracebackException.from_exception(error, limit=-64, compact=True).format()
        text = "".join(lines)
    except BaseException as second:
        text = f"(the traceback cannot be formatted: {type(second).__name__})"
    if files is not None:
        text = text.replace(files.text_path, files.path)
    return clean_text(text[-_LONGEST_TRACEBACK:])
