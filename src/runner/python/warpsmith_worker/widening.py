"""Arithmetic of a reference in float64, whatever dtypes it names."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}


@contextlib.contextmanager
def in_float64() -> Iterator[None]:
    """In here casts to float32 become casts to float64, and tensors without a dtype are float64."""
    # Tensors made without a dtype (`torch.zeros(n)`) would otherwise narrow what is stored in them.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Float32AsFloat64():
            yield
    finally:
        torch.set_default_dtype(before)


class _Float32AsFloat64(TorchFunctionMode):
    """Turns every cast to float32 into a cast to float64."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.float:
            return args[0].double()
        if func is torch.Tensor.view:
            # With a dtype it looks at bytes and casts nothing.
            return func(*args, **(kwargs or {}))
        wider_args = [_wider_dtype(value) for value in args]
        wider_kwargs = {name: _wider_dtype(value) for name, value in (kwargs or {}).items()}
        return func(*wider_args, **wider_kwargs)


def _wider_dtype(value: Any) -> Any:
    return _WIDER.get(value, value) if isinstance(value, torch.dtype) else value
