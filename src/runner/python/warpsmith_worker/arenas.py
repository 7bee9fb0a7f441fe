"""Device memory that the judge exports: one arena holds all tensors of a case, with guard bytes around each.

    | 4 KiB guard | storage, 256-byte aligned | guard to the next 256 bytes, and 4 KiB |  next tensor …

The guards hold a pattern that only the judge knows. Arenas that are no longer needed are kept by size, so
that a candidate which has one open finds the next case in it.
"""

import contextlib
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol

import torch

GUARD_BYTES = 4096
ALIGNMENT_BYTES = 256
# Smaller blocks share pages with others, and whoever opens one opens the page.
_SMALLEST_ARENA_BYTES = 2 << 20
_MOST_KEPT_BYTES = 8 << 30
_MOST_KEPT = 24
_MOST_OPENED = 24
# Between two sizes in which arenas are made: an eighth of a power of two.
_STEPS = 8


class Allocator(Protocol):
    """What arenas need of a driver."""

    def allocate(self, size_bytes: int) -> int: ...
    def free(self, pointer: int) -> None: ...
    def handle(self, pointer: int) -> bytes: ...
    def tensor(self, pointer: int, size_bytes: int, owner: Any = None) -> torch.Tensor: ...
    def make_room(self) -> None: ...


class Opener(Protocol):
    """What a candidate needs of a driver."""

    def open(self, handle: bytes) -> int: ...
    def close(self, pointer: int) -> None: ...
    def tensor(self, pointer: int, size_bytes: int, owner: Any = None) -> torch.Tensor: ...


def room_bytes(storage_bytes: int) -> int:
    """What a tensor takes up in an arena, guards included; nothing when it has no bytes."""
    return 2 * GUARD_BYTES + _aligned(storage_bytes) if storage_bytes else 0


