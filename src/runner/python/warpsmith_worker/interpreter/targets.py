"""What CUDA's backend allows, asked from the installed Triton where it can be asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any


def cuda_like(options: Any) -> Any:
    """The interpreter's options with asserts on and CUDA's limits for `tl.dot`."""
    known = {item.name for item in fields(options)}
    wanted: dict[str, Any] = {"debug": True}
    try:
        from triton.backends.nvidia.compiler import CUDAOptions

        cuda = {item.name: item.default for item in fields(CUDAOptions)}
        for name in ("allowed_dot_input_precisions", "default_dot_input_precision"):
            if cuda.get(name):
                wanted[name] = cuda[name]
    except (ImportError, TypeError):
        pass  # another layout of the backend: the interpreter's own limits stay
    return replace(options, **{name: value for name, value in wanted.items() if name in known})


def _no_minimum(_left: Any, _right: Any) -> tuple[int, int, int]:
    return (1, 1, 1)


def min_dot_size() -> Callable[[Any, Any], tuple[int, int, int]]:
    """Smallest (M, N, K) of a product, by the types of its operands."""
    try:
        from triton.backends.compiler import GPUTarget
        from triton.backends.nvidia import compiler

        return compiler.min_dot_size(GPUTarget("cuda", 90, 32))
    except ImportError:
        return _no_minimum
