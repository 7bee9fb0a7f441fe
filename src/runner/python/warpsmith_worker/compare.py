"""Measures one output against the float64 reference, row by row (a row is the last dimension).

Element `i` of row `r` may be off by

    reference_factor · max_r |reference_in_dtype − expected|
    + max(absolute_ulp · |expected_i|, smallest subnormal) + row_rms_factor · rms_r(expected)
    + condition_factor · rms over draws of max_r |expected of perturbed inputs − expected|

where rows are measured over the elements that are finite in the output's dtype. Integers and bools must be
equal to the reference in float64 or in the case's dtypes. Where inputs that are off by a rounding give
others, those are right as well, and any other value is undecided: of equal values nobody tried every order.
Floats must be equal when that is asked for and the reference is exact in its own dtype.

Rows of fewer than 16 elements are measured together with their neighbours: so few values may all be close
to zero by chance, and with them their root mean square and the reference's error.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import poison
from .dtypes import ElementType

# Elements compared at a time: 16 MiB for each float64 temporary, on a GPU 128 MiB in few launches.
_TILE_ELEMENTS = 1 << 21
_GPU_TILE_ELEMENTS = 1 << 24
# Elements of a tensor of which rows of few different values are measured together.
_POOLED_ELEMENTS = 1 << 21
# What a row must have to be measured on its own.
_ROW_ELEMENTS = 16
# Different values that a row must have to be measured on its own.
_TELLING_VALUES = 16


@dataclass(frozen=True)
class Tolerance:
    """As in the protocol."""

    reference_factor: float
    absolute_ulp: float
    row_rms_factor: float
    tf32_row_rms_factor: float
    condition_factor: float = 0.0


@dataclass(frozen=True)
class Truth:
    """What an output should hold."""

    expected: torch.Tensor
    """float64, or the integer values."""
    in_dtype: torch.Tensor
    """The reference run in the case's own dtypes."""
    perturbed: tuple[torch.Tensor, ...] = ()
    """float64, on inputs that are off by one rounding each, once for each draw of the roundings."""

    def undecided(self) -> torch.Tensor | None:
        """Where integers are others on inputs that are off by a rounding; None when nobody looked."""
        if self.expected.dtype.is_floating_point or not self.perturbed:
            return None
        return torch.stack([values != self.expected for values in self.perturbed]).any(0)

    def largest_choice(self) -> int:
        """Most values that the roundings give for one element; 1 when nobody looked."""
        if self.undecided() is None or not self.expected.numel():
            return 1
        ordered = torch.stack([self.expected, *self.perturbed]).flatten(1).sort(dim=0).values
        return 1 + int((ordered[1:] != ordered[:-1]).sum(0).max())


def measure(
    got: torch.Tensor,
    truth: Truth,
    element: ElementType,
    tolerance: Tolerance,
    written_only: bool,
    exact_if_agree: bool = False,
) -> dict[str, Any]:
    """`OutputErrors` of the protocol, without name and null candidates.

    `got` has the output's dtype and shape. Elements that hold poison are counted as unwritten and never
    compared; whether that is a fault is the caller's to say. A dtype without a poison pattern cannot tell
    what was written: with `written_only` nothing of it is compared, otherwise everything is. With
    `exact_if_agree` nothing is allowed where the reference makes no error in its own dtype at all.
    """
    rows = _Rows(truth, element, tolerance, exact_if_agree)
    found = _Found(tuple(got.shape), rows)
    cannot_tell = written_only and element.poison is None
    flat_got = _as_rows(got)
    for tile in rows.tiles():
        bits = flat_got[tile.slices].view(element.bits)
        values = rows.values_of(bits != 0 if element.torch is torch.bool else bits.view(element.torch))
        judged = rows.judge(tile, values)
        unwritten = poison.mask(bits, element)
        if cannot_tell:
            unwritten = torch.ones_like(judged.wrong)
        elif unwritten is None:
            unwritten = torch.zeros_like(judged.wrong)
        elif not element.poison_is_distinctive:
            # The pattern is a value like any other: where it is the right one, somebody wrote it.
            unwritten &= judged.wrong | judged.non_finite | judged.undecided
        found.add(tile, judged, values, unwritten)
        if element.is_float:
            of_reference = rows.judge(tile, rows.in_dtype[tile.slices].to(torch.float64))
            found.undefined += int(of_reference.non_finite.sum())
    found.reference_error, found.expected_rms = rows.reference_error, rows.expected_rms
    result = found.summary()
    if cannot_tell:
        result.update(unwritten=0, first_unwritten=None, last_unwritten=None)
    return result