def size_class(size_bytes: int) -> int:
    """The size of the arena that is made for so many bytes."""
    size_bytes = max(size_bytes, _SMALLEST_ARENA_BYTES)
    step = max(_SMALLEST_ARENA_BYTES, (1 << (size_bytes - 1).bit_length()) // 2 // _STEPS)
    return -(-size_bytes // step) * step


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


@dataclass(frozen=True)
class Room:
    """One tensor's part of an arena."""

    arena: "Arena"
    offset_bytes: int
    """Of the storage, from the beginning of the arena."""
    storage: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor

    def guard(self, pattern: torch.Tensor) -> None:
        """Write the pattern around the storage."""
        for guard in (self.before, self.after):
            guard.copy_(pattern[: guard.numel()])

    def is_intact(self, pattern: torch.Tensor) -> bool:
        """Whether the guards hold what was written there."""
        return all(torch.equal(guard, pattern[: guard.numel()]) for guard in (self.before, self.after))

    def record(self) -> dict[str, Any]:
        """What a candidate needs to open it."""
        return {
            "arena": self.arena.name,
            "handle": self.arena.handle.hex(),
            "arena_bytes": self.arena.size_bytes,
            "offset_bytes": self.offset_bytes,
        }


class Arena:
    """One allocation; rooms are taken from its beginning to its end."""

    def __init__(self, name: str, pointer: int, size_bytes: int, allocator: Allocator) -> None:
        self.name = name
        self.pointer = pointer
        self.size_bytes = size_bytes
        self.handle = allocator.handle(pointer)
        self._allocator = allocator
        self._taken_bytes = 0

    def take(self, storage_bytes: int) -> Room:
        """Room for the next tensor. Raises ValueError when the arena was made for less."""
        begin = self._taken_bytes + GUARD_BYTES
        end = self._taken_bytes + room_bytes(storage_bytes)
        if storage_bytes <= 0 or end > self.size_bytes:
            raise ValueError(f"{storage_bytes} bytes do not fit into the rest of {self.name}")
        self._taken_bytes = end
        behind = begin + storage_bytes
        return Room(
            self,
            begin,
            self._at(begin, storage_bytes),
            self._at(begin - GUARD_BYTES, GUARD_BYTES),
            self._at(behind, end - behind),
        )

    def clear(self) -> None:
        """All room is free again."""
        self._taken_bytes = 0

    def _at(self, offset_bytes: int, size_bytes: int) -> torch.Tensor:
        return self._allocator.tensor(self.pointer + offset_bytes, size_bytes, self)


class ArenaPool:
    """All arenas of the judge."""

    def __init__(self, allocator: Allocator, device: torch.device) -> None:
        self._allocator = allocator
        self._kept: OrderedDict[str, Arena] = OrderedDict()
        self._made = 0
        # Of another process that allocates at the same address, a candidate must not take it for this one.
        self._prefix = secrets.token_hex(4)
        pattern = secrets.token_bytes(GUARD_BYTES + ALIGNMENT_BYTES)
        self.pattern = torch.frombuffer(bytearray(pattern), dtype=torch.uint8).to(device)

    @property
    def kept_bytes(self) -> int:
        """Memory that is held for cases to come."""
        return sum(arena.size_bytes for arena in self._kept.values())

    def arena(self, size_bytes: int) -> Arena:
        """An arena for so many bytes. Raises MemoryError."""
        wanted = size_class(size_bytes)
        name = next((name for name, arena in self._kept.items() if arena.size_bytes == wanted), None)
        if name is not None:
            arena = self._kept.pop(name)
            arena.clear()
            return arena
        try:
            pointer = self._allocator.allocate(wanted)
        except MemoryError:
            self.free_kept()
            self._allocator.make_room()
            pointer = self._allocator.allocate(wanted)
        self._made += 1
        return Arena(f"{self._prefix}-{self._made}", pointer, wanted, self._allocator)

    def give_back(self, arena: Arena) -> None:
        """Nobody uses it any more; the oldest ones are freed when there are too many."""
        self._kept[arena.name] = arena
        while len(self._kept) > _MOST_KEPT or self.kept_bytes > _MOST_KEPT_BYTES:
            self._free(next(iter(self._kept)))

    def free_kept(self) -> None:
        """Free what is held for later."""
        for name in list(self._kept):
            self._free(name)

    def _free(self, name: str) -> None:
        self._allocator.free(self._kept.pop(name).pointer)


class OpenedArenas:
    """The arenas that a candidate has open; a bounded number stays so."""

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._opened: OrderedDict[str, _Opened] = OrderedDict()
        """By name, the one used last at the end."""

    def storage(self, memory: dict[str, Any], storage_bytes: int) -> torch.Tensor:
        """A uint8 tensor over one room, from what `Room.record` said."""
        opened = self._arena(memory["arena"], memory["handle"])
        return self._opener.tensor(opened.pointer + memory["offset_bytes"], storage_bytes, opened)

    def forget_old(self) -> None:
        """Let go of the oldest ones while too many are open; what tensors still use stays open until then."""
        while len(self._opened) > _MOST_OPENED:
            self._opened.popitem(last=False)

    def _arena(self, name: str, handle: str) -> "_Opened":
        known = self._opened.get(name)
        if known is None:
            # A freed arena whose successor has the same handle is another memory.
            for other in [other for other, arena in self._opened.items() if arena.handle == handle]:
                del self._opened[other]
            known = self._opened[name] = _Opened(self._opener, handle)
        self._opened.move_to_end(name)
        return known


class _Opened:
    """A block of another process, mapped as long as somebody has this object."""

    def __init__(self, opener: Opener, handle: str) -> None:
        self.handle = handle
        self._opener = opener
        self.pointer = opener.open(bytes.fromhex(handle))

    def __del__(self) -> None:
        # Not when opening failed, and not once the context is broken.
        with contextlib.suppress(Exception):
            self._opener.close(self.pointer)
