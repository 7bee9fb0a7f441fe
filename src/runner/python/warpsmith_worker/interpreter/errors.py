"""Exceptions of the interpreter mode, and what each of them means for a verdict."""

from __future__ import annotations

from typing import Any

Place = dict[str, Any]
"""``{"file": str, "line": int}`` with a 1-based line, as ``Place`` of the protocol."""


class InterpreterUnsupported(Exception):
    """The kernel uses something that cannot be judged here: the case could not run, nobody is wrong.

    ``code`` is ``inline-asm``, ``libdevice`` or ``interpreter``.
    """

    def __init__(self, message: str, code: str = "interpreter", place: Place | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.place = place


class TritonCompileError(Exception):
    """Triton's front end, or its launcher, would reject the kernel on a GPU."""

    def __init__(
        self,
        message: str,
        place: Place | None = None,
        called_from: list[Place] | None = None,
        is_static_assertion: bool = False,
    ) -> None:
        """``is_static_assertion``: a `tl.static_assert` failed; the autotuner goes on with the others."""
        super().__init__(message)
        self.place = place
        self.called_from = called_from or []
        self.is_static_assertion = is_static_assertion


class DeviceAssertFailed(RuntimeError):
    """A ``tl.device_assert`` did not hold; a GPU would trap, so the launch ends here."""


class FrontEndError(Exception):
    """A rule of Triton's front end that our own checks found broken; becomes `TritonCompileError`."""


class StaticAssertionFailed(FrontEndError):
    """The condition of a `tl.static_assert` is false."""


class AmbiguousTruth(FrontEndError):
    """A tensor with more than one element was used as a condition."""


class NoSource(FrontEndError):
    """A kernel without a source text, which the compiler cannot read."""

    def __init__(self) -> None:
        super().__init__(
            "Triton reads a kernel's source from a file, and this one was made from a string: "
            "@jit functions should be defined in a Python file"
        )
