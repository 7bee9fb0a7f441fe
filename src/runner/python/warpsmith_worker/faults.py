"""Tells what failed in a candidate's process: the user's code, a lacking feature, or our own code."""

import os
import traceback
from collections.abc import Callable
from typing import Any

from . import cuda_shim, interpreter
from .errors import UserFiles, chain, describe, message_of
from .module_role import Unusable
from .place import is_gpu

_OWN_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
# These only call the user's code: a missing entry or a wrong argument surfaces in them.
_CALLERS = tuple(
    os.path.join(_OWN_FOLDER, name)
    for name in (
        "candidate.py",
        "loading.py",
        "module_candidate.py",
        "problem.py",
        "product_count.py",
        "size_guard.py",
    )
)
# In these, torch and Triton are called on behalf of the user's code.
_PASS_ON = tuple(os.path.join(_OWN_FOLDER, name) for name in ("cuda_shim.py", "guards.py", "launches.py"))


class InterpreterFailed(Exception):
    """Our own code failed while it ran the user's: the case could not be run."""


def ours(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call our own interpreter: whatever goes wrong in there is never the kernel's fault."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        raise InterpreterFailed(f"{type(error).__name__}: {error}") from error


def describe_fault(
    error: BaseException, files: UserFiles | None, unsupported: dict[str, Any] | None = None
) -> dict[str, Any]:
    """`Raised` of the protocol, without launches and findings.

    `unsupported` is what the interpreter's report says: whatever followed a feature that is lacking may be
    its consequence, so it decides.
    """
    if isinstance(error, Unusable):
        return _describe_unusable(error, files)
    raised = describe(error, files)
    compile_error = _first(error, interpreter.TritonCompileError)
    lacking = _first(error, interpreter.InterpreterUnsupported)
    if lacking is not None or unsupported is not None:
        raised["code"] = "unsupported"
        place = getattr(lacking, "place", None) or (unsupported or {}).get("place")
        raised["place"] = place or raised["place"]
        raised["message"] = unsupported["message"] if unsupported else message_of(lacking)
    elif compile_error is not None:
        raised["code"] = "compile-error"
        raised["message"] = message_of(compile_error)
        if compile_error.place is not None:
            raised["place"] = compile_error.place
            raised["called_from"] = compile_error.called_from or []
    elif raised["code"] != "out-of-memory" and is_ours(error, files):
        raised["code"] = "unsupported"
        who = "worker" if is_gpu() else "interpreter"
        raised["message"] = f"warpsmith's {who} failed: {raised['message']}"
    return raised


def _describe_unusable(error: Unusable, files: UserFiles | None) -> dict[str, Any]:
    """Where the user's code raised; a lack of memory stays what it is."""
    raised = describe(error.__cause__ or error, files)
    if raised["code"] != "out-of-memory":
        raised["code"] = error.code
    raised["exception"], raised["message"] = type(error).__name__, message_of(error)
    return raised


def is_ours(error: BaseException, files: UserFiles | None) -> bool:
    """Whether the exception began in our own code.

    The innermost frame that is either the user's or ours decides; frames of torch, Triton or NumPy were
    called by one of the two.
    """
    if isinstance(error, InterpreterFailed):
        return True
    passed_on = False
    for frame, _line in reversed(list(traceback.walk_tb(error.__traceback__))):
        filename = frame.f_code.co_filename
        if files is not None and files.shown(filename) is not None:
            return False
        # What torch raises comes through the shim, which called it on behalf of somebody further out.
        passed_on = frame.f_code is cuda_shim.forward.__code__ or (passed_on and filename in _PASS_ON)
        if filename.startswith(_OWN_FOLDER) and filename not in _CALLERS and not passed_on:
            return True
    return False


def _first(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    return next((item for item in chain(error) if isinstance(item, kind)), None)
