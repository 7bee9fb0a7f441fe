"""Where in the user's files a kernel does not compile, from what Triton's compiler says."""

from __future__ import annotations

from typing import Any

from .errors import UserFiles, chain
from .launches import definition_of


def place_of_compile_error(
    error: BaseException, kernels: list[Any], files: UserFiles
) -> dict[str, Any] | None:
    """The line of the innermost function of the user's; None when no function of theirs is found.

    A compiler's error names a line within the text of a function. That text is looked for among the kernels
    that were launched, and among the functions that their modules know.
    """
    known = _functions_of(kernels)
    for item in reversed(list(chain(error))):
        source, line = getattr(item, "src", None), getattr(getattr(item, "node", None), "lineno", None)
        if not isinstance(source, str) or not isinstance(line, int):
            continue
        for function in known:
            if getattr(function, "src", None) != source:
                continue
            at = definition_of(function, files)
            if at["file"] == files.path or files.shown(at["file"]) is not None:
                return {"file": at["file"], "line": at["line"] + line - 1}
    return None


def _functions_of(kernels: list[Any]) -> list[Any]:
    """The kernels, and what else their modules hold that has a text."""
    found: list[Any] = []
    for kernel in kernels:
        for value in [kernel, *getattr(kernel, "__globals__", {}).values()]:
            function = _unwrapped(value)
            if function is not None and not any(function is other for other in found):
                found.append(function)
    return found


def _unwrapped(value: Any) -> Any:
    """The function with a text that autotuners and heuristics hold; None when there is none."""
    while value is not None and not hasattr(value, "raw_src"):
        value = getattr(value, "fn", None)
    return value
