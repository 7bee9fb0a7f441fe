"""What is remembered about every element of a tensor while a launch runs.

Memory is spent only where programs touch it, so that tensors larger than memory can be checked.
"""

from __future__ import annotations

import bisect
import ctypes
from collections.abc import Iterable, Iterator

import numpy as np

Index = slice | np.ndarray
"""Elements: a slice with step 1 when they are consecutive, else an int64 array."""

_PAGE_BITS = 16
_PAGE = 1 << _PAGE_BITS
_FLAT_LIMIT = 1 << 24
MANY_READERS = -1
"""Stands for "more than one program" among the readers; never equal to an epoch."""


def indices_of(index: Index) -> np.ndarray:
    """The elements as an array."""
    return np.arange(index.start, index.stop) if isinstance(index, slice) else index


class Shadow:
    """An array of zeros that is stored in pages when it would be large."""

    def __init__(self, length: int, dtype: type[np.generic]) -> None:
        self.length = length
        self._dtype = dtype
        self._flat = np.zeros(length, dtype) if length <= _FLAT_LIMIT else None
        self._pages: dict[int, np.ndarray] = {}

    def get(self, index: Index) -> np.ndarray:
        """The values at these elements; may be a view, so it is not to be written."""
        if self._flat is not None:
            return self._flat[index]
        result = np.zeros(len(indices_of(index)), self._dtype)
        for page, within, lanes in self._split(index):
            stored = self._pages.get(page)
            if stored is not None:
                result[lanes] = stored[within]
        return result

    def put(self, index: Index, values: np.ndarray | int | bool) -> None:
        """Stores one value or one for each element."""
        if self._flat is not None:
            self._flat[index] = values
            return
        for page, within, lanes in self._split(index):
            stored = self._pages.get(page)
            if stored is None:
                stored = self._pages[page] = np.zeros(_PAGE, self._dtype)
            stored[within] = values[lanes] if isinstance(values, np.ndarray) else values

    def chunks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Parts that may hold something else than zero: first element and values, in any order."""
        if self._flat is not None:
            yield 0, self._flat
            return
        for page, values in self._pages.items():
            start = page << _PAGE_BITS
            yield start, values[: self.length - start]

    def refined(self, factor: int) -> Shadow:
        """The same content with every element divided into `factor` smaller ones."""
        finer = Shadow(self.length * factor, self._dtype)
        for start, values in self.chunks():
            finer.put(slice(start * factor, (start + len(values)) * factor), np.repeat(values, factor))
        return finer

    def _split(self, index: Index) -> Iterable[tuple[int, Index, Index]]:
        if isinstance(index, slice):
            first, last = index.start >> _PAGE_BITS, (index.stop - 1) >> _PAGE_BITS
            for page in range(first, last + 1):
                begin = max(index.start, page << _PAGE_BITS)
                end = min(index.stop, (page + 1) << _PAGE_BITS)
                offset = begin - (page << _PAGE_BITS)
                yield (
                    page,
                    slice(offset, offset + end - begin),
                    slice(begin - index.start, end - index.start),
                )
            return
        if len(index) == 0:
            return
        pages = index >> _PAGE_BITS
        within = index & (_PAGE - 1)
        first = int(pages[0])
        if (pages == first).all():
            yield first, within, slice(0, len(index))
            return
        order = np.argsort(pages, kind="stable")
        ordered = pages[order]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))
        for start, stop in zip(starts, [*starts[1:], len(ordered)], strict=False):
            lanes = order[start:stop]
            yield int(ordered[start]), within[lanes], lanes


class Region:
    """One storage that programs of a launch may touch, and who touched which element.

    Elements are of ``granule`` bytes: the smallest size with which the storage was accessed so far.
    """

    def __init__(self, low: int, nbytes: int, granule: int) -> None:
        self.low = low
        self.high = low + nbytes
        self.nbytes = nbytes
        self.granule = granule
        self.writer: Shadow | None = None
        self.reader: Shadow | None = None
        self.atomic: Shadow | None = None
        self.uninitialised: UninitialisedStorage | None = None
        self._views: dict[int, np.ndarray] = {}

    @property
    def length(self) -> int:
        """Elements of ``granule`` bytes, a partial one at the end included."""
        return -(-self.nbytes // self.granule)

    def writers(self) -> Shadow:
        """Epoch of the last plain store, 0 for none."""
        if self.writer is None:
            self.writer = Shadow(self.length, np.int32)
        return self.writer

    def readers(self) -> Shadow:
        """Epoch of the last plain load, or `MANY_READERS`."""
        if self.reader is None:
            self.reader = Shadow(self.length, np.int32)
        return self.reader

    def atomics(self) -> Shadow:
        """Epoch of the last atomic access, 0 for none."""
        if self.atomic is None:
            self.atomic = Shadow(self.length, np.int32)
        return self.atomic

    def elements(self, addresses: np.ndarray, size: int, lowest: int, highest: int) -> Index:
        """The elements that accesses of `size` bytes at these addresses (all inside) cover."""
        if size < self.granule:
            self._refine(size)
        granule = self.granule
        per_access = size // granule
        count = len(addresses)
        if highest - lowest == (count - 1) * size and _is_consecutive(addresses, size, lowest):
            start = (lowest - self.low) // granule
            return slice(start, start + count * per_access)
        index = (addresses - np.uint64(self.low)).view(np.int64) // granule
        if per_access > 1:
            index = (index[:, None] + np.arange(per_access)).ravel()
        return index

    def bytes_view(self, size: int) -> np.ndarray:
        """The memory itself as unsigned integers of `size` bytes (1, 2, 4 or 8)."""
        view = self._views.get(size)
        if view is None:
            usable = self.nbytes // size * size
            buffer = (ctypes.c_ubyte * usable).from_address(self.low)
            view = self._views[size] = np.frombuffer(buffer, dtype=f"u{size}")
        return view

    def _refine(self, size: int) -> None:
        factor = self.granule // size
        self.granule = size
        for name in ("writer", "reader", "atomic"):
            shadow = getattr(self, name)
            if shadow is not None:
                setattr(self, name, shadow.refined(factor))


def _is_consecutive(addresses: np.ndarray, size: int, lowest: int) -> bool:
    if len(addresses) == 1:
        return True
    if int(addresses[0]) != lowest:
        return False
    return bool((addresses[1:] - addresses[:-1] == np.uint64(size)).all())


class UninitialisedStorage:
    """A storage made by ``torch.empty*``: which elements no launch has stored yet.

    An element counts as uninitialised while no launch stored it *and* it still holds the poison that it
    was filled with, so what PyTorch itself writes in between is seen as well.
    """

    PERIOD = 8

    def __init__(self, address: int, nbytes: int, element_bytes: int) -> None:
        self.nbytes = nbytes
        head = ctypes.string_at(address, min(self.PERIOD, nbytes)) if nbytes else b""
        repeated = (head * self.PERIOD)[: self.PERIOD] if head else bytes(self.PERIOD)
        self._pattern = np.frombuffer(repeated, dtype=np.uint8)
        self._granule = element_bytes
        self._stored = Shadow(-(-nbytes // element_bytes), np.bool_)

    def mark_stored(self, region: Region, index: Index) -> None:
        """A launch stored these elements."""
        self._stored.put(self._own_index(region, index), True)

    def unstored(self, region: Region, index: Index) -> np.ndarray:
        """Which elements (as `region` counts them) still hold poison, in ascending order."""
        stored = self._stored.get(self._own_index(region, index))
        if stored.all():
            return np.empty(0, np.int64)
        per_element = region.granule // self._granule
        candidates = indices_of(index)[~stored.reshape(-1, per_element).all(axis=1)]
        positions = candidates[:, None] * region.granule + np.arange(region.granule)
        positions = np.minimum(positions, region.nbytes - 1)
        held = region.bytes_view(1)[positions] == self._pattern[positions % self.PERIOD]
        return np.sort(candidates[held.all(axis=1)])

    def only_stored_by(self, region: Region, writer: Shadow) -> bool:
        """Whether all bytes that no longer hold poison are in elements that `writer` marks."""
        memory = region.bytes_view(1)
        for start in range(0, region.length, _PAGE):
            stop = min(start + _PAGE, region.length)
            missing = writer.get(slice(start, stop)) == 0
            if not missing.any():
                continue
            begin, end = start * region.granule, min(stop * region.granule, region.nbytes)
            changed = memory[begin:end] != self._pattern[np.arange(begin, end) % self.PERIOD]
            if (changed & np.repeat(missing, region.granule)[: end - begin]).any():
                return False
        return True

    def _own_index(self, region: Region, index: Index) -> Index:
        if region.granule < self._granule:
            self._stored = self._stored.refined(self._granule // region.granule)
            self._granule = region.granule
        factor = region.granule // self._granule
        if factor == 1:
            return index
        if isinstance(index, slice):
            return slice(index.start * factor, index.stop * factor)
        return (index[:, None] * factor + np.arange(factor)).ravel()


class Epochs:
    """Orders the accesses of programs that hand each other work through atomics.

    Programs run one after another. An epoch is a stretch of one program between two of its atomics; it
    ends with a release. A program that touches the same element atomically later acquires all epochs up
    to that release, and what their programs had acquired themselves.
    """

    def __init__(self) -> None:
        self.current = 0
        self.first_of_program = 1
        self.any_atomics = False
        self._starts: list[int] = []
        self._programs: list[tuple[int, int, int]] = []
        self._acquired: list[dict[int, int]] = []

    def start_program(self, program: tuple[int, int, int]) -> None:
        """A program begins; no other one runs until the next call."""
        self.current += 1
        self.first_of_program = self.current
        self._starts.append(self.current)
        self._programs.append(program)
        self._acquired.append({})

    def program_of(self, epoch: int) -> tuple[int, int, int]:
        """Grid coordinates of the program that an epoch belongs to."""
        return self._programs[self._ordinal(epoch)]

    def foreign(self, epochs: np.ndarray) -> np.ndarray:
        """Which accesses were made by another program."""
        return (epochs != 0) & (epochs < self.first_of_program)

    def acquire(self, epochs: np.ndarray) -> None:
        """The running program saw what was released in these epochs of other programs."""
        acquired = self._acquired[-1]
        for epoch in np.unique(epochs):
            ordinal = self._ordinal(int(epoch))
            acquired[ordinal] = max(acquired.get(ordinal, 0), int(epoch))

    def release(self) -> None:
        """The running program published everything that it did so far."""
        self.any_atomics = True
        self.current += 1

    def unordered(self, epochs: np.ndarray) -> np.ndarray:
        """Which accesses of other programs the running program may not rely on having happened."""
        if not self.any_atomics:
            return np.ones(len(epochs), bool)
        # Several readers: one of them may be unordered, which is not certain, so nothing is claimed.
        return np.array([epoch != MANY_READERS and not self._happened_before(epoch) for epoch in epochs])

    def _happened_before(self, epoch: int) -> bool:
        wanted = self._ordinal(int(epoch))
        seen = set()
        pending = list(self._acquired[-1].items())
        while pending:
            ordinal, up_to = pending.pop()
            if ordinal == wanted and up_to >= epoch:
                return True
            if ordinal not in seen:
                seen.add(ordinal)
                pending.extend(self._acquired[ordinal].items())
        return False

    def _ordinal(self, epoch: int) -> int:
        return bisect.bisect_right(self._starts, epoch) - 1
