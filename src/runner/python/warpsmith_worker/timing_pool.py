"""Copies of a case's inputs that timed calls rotate over.

One entry has the values of the case. In the others every float tensor holds such values at other places, some
of them twice and others not at all, so that what a call remembered of another one is wrong, sums included;
integers and booleans, which may be indices, stay.
"""

from __future__ import annotations

import secrets
from typing import Any

import torch

# Offsets of entries must differ from each other and from the widths that tensors have.
_SHIFT = 7919
BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of the same size, in bytes."""
# Kernels are compiled for what an address is a multiple of, and torch aligns at least so far itself.
_ALIGNMENT_BYTES = 256
_MOST_ENTRIES = 64
_FEWEST_ENTRIES = 2

# User code may replace what the module holds.
_randbelow = secrets.randbelow

Inputs = dict[str, Any]


def entries_for(input_bytes: int, wanted_bytes: int, most_bytes: int) -> int:
    """How many copies: more than `wanted_bytes` together, but at most `most_bytes`, and at least one."""
    if input_bytes == 0:
        return 1
    wanted = min(max(wanted_bytes // input_bytes + 1, _FEWEST_ENTRIES), _MOST_ENTRIES)
    return max(min(wanted, most_bytes // input_bytes), 1)


class Pool:
    """Entries of inputs by name; entry 0 is the one with the values of the case, once `settle` was called."""

    def __init__(self, inputs: Inputs, wanted_bytes: int, most_bytes: int) -> None:
        self._sources = inputs
        tensors = [value for value in inputs.values() if isinstance(value, torch.Tensor)]
        entry_bytes = sum(_span(tensor) * tensor.element_size() for tensor in tensors)
        count = entries_for(entry_bytes, wanted_bytes, most_bytes)
        self.bytes = count * entry_bytes
        self._turns = 0
        # Until it is settled, entry 0 has other values too: nothing that a call keeps from before is right.
        self.entries = [
            {name: _moved_copy(value, (at + 1) * _SHIFT) for name, value in inputs.items()}
            for at in range(count)
        ]
        self._unused = count - 1
        """Entries that were not yet entry 0 since all others were."""

    def turn(self) -> int:
        """Entry 0 gets values as the others have and goes to the end; another one, drawn, takes its place.

        Returns the place, counted after entry 0 left it, from which that one came. Raises
        torch.OutOfMemoryError, and then only values of entry 0 have changed.
        """
        turns = self._turns + 1
        if len(self.entries) >= _FEWEST_ENTRIES:
            for name, source in self._sources.items():
                if isinstance(source, torch.Tensor) and source.numel():
                    _move(source, self.entries[0][name], (len(self.entries) + turns) * _SHIFT)
        self._turns = turns
        if self._unused == 0:
            self._unused = len(self.entries) - 1
        # Those that were not yet in front stand at the beginning once the first has left.
        at = _randbelow(self._unused) if self._unused else 0
        self._unused = max(self._unused - 1, 0)
        turned(self.entries, at)
        return at

    def settle(self) -> None:
        """Give entry 0 the values of the case."""
        for name, source in self._sources.items():
            if isinstance(source, torch.Tensor) and source.numel():
                _whole(self.entries[0][name]).copy_(_whole(source))


def turned(items: list[Any], at: int) -> None:
    """Put the first to the end, and of what is left the one at a place to the front."""
    items.append(items.pop(0))
    items.insert(0, items.pop(at))


def _moved_copy(value: Any, shift: int) -> Any:
    """A copy with the same strides, padding and alignment in memory of its own."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.numel() == 0:
        return value.clone()
    lead = value.data_ptr() % _ALIGNMENT_BYTES // value.element_size()
    storage = torch.empty(lead + _span(value), dtype=value.dtype, device=value.device)
    copy = storage.as_strided(value.shape, value.stride(), lead)
    _whole(copy).copy_(_whole(value))
    _move(value, copy, shift)
    return copy


def _move(value: torch.Tensor, copy: torch.Tensor, shift: int) -> None:
    """Write values of a float tensor into a copy of it, half of them and at other places."""
    if value.is_floating_point() and 0 not in value.stride():
        bits = BITS[value.element_size()]
        # By bits, because not every dtype can be rolled.
        rolled = value.contiguous().view(bits).reshape(-1).roll(shift)
        half = rolled.numel() // 2
        rolled[:half] = rolled[rolled.numel() - half :]
        copy.view(bits).copy_(rolled.view(value.shape))


def _span(tensor: torch.Tensor) -> int:
    """Elements from the first to the last that the strides reach, padding included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """All of those as integers: what they mean does not matter to a copy."""
    return tensor.as_strided((_span(tensor),), (1,), tensor.storage_offset()).view(
        BITS[tensor.element_size()]
    )
