"""Arithmetic of a reference in float64, whatever dtypes it names."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
_HALVES = {torch.float16: torch.float64, torch.bfloat16: torch.float64}


@contextlib.contextmanager
def in_float64(*, with_halves: bool = False) -> Iterator[None]:
    """In here casts to float32 become casts to float64, and tensors without a dtype are float64.

    `with_halves`: those to float16 and bfloat16 as well. What a reference rounds on its way it also rounds
    in the case's own dtype, where it counts as its error. Eight-bit floats stay: quantised results consist
    of them.
    """
    # Tensors made without a dtype (`torch.zeros(n)`) would otherwise narrow what is stored in them.
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _NarrowAsFloat64(with_halves=with_halves):
            yield
    finally:
        torch.set_default_dtype(before)


class _NarrowAsFloat64(TorchFunctionMode):
    """Turns every cast to a narrower dtype into a cast to float64."""

    def __init__(self, *, with_halves: bool) -> None:
        super().__init__()
        self.wider = {**_WIDER, **_HALVES} if with_halves else _WIDER
        halves = {torch.Tensor.half, torch.Tensor.bfloat16} if with_halves else set()
        self.casts = {torch.Tensor.float, *halves}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func in self.casts:
            return args[0].double()
        if func is torch.Tensor.view:
            # With a dtype it looks at bytes and casts nothing.
            return func(*args, **(kwargs or {}))
        wider_args = [self._wider_dtype(value) for value in args]
        wider_kwargs = {name: self._wider_dtype(value) for name, value in (kwargs or {}).items()}
        return func(*wider_args, **wider_kwargs)

    def _wider_dtype(self, value: Any) -> Any:
        return self.wider.get(value, value) if isinstance(value, torch.dtype) else value
