"""Counts what products of matrices and convolutions cost; all else costs about as much as it has elements.

torch has a counter of its own, whose first use imports several seconds of its compiler.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_PRODUCTS = {"linear", "matmul", "mm", "bmm", "mv", "addmm", "addbmm", "baddbmm", "__matmul__", "__rmatmul__"}


class ProductCount(TorchFunctionMode):
    """In here `flops` counts multiplications and additions."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Tensor)]
        if isinstance(result, torch.Tensor) and len(tensors) > 1:
            self.flops += 2 * result.numel() * _terms(str(getattr(func, "__name__", "")), tensors)
        return result


def _terms(name: str, tensors: list[torch.Tensor]) -> int:
    """Terms of the sum behind one element of the result; 0 for what is no product."""
    if name in _PRODUCTS:
        # `addmm` and its kin have what is added first.
        left = tensors[1] if name.startswith(("add", "badd")) and len(tensors) > 2 else tensors[0]
        return left.shape[-1] if left.dim() else 1
    if name.startswith("conv"):
        weight = tensors[1]
        return weight.numel() // max(weight.shape[0], 1) if weight.dim() else 1
    if name == "scaled_dot_product_attention":
        return 2 * tensors[1].shape[-2]
    if name in ("einsum", "tensordot", "bilinear"):
        return max(tensor.numel() // max(tensor.shape[0], 1) for tensor in tensors if tensor.dim())
    return 0
