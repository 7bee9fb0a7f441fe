"""The pattern of memory that nobody wrote."""

import torch

from .dtypes import BY_TORCH, ElementType


def fill_storage(tensor: torch.Tensor) -> bool:
    """Poison the whole storage of a tensor, padding between its elements included.

    False when the dtype has no poison pattern, or the tensor no memory.
    """
    element = BY_TORCH.get(tensor.dtype)
    if element is None or element.poison is None or tensor.numel() == 0:
        return False
    # A tensor of its own over the storage: no autograd, no version counter, no views to mind.
    whole = torch.empty(0, dtype=element.bits).set_(tensor.untyped_storage())
    whole.fill_(element.poison)
    return True


def mask(bits: torch.Tensor, element: ElementType) -> torch.Tensor | None:
    """Which elements hold the pattern; `bits` is the tensor viewed as `element.bits`. None without one."""
    return None if element.poison is None else bits == element.poison
