"""Tells tensors that would be in host memory from those on the pretended GPU, though all are on the CPU.

`torch.empty(n)` without a device is a CPU tensor for PyTorch, and a kernel that gets it fails on a GPU. What
is in host memory is remembered by storage, so views need no care. Whoever is unknown counts as on the GPU.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

_SWEEP = 256


class HostMemory:
    """Storages in host memory."""

    def __init__(self) -> None:
        self._storages: dict[int, StorageWeakRef] = {}
        self.is_default = True
        """Whether tensors made without a device are in host memory."""

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is in host memory."""
        key = _key(tensor)
        known = None if key is None else self._storages.get(key)
        return known is not None and not known.expired()

    def add(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor is in host memory from now on, and so is every view of it."""
        key = _key(tensor)
        if key is not None:
            if len(self._storages) >= _SWEEP:
                self._storages = {k: ref for k, ref in self._storages.items() if not ref.expired()}
            self._storages[key] = StorageWeakRef(tensor.untyped_storage())
        return tensor

    def moved(self, tensor: torch.Tensor, result: torch.Tensor, to_host: bool) -> torch.Tensor:
        """What `tensor.to(…)` returns: a copy when the other memory is asked for."""
        if self.holds(tensor) is not to_host and _key(tensor) == _key(result):
            result = result.clone()
        if to_host:
            return self.add(result)
        # `clone` was one more function on a CPU tensor.
        self._forget(result)
        return result

    def place(self, result: Any, arguments: Iterable[Any], to_host: bool | None) -> None:
        """Where a torch function put its result. `to_host`: what was said by `device=`, if anything."""
        made = list(_tensors([result]))
        if not made:
            return
        given = list(_tensors(arguments))
        if to_host is None:
            to_host = all(self.holds(tensor) for tensor in given) if given else self.is_default
        known = {_key(tensor) for tensor in given}
        for tensor in made:
            key = _key(tensor)
            if key is None or key in known:
                continue
            if to_host:
                self.add(tensor)
            else:
                self._forget(tensor)

    def _forget(self, tensor: torch.Tensor) -> None:
        key = _key(tensor)
        if key is not None:
            self._storages.pop(key, None)


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif type(value) in (tuple, list):
            yield from _tensors(value)


def _key(tensor: torch.Tensor) -> int | None:
    if tensor.layout != torch.strided:
        return None
    try:
        return tensor.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return None  # fake and functional tensors have no memory
