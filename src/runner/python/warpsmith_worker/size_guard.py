"""Stops code that is about to make more elements than anybody can use, before there is memory for them."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_SIZE_FIRST = {torch.rand, torch.randn, torch.zeros, torch.ones, torch.empty, torch.full}


class TooManyElements(Exception):
    """`elements`: made so far, with those that were asked for last."""

    def __init__(self, elements: int) -> None:
        super().__init__(f"{elements:,} elements")
        self.elements = elements


class SizeGuard(TorchFunctionMode):
    """In here tensors of a given size may have so many elements together."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self.elements = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        self.elements += _asked_for(func, args, kwargs)
        if self.elements > self.most:
            raise TooManyElements(self.elements)
        return func(*args, **kwargs)


def _asked_for(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Elements of what a function that is given a size will make."""
    size: Any = kwargs.get("size")
    if size is None and func in _SIZE_FIRST:
        size = args[0] if args and isinstance(args[0], tuple | list | torch.Size) else args
    elif size is None and func is torch.randint:
        size = next((value for value in args if isinstance(value, tuple | list | torch.Size)), None)
    if not isinstance(size, tuple | list | torch.Size) or not all(isinstance(length, int) for length in size):
        return 0
    return math.prod(size)
