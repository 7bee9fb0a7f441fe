"""Tensors whose memory the judge makes and a candidate maps: memory files, or device memory of an arena."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import memory, place
from .arenas import Arena, ArenaPool, Room, room_bytes
from .channel import Message
from .dtypes import ElementType, by_name


class Refused(Exception):
    """A request that cannot be served; `code` goes into the `failed` answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class SharedTensor:
    """One input or output whose memory a candidate maps as well."""

    key: str
    name: str
    element: ElementType
    shape: list[int]
    strides: list[int]
    descriptor: int | None
    """None when it has no bytes, or lies in an arena."""
    shared: torch.Tensor | None
    """The storage as the candidate sees it, or a copy, see `far` (uint8); None when it is not looked at."""
    private: torch.Tensor | None = None
    """What the judge put there (uint8); of inputs only."""
    offset: int = 0
    """In elements, from the beginning of the storage."""
    room: Room | None = None
    """Its place in an arena of device memory."""
    far: torch.Tensor | None = None
    """The memory that the candidate maps (uint8), where the judge looks at a copy of it on another device."""

    @property
    def storage_bytes(self) -> int:
        return memory.storage_elements(self.shape, self.strides, self.offset) * self.element.itemsize

    def view(self, storage: torch.Tensor | None) -> torch.Tensor:
        """The tensor over one of its storages."""
        if not self.storage_bytes:
            return memory.empty_view(self.element.torch, self.shape, self.strides)
        if storage is None:
            raise Refused("not-comparable", f"{self.name} was left untouched")
        return memory.view_storage(storage, self.element.torch, self.shape, self.strides, self.offset)

    def copied(self) -> torch.Tensor | None:
        """The storage as it is now, where no candidate reaches it."""
        # Where the memory that is mapped is another, this is such a copy already.
        return self.shared if self.shared is None or self.far is not None else self.shared.clone()

    @property
    def is_changed(self) -> bool:
        """Whether the candidate sees other bytes than the judge put there."""
        return (
            self.shared is not None
            and self.private is not None
            and not torch.equal(self.shared, self.private)
        )

    def send(self) -> None:
        """Let the candidate see what the judge wrote, where the memory is not the same."""
        if self.far is not None and self.shared is not None:
            self.far.copy_(self.shared)

    def fetch(self) -> None:
        """Look at what the candidate left, where the memory is not the same."""
        if self.far is not None and self.shared is not None:
            self.shared.copy_(self.far)

    def record(self) -> Message:
        """What the supervisor and a candidate may know about it."""
        told = {
            "key": self.key,
            "name": self.name,
            "dtype": self.element.name,
            "shape": self.shape,
            "strides": self.strides,
            "offset": self.offset,
            "storage_bytes": self.storage_bytes,
            "has_memory": self.descriptor is not None,
        }
        return told if self.room is None else {**told, "device_memory": self.room.record()}


class Files:
    """A memory file for each tensor; on a GPU the values cross by way of the host."""

    arena: Arena | None = None

    def make(self, key: str, spec: Message, strides: list[int], *, mapped: bool) -> SharedTensor:
        """Memory for one tensor; `mapped` when its values matter."""
        item = _unplaced(key, spec, strides)
        if item.storage_bytes:
            item.descriptor = memory.create_file(key, item.storage_bytes)
            try:
                item.shared = memory.map_storage(item.descriptor, item.storage_bytes) if mapped else None
                if mapped and place.is_gpu():
                    item.far = item.shared
                    item.shared = torch.empty(item.storage_bytes, dtype=torch.uint8, device=place.current())
            except BaseException:
                os.close(item.descriptor)
                raise
        return item

    def damaged(self, _items: list[SharedTensor]) -> list[str]:
        """Guard pages end a process instead."""
        return []

    def release(self) -> None:
        """Files live as long as somebody maps them."""


class OneArena:
    """All tensors of a case in one arena."""

    def __init__(self, pool: ArenaPool, sizes: list[int]) -> None:
        """`sizes` are the bytes of the storages to come. Raises MemoryError."""
        self._pool = pool
        total = sum(map(room_bytes, sizes))
        self.arena: Arena | None = pool.arena(total) if total else None

    def make(self, key: str, spec: Message, strides: list[int], *, mapped: bool) -> SharedTensor:
        """Memory for one tensor, between guards when its values matter."""
        item = _unplaced(key, spec, strides)
        if item.storage_bytes:
            if self.arena is None:
                raise ValueError(f"no arena was made for {item.name}")
            item.room = self.arena.take(item.storage_bytes)
            if mapped:
                item.shared = item.room.storage
                if not place.is_gpu():
                    item.far = item.shared
                    item.shared = torch.empty(item.storage_bytes, dtype=torch.uint8)
                item.room.guard(self._pool.pattern)
        return item

    def damaged(self, items: list[SharedTensor]) -> list[str]:
        """Names of tensors around which somebody wrote; their guards are put back."""
        found = []
        for item in items:
            room = item.room
            if room is not None and item.shared is not None and not room.is_intact(self._pool.pattern):
                found.append(item.name)
                room.guard(self._pool.pattern)
        return found

    def release(self) -> None:
        """Give the arena to later cases."""
        if self.arena is not None:
            self._pool.give_back(self.arena)
            self.arena = None


MakeShared = Callable[..., SharedTensor]
CaseMemory = Files | OneArena


def storage_bytes(spec: Message) -> int:
    """Bytes that a tensor's storage will have; its strides are contiguous when it names none."""
    strides = spec.get("strides") or memory.contiguous_strides(spec["shape"])
    return _unplaced("", spec, strides).storage_bytes


def _unplaced(key: str, spec: Message, strides: list[int]) -> SharedTensor:
    element = by_name(spec["dtype"])
    if len(strides) != len(spec["shape"]):
        raise Refused("bad-request", f"{spec['name']}: shape {spec['shape']} with strides {strides}")
    offset = spec.get("offset", 0)
    return SharedTensor(key, spec["name"], element, spec["shape"], strides, None, None, offset=offset)


def input_record(spec: Message, item: SharedTensor | Any) -> Message:
    """What is told of an input, a tensor or a plain value."""
    if isinstance(item, SharedTensor):
        return item.record()
    return {"name": spec["name"], "scalar": item}
