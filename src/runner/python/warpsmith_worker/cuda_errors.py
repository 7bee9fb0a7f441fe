"""What went wrong on a GPU, from the words in which CUDA, torch and Triton say it."""

from __future__ import annotations

import re

from .messages import clean_text

# The words of cudaGetErrorString, each with the protocol's code. After these the context is of no more use.
_ENDS_CONTEXT = (
    ("illegal memory access", "illegal-access"),
    ("misaligned address", "misaligned-access"),
    ("illegal instruction", "illegal-instruction"),
    ("device-side assert", "device-assert"),
    ("launch timed out", "launch-timeout"),
    ("unspecified launch failure", "launch-failed"),
    ("invalid program counter", "launch-failed"),
    ("hardware stack error", "launch-failed"),
    ("operation not supported on global/shared address space", "launch-failed"),
    ("tensor memory access", "launch-failed"),
    ("launch failure", "launch-failed"),
    ("uncorrectable ECC error", "device-lost"),
    ("uncorrectable NVLink error", "device-lost"),
    ("GPU is lost", "device-lost"),
    ("unknown error", "device-lost"),
)
_OUT_OF_RESOURCES = ("out of resource: ", "too many resources requested for launch")
_OUT_OF_MEMORY = ("CUDA out of memory", "out of memory")
_SPEAKERS = (
    "CUDA error",
    "Triton Error [CUDA]",
    "CUDA driver error",
    "cuBLAS error",
    "CUBLAS_STATUS",
    "CUDNN_STATUS",
)
_CLASSES = ("AcceleratorError", "DriverError")
_ASSERTION = re.compile(r"^(?P<file>.+?):(?P<line>\d+): .*Assertion `.*failed", re.MULTILINE)

ENDS_CONTEXT = frozenset(code for _, code in _ENDS_CONTEXT)
"""Codes after which the runner ends."""


def code_of(error: BaseException) -> str | None:
    """The protocol's code of an exception that a GPU caused; None when it is another one."""
    name = type(error).__name__
    if name == "OutOfResources":
        return "out-of-resources"
    if name == "OutOfMemoryError":
        return "out-of-memory"
    if name in (
        "PTXASError",
        "CompileTimeAssertionFailure",
        "CompilationError",
        "UnsupportedLanguageConstruct",
    ):
        return "compile-error" if type(error).__module__.startswith("triton") else None
    text = _text(error)
    if not isinstance(error, RuntimeError) and name not in _CLASSES:
        return None
    if name not in _CLASSES and not any(words in text for words in _SPEAKERS):
        return "out-of-resources" if _OUT_OF_RESOURCES[0] in text else None
    # The advice in the lines below names faults that did not happen.
    told = sentence_of(error).lower()
    for words, code in _ENDS_CONTEXT:
        if words.lower() in told:
            return code
    if any(words in text for words in _OUT_OF_RESOURCES):
        return "out-of-resources"
    if any(words in text for words in _OUT_OF_MEMORY):
        return "out-of-memory"
    return "cuda-error"


def is_broken_context(error: BaseException) -> bool:
    """Whether every later call in this process would fail as well."""
    return code_of(error) in ENDS_CONTEXT


def sentence_of(error: BaseException) -> str:
    """The line of a message that says something: advice about environment variables is left out."""
    lines = [line.strip() for line in _text(error).splitlines() if line.strip()]
    return clean_text(lines[0][:1024]) if lines else type(error).__name__


def assertion_in(output: str) -> tuple[str, str, int] | None:
    """The first device-side assertion in what a process printed: its line, and the file and line it names."""
    found = _ASSERTION.search(output)
    if found is None:
        return None
    line = output[found.start() :].partition("\n")[0]
    return clean_text(line.strip()[:1024]), found["file"], int(found["line"])


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""
