"""Checks of every memory access of one launch: bounds, races, uninitialised reads, address overflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from triton._C.libtriton import interpreter as _native

from .errors import InterpreterUnsupported
from .overflow import Overflow
from .shadow import MANY_READERS, Epochs, Index, Region, indices_of

SPIN_LIMIT = 20_000
"""Equal answers from one atomic after which a program is taken to wait for one that cannot run."""


@dataclass(frozen=True)
class Base:
    """What a pointer was made from: one tensor argument of the launch."""

    name: str
    region: Region
    address: int
    shape: tuple[int, ...]
    element_bytes: int

    def describe(self, address: int) -> str:
        """``past the end of `x` (element 1000 of 1000, shape (10, 100))``."""
        element = (address - self.address) // self.element_bytes
        count = max(0, self.region.high - self.address) // self.element_bytes
        side = "before the start of" if address < self.region.low else "past the end of"
        return f"{side} `{self.name}` (element {element} of {count}, shape {self.shape})"


@dataclass
class Access:
    """The lanes of one access that lie in one region."""

    region: Region
    index: Index
    addresses: np.ndarray
    size: int
    lanes: np.ndarray | None
    """Which active lanes these are; ``None`` for all."""

    def lanes_of(self, values: np.ndarray) -> np.ndarray:
        """Values of the active lanes that belong to this part."""
        return values if self.lanes is None else values[self.lanes]


Report = Callable[[str, str], None]
"""Records a finding (kind, message) at the running line."""


class MemoryChecker:
    """Watches one launch. Kinds of findings are those of the protocol's ``WorkerFindingKind``."""

    def __init__(
        self,
        bases: Sequence[Base],
        report: Report,
        report_overflow: Callable[[Overflow], None],
        other_tensors: Callable[[], Sequence[Base]],
    ) -> None:
        """``other_tensors`` lists what is alive besides the arguments; asked only for made-up pointers."""
        self.epochs = Epochs()
        self.bases = tuple(bases)
        self.program: tuple[int, int, int] = (0, 0, 0)
        self.stores = 0
        self._report = report
        self._report_overflow = report_overflow
        self._other_tensors = other_tensors
        self._any_bases: tuple[Base, ...] | None = None
        self._spin: tuple[int, bytes] | None = None
        self._spins = 0

    def start_program(self, program: tuple[int, int, int]) -> None:
        """The next program runs from here on."""
        self.program = program
        self.epochs.start_program(program)

    # What the builder calls. Each returns the lanes that may really be touched.

    def load(
        self,
        addresses: np.ndarray,
        mask: np.ndarray | None,
        size: int,
        bases: tuple[Base, ...] | None,
        overflow: Overflow | None,
        synchronising: bool,
    ) -> np.ndarray | None:
        """A load; `synchronising` marks volatile and atomic ones. ``None`` means all lanes."""
        mask, parts = self._resolve("load", addresses, mask, size, bases, overflow)
        for part in parts:
            if synchronising:
                self._observe(part)
            else:
                self._check_plain_load(part)
            self._check_initialised(part, "load")
        return mask

    def store(
        self,
        addresses: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray | None,
        size: int,
        bases: tuple[Base, ...] | None,
        overflow: Overflow | None,
    ) -> None:
        """Checks a plain store and performs it."""
        mask, parts = self._resolve("store", addresses, mask, size, bases, overflow)
        self.stores += bool(parts)
        if not parts:
            return
        bits = _bits(values, size)
        active = bits.ravel() if mask is None else np.broadcast_to(bits, addresses.shape)[mask]
        for part in parts:
            self._check_plain_store(part, part.lanes_of(active))
        full = np.ones(addresses.shape, np.bool_) if mask is None else mask
        _native.store(addresses, values, full)
        for part in parts:
            self._check_duplicates(part, part.lanes_of(active))

    def atomic(
        self,
        addresses: np.ndarray,
        mask: np.ndarray | None,
        size: int,
        bases: tuple[Base, ...] | None,
        overflow: Overflow | None,
        perform: Callable[[np.ndarray], np.ndarray],
        reads: bool = True,
        conditional: bool = False,
    ) -> np.ndarray:
        """Checks an atomic and performs it; `perform(mask)` returns the old values of all lanes.

        ``conditional`` marks compare-and-swap, which only acts on what another program left.
        """
        mask, parts = self._resolve("atomic", addresses, mask, size, bases, overflow)
        full = np.ones(addresses.shape, np.bool_) if mask is None else mask
        self.stores += bool(parts)
        before = []
        for part in parts:
            if reads:
                self._check_initialised(part, "atomic")
            before.append(self._memory(part).copy())
        result = perform(full)
        for part, old in zip(parts, before, strict=False):
            self._after_atomic(part, (self._memory(part) != old) & (not conditional))
        if parts:
            self.epochs.release()
        if addresses.size == 1:
            self._watch_for_spinning(addresses, result)
        return result

    # Bounds

    def _resolve(
        self,
        kind: str,
        addresses: np.ndarray,
        mask: np.ndarray | None,
        size: int,
        bases: tuple[Base, ...] | None,
        overflow: Overflow | None,
    ) -> tuple[np.ndarray | None, list[Access]]:
        if mask is not None:
            mask = np.broadcast_to(mask, addresses.shape)
            if mask.all():
                mask = None
        active = addresses.ravel() if mask is None else addresses[mask]
        if active.size == 0:
            return mask, []
        wrapped = overflow is not None and overflow.touches(addresses.shape, mask)
        if wrapped:
            self._report_overflow(overflow)
        lowest, highest = int(active.min()), int(active.max())
        if bases is not None and len(bases) == 1:
            region = bases[0].region
            if region.low <= lowest and highest + size <= region.high:
                index = region.elements(active, size, lowest, highest)
                return mask, [Access(region, index, active, size, None)]
        candidates = bases if bases is not None else self._all_bases()
        return self._resolve_slowly(kind, addresses, mask, active, size, candidates, wrapped)

    def _resolve_slowly(
        self,
        kind: str,
        addresses: np.ndarray,
        mask: np.ndarray | None,
        active: np.ndarray,
        size: int,
        bases: tuple[Base, ...],
        wrapped: bool,
    ) -> tuple[np.ndarray | None, list[Access]]:
        good = np.zeros(active.size, np.bool_)
        members: list[tuple[Region, np.ndarray]] = []
        for region in dict.fromkeys(base.region for base in bases):
            if region.nbytes < size:
                continue
            inside = (active >= np.uint64(region.low)) & (active <= np.uint64(region.high - size)) & ~good
            if inside.any():
                good |= inside
                members.append((region, inside))
        if not good.all():
            if not wrapped:  # else the overflow is the cause, and it is told already
                self._report_out_of_bounds(kind, active, good, bases)
            mask = np.ones(addresses.shape, np.bool_) if mask is None else mask.copy()
            mask[mask] = good
        kept = active[good]
        parts = []
        for region, inside in members:
            chosen = active[inside]
            index = region.elements(chosen, size, int(chosen.min()), int(chosen.max()))
            lanes = None if len(chosen) == len(kept) else inside[good]
            parts.append(Access(region, index, chosen, size, lanes))
        return mask, parts

    def _report_out_of_bounds(
        self, kind: str, active: np.ndarray, good: np.ndarray, bases: tuple[Base, ...]
    ) -> None:
        bad = active[~good]
        first = int(bad[0])
        lanes = f" of {len(bad)} of {len(active)} active lanes" if len(active) > 1 else ""
        if bases:
            nearest = min(bases, key=lambda base: _distance(base.region, first))
            where = nearest.describe(first)
        else:
            where = "through a pointer that belongs to no tensor"
        landed = next((base for base in self.bases if base.region.low <= first < base.region.high), None)
        if landed is not None and landed not in bases:
            where += f", inside `{landed.name}`"
        self._report(f"out-of-bounds-{kind}", f"{kind}{lanes} {where} in program {self.program}")

    def _all_bases(self) -> tuple[Base, ...]:
        if self._any_bases is None:
            self._any_bases = (*self.bases, *self._other_tensors())
        return self._any_bases

    # Races

    def _check_plain_load(self, part: Access) -> None:
        region, index, epochs = part.region, part.index, self.epochs
        if region.writer is not None:
            writers = region.writer.get(index)
            foreign = epochs.foreign(writers)
            if foreign.any():
                self._report_race(part, foreign, writers, "reads", "stored")
        if region.atomic is not None:
            self._acquire_from(part)
        readers = region.readers()
        previous = readers.get(index)
        foreign = epochs.foreign(previous)
        if foreign.any():
            readers.put(index, np.where(foreign, np.int32(MANY_READERS), np.int32(epochs.current)))
        else:
            readers.put(index, epochs.current)

    def _check_plain_store(self, part: Access, bits: np.ndarray) -> None:
        region, index, epochs = part.region, part.index, self.epochs
        if region.uninitialised is not None:
            region.uninitialised.mark_stored(region, index)
        if region.atomic is not None and self._store_to_synchronised(part):
            return
        writers = region.writers()
        previous = writers.get(index)
        foreign = epochs.foreign(previous)
        if foreign.any():
            differs = np.repeat(self._memory(part) != bits, part.size // region.granule)
            if (foreign & differs).any():
                self._report_race(part, foreign & differs, previous, "stores", "stored")
            else:
                self._report_race(part, foreign, previous, "stores", "stored", benign=True)
        if region.reader is not None:
            readers = region.reader.get(index)
            foreign = epochs.foreign(readers)
            if foreign.any():
                self._report_race(part, foreign, readers, "stores", "read")
        writers.put(index, epochs.current)

    def _store_to_synchronised(self, part: Access) -> bool:
        """Whether a plain store goes to elements that are used atomically, such as a lock it frees."""
        atomics = part.region.atomics()
        marks = atomics.get(part.index)
        if not (marks != 0).all():
            return False
        foreign = self.epochs.foreign(marks)
        if foreign.any():
            self._report_race(part, foreign, marks, "stores", "updated atomically")
        atomics.put(part.index, self.epochs.current)
        self.epochs.release()
        return True

    def _after_atomic(self, part: Access, changed: np.ndarray) -> None:
        """``changed``: lanes that were updated whatever stood there."""
        region, index, epochs = part.region, part.index, self.epochs
        changed = np.repeat(changed, part.size // region.granule)
        if region.uninitialised is not None:
            region.uninitialised.mark_stored(region, index)
        if region.writer is not None:
            # Looked at before this atomic acquires anything: its own element cannot order a plain store
            # to itself. An atomic that leaves the value alone only observes, perhaps a plainly stored flag.
            # Plain reads beside atomics are not told: they are often deliberate peeks.
            marks = region.writer.get(index)
            foreign = epochs.foreign(marks)
            if (foreign & changed).any():
                self._report_race(part, foreign & changed, marks, "updates atomically", "stored")
            self._acquire(marks[foreign & ~changed])
        self._acquire_from(part)
        region.atomics().put(index, epochs.current)

    def _observe(self, part: Access) -> None:
        """A volatile or atomic load: sees what others published and is no race itself."""
        if part.region.atomic is not None:
            self._acquire_from(part)
        if part.region.writer is not None:
            marks = part.region.writer.get(part.index)
            self._acquire(marks[self.epochs.foreign(marks)])

    def _acquire_from(self, part: Access) -> None:
        marks = part.region.atomics().get(part.index)
        self._acquire(marks[self.epochs.foreign(marks)])

    def _acquire(self, epochs: np.ndarray) -> None:
        if len(epochs):
            self.epochs.any_atomics = True
            self.epochs.acquire(epochs)

    def _report_race(
        self,
        part: Access,
        lanes: np.ndarray,
        marks: np.ndarray,
        does: str,
        did: str,
        benign: bool = False,
    ) -> None:
        positions = np.flatnonzero(lanes)
        positions = positions[self.epochs.unordered(marks[positions])]
        if len(positions) == 0:
            return
        first = positions[0]
        element = int(indices_of(part.index)[first])
        base = self._base_of(part.region)
        offset = (part.region.low + element * part.region.granule - base.address) // base.element_bytes
        mark = int(marks[first])
        other = "other programs" if mark == MANY_READERS else f"program {self.epochs.program_of(mark)}"
        ending = " with the same bytes" if benign else ""
        self._report(
            "benign-race" if benign else "race",
            f"program {self.program} {does} element {offset} of `{base.name}`, which {other} of the same "
            f"launch {did}{ending}; nothing orders the two ({len(positions)} elements)",
        )

    def _check_duplicates(self, part: Access, bits: np.ndarray) -> None:
        if isinstance(part.index, slice):
            return
        differs = self._memory(part) != bits
        if not differs.any():
            return
        lane = int(np.flatnonzero(differs)[0])
        base = self._base_of(part.region)
        element = (int(part.addresses[lane]) - base.address) // base.element_bytes
        count = int((part.addresses == part.addresses[lane]).sum())
        self._report(
            "duplicate-store",
            f"one store names element {element} of `{base.name}` in {count} lanes with different values "
            f"in program {self.program}; which one stays is undefined",
        )

    # Uninitialised reads

    def _check_initialised(self, part: Access, kind: str) -> None:
        storage = part.region.uninitialised
        if storage is None:
            return
        unstored = storage.unstored(part.region, part.index)
        if len(unstored) == 0:
            return
        base = self._base_of(part.region)
        element = (
            part.region.low + int(unstored[0]) * part.region.granule - base.address
        ) // base.element_bytes
        self._report(
            "uninitialised-read",
            f"{kind} of element {element} of `{base.name}`, which nothing has written since "
            f"`torch.empty` ({len(unstored)} elements) in program {self.program}",
        )

    def _base_of(self, region: Region) -> Base:
        return next(base for base in self._all_bases() if base.region is region)

    def _memory(self, part: Access) -> np.ndarray:
        """The bytes in memory now, one unsigned integer a lane."""
        region, size = part.region, part.size
        offsets = part.addresses - np.uint64(region.low)
        if size in (1, 2, 4, 8) and not (offsets % np.uint64(size)).any():
            return region.bytes_view(size)[(offsets // np.uint64(size)).view(np.int64)]
        dtype = np.dtype(f"u{size}")
        return _native.load(
            part.addresses, np.ones(offsets.shape, np.bool_), np.zeros(offsets.shape, dtype), dtype
        )

    def _watch_for_spinning(self, addresses: np.ndarray, result: np.ndarray) -> None:
        seen = (int(addresses.ravel()[0]), result.tobytes())
        if seen != self._spin:
            self._spin, self._spins = seen, 0
            return
        self._spins += 1
        if self._spins > SPIN_LIMIT:
            raise InterpreterUnsupported(
                f"program {self.program} waits for another program of the launch; the interpreter runs "
                "programs one after another, so it would wait for ever"
            )


def _distance(region: Region, address: int) -> int:
    return min(abs(address - region.low), abs(address - region.high))


def _bits(values: np.ndarray, size: int) -> np.ndarray:
    if values.dtype == np.bool_:
        return values.view(np.uint8)
    return np.ascontiguousarray(values).view(f"u{size}")