def differing(
    storage: torch.Tensor, first: torch.Tensor, element: ElementType, shape: Sequence[int], name: str
) -> dict[str, Any]:
    """`Repeated` of the protocol: elements of two storages (uint8, contiguous) whose bits differ."""
    other = storage.view(element.bits) != first.view(element.bits)
    count = int(other.sum())
    index = _index_of(_first_true(other), shape) if count else None
    return {"name": name, "elements": math.prod(shape), "differing": count, "first": index}


def count_violations(
    candidate: torch.Tensor | float, truth: Truth, element: ElementType, tolerance: Tolerance
) -> int:
    """How many elements of a null candidate are out of tolerance (or not the right infinity or NaN)."""
    rows = _Rows(truth, element, tolerance)
    flat = _as_rows(candidate) if isinstance(candidate, torch.Tensor) else None
    total = 0
    for tile in rows.tiles():
        if flat is None:
            values = torch.full(tile.shape, candidate, dtype=rows.expected.dtype)
        else:
            values = rows.values_of(flat[tile.slices])
        judged = rows.judge(tile, values)
        total += int((judged.wrong | judged.non_finite | judged.undecided).sum())
    return total


def mean_value(truth: Truth, element: ElementType) -> float | int:
    """Mean of the expected values, as the output's dtype holds it."""
    expected = truth.expected
    if element.is_float:
        representable = expected[expected.abs() <= element.max_finite]
        mean = representable.mean() if representable.numel() else torch.zeros((), dtype=torch.float64)
        return mean.to(element.torch).to(torch.float64).item()
    return round(expected.to(torch.float64).mean().item()) if expected.numel() else 0


