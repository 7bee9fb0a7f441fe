"""The pattern of memory that nobody wrote."""

import torch

from .dtypes import BY_TORCH, ElementType


def _other_pattern(element: ElementType) -> int:
    if element.max_finite is None:
        return 0 if element.poison is None else ~element.poison
    return int(torch.tensor(element.max_finite / 4, dtype=element.torch).view(element.bits).item())


# Made before any user code can watch.
_OTHER = {element.name: _other_pattern(element) for element in BY_TORCH.values()}


def fill_storage(tensor: torch.Tensor, *, other: bool = False) -> bool:
    """Poison the whole storage of a tensor, padding between its elements included.

    The `other` pattern is a large ordinary value: what depends on memory that nobody wrote then comes out
    differently. False when the dtype has no poison pattern, or the tensor no memory. Truth values have none:
    they are all true, and false with `other`, so that one of the two shows which elements nobody wrote.
    """
    element = BY_TORCH.get(tensor.dtype)
    if element is None or tensor.numel() == 0:
        return False
    if element.poison is None:
        _fill_truth(tensor, not other)
        return False
    # A tensor of its own over the storage: no autograd, no version counter, no views to mind.
    storage_device = tensor.untyped_storage().device
    whole = torch.empty(0, dtype=element.bits, device=storage_device).set_(tensor.untyped_storage())
    whole.fill_(_OTHER[element.name] if other else element.poison)
    return True


def _fill_truth(tensor: torch.Tensor, value: bool) -> None:
    storage = tensor.untyped_storage()
    torch.empty(0, dtype=torch.int8, device=storage.device).set_(storage).fill_(int(value))


def mask(bits: torch.Tensor, element: ElementType) -> torch.Tensor | None:
    """Which elements hold the pattern; `bits` is the tensor viewed as `element.bits`. None without one."""
    return None if element.poison is None else bits == element.poison