def number(value: float) -> float | str:
    """A float for JSON: non-finite values travel as words."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


@dataclass(frozen=True)
class _Tile:
    row: int
    rows: int
    column: int
    columns: int
    row_length: int

    @property
    def slices(self) -> tuple[slice, slice]:
        return slice(self.row, self.row + self.rows), slice(self.column, self.column + self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.columns

    def position(self, flat: int) -> int:
        """Row-major position in the whole tensor of an element of this tile."""
        return (self.row + flat // self.columns) * self.row_length + self.column + flat % self.columns


@dataclass
class _Judged:
    """Element by element, of one tile."""

    expected: torch.Tensor
    allowed: torch.Tensor
    error: torch.Tensor
    """NaN where it means nothing (a side is not finite)."""
    wrong: torch.Tensor
    wrong_for_tf32: torch.Tensor
    non_finite: torch.Tensor
    undecided: torch.Tensor
    """Neither right nor wrong."""


class _Rows:
    """Expected values and the allowed error of each row."""

    def __init__(
        self, truth: Truth, element: ElementType, tolerance: Tolerance, exact_if_agree: bool = False
    ) -> None:
        self.element = element
        self.tolerance = tolerance
        self.expected = _as_rows(truth.expected)
        self.in_dtype = _as_rows(truth.in_dtype)
        self.perturbed = [_as_rows(values) for values in truth.perturbed]
        self.reference_error = 0.0
        self.expected_rms = 0.0
        self.is_exact = not element.is_float
        undecided = truth.undecided()
        self.undecided = None if undecided is None else _as_rows(undecided)
        if element.is_float:
            self._measure_rows()
            self.is_exact = exact_if_agree and torch.equal(self.in_dtype.to(torch.float64), self.expected)

    def tiles(self) -> Iterator[_Tile]:
        """The whole tensor in row-major order, in pieces of bounded size."""
        row_count, length = self.expected.shape
        if row_count == 0 or length == 0:
            return
        most = _GPU_TILE_ELEMENTS if self.expected.is_cuda else _TILE_ELEMENTS
        columns = min(length, most)
        rows = max(1, most // length)
        for row in range(0, row_count, rows):
            for column in range(0, length, columns):
                yield _Tile(row, min(rows, row_count - row), column, min(columns, length - column), length)

    def values_of(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(torch.float64 if self.element.is_float else torch.int64)

    def _measure_rows(self) -> None:
        row_count = self.expected.shape[0]
        squares = torch.zeros(row_count, dtype=torch.float64)
        counts = torch.zeros(row_count, dtype=torch.float64)
        self.row_error = torch.zeros(row_count, dtype=torch.float64)
        self.row_condition = torch.zeros(row_count, dtype=torch.float64)
        moves = torch.zeros(len(self.perturbed), row_count, dtype=torch.float64)
        for tile in self.tiles():
            expected = self.expected[tile.slices]
            usable = expected.abs() <= self.element.max_finite
            row = tile.slices[0]
            squares[row] += torch.where(usable, expected, 0.0).square().sum(1)
            counts[row] += usable.sum(1)
            error = (self.in_dtype[tile.slices].to(torch.float64) - expected).abs()
            error = torch.where(usable & error.isfinite(), error, 0.0)
            self.row_error[row] = torch.maximum(self.row_error[row], error.amax(1))
            for moved_by, values in zip(moves, self.perturbed, strict=True):
                moved = (values[tile.slices] - expected).abs()
                moved = torch.where(usable & moved.isfinite(), moved, 0.0)
                moved_by[row] = torch.maximum(moved_by[row], moved.amax(1))
        if self.perturbed:
            self.row_condition = moves.square().mean(0).sqrt()
        group = self._groups_of_rows()
        if group is not None:
            squares = torch.zeros_like(squares).index_add_(0, group, squares)[group]
            counts = torch.zeros_like(counts).index_add_(0, group, counts)[group]
            for of_row in (self.row_error, self.row_condition):
                largest = torch.zeros_like(counts).scatter_reduce_(0, group, of_row, "amax")
                of_row.copy_(largest[group])
        self._pool_repetitive_rows(squares, counts)
        self.row_rms = (squares / counts.clamp(min=1)).sqrt()
        if row_count:
            self.reference_error = self.row_error.max().item()
            self.expected_rms = (squares.sum() / counts.sum().clamp(min=1)).sqrt().item()

    def _groups_of_rows(self) -> torch.Tensor | None:
        """For each row the number of its group; None when rows are long enough.

        The last group takes what is left over.
        """
        row_count, length = self.expected.shape
        if length == 0 or length >= _ROW_ELEMENTS or row_count < 2:
            return None
        size = -(-_ROW_ELEMENTS // length)
        return (torch.arange(row_count) // size).clamp_(max=max(row_count // size - 1, 0))

    def _pool_repetitive_rows(self, squares: torch.Tensor, counts: torch.Tensor) -> None:
        """Measure rows of few different values together, in order, so that each group has enough of them.

        Where an input repeats itself (an expanded tensor, a constant one) all elements of a row have the
        same error, and the reference's may be nothing by luck.
        """
        row_count, length = self.expected.shape
        if row_count < 2 or length < _TELLING_VALUES or self.expected.numel() > _POOLED_ELEMENTS:
            return
        ordered = self.expected.sort(dim=1).values
        different = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(1)
        rows = (different < _TELLING_VALUES).nonzero().flatten()
        if rows.numel() < 2:
            return
        before = different[rows].cumsum(0) - different[rows]
        group = before // _TELLING_VALUES
        group = group.clamp(max=max(0, int(different[rows].sum()) // _TELLING_VALUES - 1))
        for total in (squares, counts):
            total[rows] = torch.zeros_like(total).index_add_(0, group, total[rows])[group]
        for largest in (self.row_error, self.row_condition):
            of_group = torch.zeros_like(largest).scatter_reduce_(0, group, largest[rows], "amax")
            largest[rows] = of_group[group]

    def judge(self, tile: _Tile, got: torch.Tensor) -> _Judged:
        """Compare a tile of values (float64 or int64)."""
        expected = self.expected[tile.slices]
        if not self.element.is_float:
            # Where rounding decides (a maximum of close values, a quotient next to a half) the reference's
            # own dtype is as right as float64.
            wrong = (got != expected) & (got != self.in_dtype[tile.slices].to(torch.int64))
            nothing = undecided = torch.zeros_like(wrong)
            if self.undecided is not None:
                for values in self.perturbed:
                    wrong &= got != values[tile.slices]
                undecided = wrong & self.undecided[tile.slices]
                wrong &= ~undecided
            error = torch.where(wrong, (got - expected).to(torch.float64).abs(), 0.0)
            return _Judged(expected, torch.zeros_like(error), error, wrong, wrong, nothing, undecided)
        allowed = self._allowed(tile, expected, self.tolerance.row_rms_factor)
        allowed_tf32 = self._allowed(tile, expected, self.tolerance.tf32_row_rms_factor)
        error = (got - expected).abs()
        both_finite = got.isfinite() & expected.isfinite()
        # Written so that a NaN among the limits counts as wrong.
        wrong = both_finite & ~(error <= allowed)
        wrong_for_tf32 = both_finite & ~(error <= allowed_tf32)
        non_finite = ~both_finite & ~self._same_non_finite(expected, got, allowed)
        error = torch.where(both_finite, error, math.nan)
        nothing = torch.zeros_like(wrong)
        return _Judged(expected, allowed, error, wrong, wrong_for_tf32, non_finite, nothing)

    def _allowed(self, tile: _Tile, expected: torch.Tensor, row_rms_factor: float) -> torch.Tensor:
        if self.is_exact:
            return torch.zeros_like(expected)
        row = tile.slices[0]
        of_row = self.tolerance.reference_factor * self.row_error[row] + row_rms_factor * self.row_rms[row]
        of_row = of_row + self.tolerance.condition_factor * self.row_condition[row]
        return of_row[:, None] + self._rounding(expected)

    def _rounding(self, expected: torch.Tensor) -> torch.Tensor:
        assert self.element.smallest_step is not None
        if not self.tolerance.absolute_ulp:
            return torch.zeros_like(expected)
        # Next to zero a rounding is no longer relative.
        return (self.tolerance.absolute_ulp * expected.abs()).clamp(min=self.element.smallest_step)

    def terms(self, row: int, expected: torch.Tensor) -> dict[str, Any] | None:
        """What the allowed error of one element is made of; None where only equality will do."""
        if self.is_exact:
            return None
        tolerance = self.tolerance
        return {
            "reference": number(tolerance.reference_factor * self.row_error[row].item()),
            "rounding": number(self._rounding(expected).item()),
            "accumulation": number(tolerance.row_rms_factor * self.row_rms[row].item()),
            "conditioning": number(tolerance.condition_factor * self.row_condition[row].item()),
        }

    def _same_non_finite(
        self, expected: torch.Tensor, got: torch.Tensor, allowed: torch.Tensor
    ) -> torch.Tensor:
        same = (expected == got) | (expected.isnan() & got.isnan())
        # A finite truth that the dtype cannot hold: infinity is its correct rounding.
        overflows = expected.isfinite() & (expected.abs() + allowed >= self.element.overflow_at)
        if self.element.has_infinity:
            rounded = got.isinf() & (got.sign() == expected.sign())
        else:
            rounded = got.isnan()
            infinite = expected.isinf() & got.isnan()
            same |= infinite
        return same | (overflows & rounded)


class _Found:
    """Collects over the tiles."""

    def __init__(self, shape: Sequence[int], rows: _Rows) -> None:
        self.shape = shape
        self.rows = rows
        self.undefined = 0
        self.reference_error = 0.0
        self.expected_rms = 0.0
        self.compared = 0
        self.undecided = 0
        self.unwritten = 0
        self.first_unwritten: int | None = None
        self.last_unwritten: int | None = None
        self.non_finite = 0
        self.first_non_finite: dict[str, Any] | None = None
        self.violations = 0
        self.tf32_violations = 0
        self.first: dict[str, Any] | None = None
        self.worst: dict[str, Any] | None = None
        self.worst_ratio = -1.0
        self.max_absolute = 0.0
        self.max_relative = 0.0

    def add(self, tile: _Tile, judged: _Judged, got: torch.Tensor, unwritten: torch.Tensor) -> None:
        self._add_unwritten(tile, unwritten)
        undecided = judged.undecided & ~unwritten
        self.undecided += int(undecided.sum())
        written = ~unwritten & ~undecided
        self.compared += int(written.sum())
        wrong = judged.wrong & written
        self.violations += int(wrong.sum())
        self.tf32_violations += int((judged.wrong_for_tf32 & written).sum())
        non_finite = judged.non_finite & written
        self.non_finite += int(non_finite.sum())
        if self.first_non_finite is None and bool(non_finite.any()):
            self.first_non_finite = self._sample(tile, judged, got, _first_true(non_finite))
        if self.first is None and bool(wrong.any()):
            self.first = self._sample(tile, judged, got, _first_true(wrong))
        self._add_worst(tile, judged, got, written)
        usable = written & judged.error.isfinite()
        error = torch.where(usable, judged.error, 0.0)
        self.max_absolute = max(self.max_absolute, float(error.max()))
        magnitude = judged.expected.to(torch.float64).abs()
        relative = torch.where(usable & (magnitude > 0), error / magnitude, 0.0)
        self.max_relative = max(self.max_relative, float(relative.max()))

    def _add_worst(self, tile: _Tile, judged: _Judged, got: torch.Tensor, written: torch.Tensor) -> None:
        """The element nearest to (or farthest over) what is allowed it."""
        # Where nothing is allowed, any error is infinitely too large, and none is none.
        ratio = torch.where(judged.error > 0, judged.error / judged.allowed, 0.0)
        # Infinite limits (a row whose error is not finite) come out as NaN and count as too large.
        ratio = torch.where(judged.wrong & ratio.isnan(), math.inf, ratio)
        ratio = torch.where(written & ~ratio.isnan() & ~judged.error.isnan(), ratio, -1.0)
        at = int(ratio.argmax())
        largest = float(ratio.flatten()[at])
        if largest > self.worst_ratio:
            self.worst_ratio = largest
            self.worst = self._sample(tile, judged, got, at)

    def _add_unwritten(self, tile: _Tile, unwritten: torch.Tensor) -> None:
        count = int(unwritten.sum())
        if count == 0:
            return
        self.unwritten += count
        where = unwritten.flatten().nonzero()
        if self.first_unwritten is None:
            self.first_unwritten = tile.position(int(where[0]))
        self.last_unwritten = tile.position(int(where[-1]))

    def _sample(self, tile: _Tile, judged: _Judged, got: torch.Tensor, flat: int) -> dict[str, Any]:
        return {
            "index": self._index(tile.position(flat)),
            "expected": number(judged.expected.flatten()[flat].item()),
            "got": number(got.flatten()[flat].item()),
            "allowed": number(judged.allowed.flatten()[flat].item()),
            "terms": self.rows.terms(tile.row + flat // tile.columns, judged.expected.flatten()[flat]),
        }

    def _index(self, position: int | None) -> list[int] | None:
        return None if position is None else _index_of(position, self.shape)

    def summary(self) -> dict[str, Any]:
        return {
            "elements": math.prod(self.shape),
            "elements_compared": self.compared,
            "unwritten": self.unwritten,
            "first_unwritten": self._index(self.first_unwritten),
            "last_unwritten": self._index(self.last_unwritten),
            "non_finite_mismatches": self.non_finite,
            "undefined": self.undefined,
            "undecided": self.undecided,
            "exact": self.rows.is_exact,
            "first_non_finite": self.first_non_finite,
            "violations": self.violations,
            "tf32_violations": self.tf32_violations,
            "first": self.first,
            "worst": self.worst,
            "max_absolute_error": number(self.max_absolute),
            "max_relative_error": number(self.max_relative),
            "reference_max_absolute_error": number(self.reference_error),
            "expected_rms": number(self.expected_rms),
        }


def _index_of(position: int, shape: Sequence[int]) -> list[int]:
    """The index of a row-major position."""
    index = []
    for size in reversed(shape):
        position, at = divmod(position, size)
        index.append(at)
    return index[::-1]


def _as_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Two-dimensional: one row for each run of the last dimension; a scalar is one row of one."""
    if tensor.dim() == 0:
        return tensor.reshape(1, 1)
    length = tensor.shape[-1]
    return tensor.reshape(math.prod(tensor.shape[:-1]), length)


def _first_true(mask: torch.Tensor) -> int:
    return int(mask.flatten().to(torch.uint8).argmax())
