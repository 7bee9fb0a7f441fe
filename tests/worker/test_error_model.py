"""The error model on PyTorch's own values: honest rounding is accepted, a lower precision is not.

Sums (`reduce`) and products (`matmul`) of drawn shapes, lengths and scales, computed in many honest ways and
in several that lose digits, each through the real comparison with the factors of `tolerance.rs`.
"""

import json
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from warpsmith_worker import case_truth, compare, inputs
from warpsmith_worker.compare import Tolerance, Truth
from warpsmith_worker.dtypes import ElementType, by_name

_FIXTURE = Path(__file__).parent / "fixtures/tolerances.json"
# Below this the server asks for the condition of the inputs.
_SMALL_OUTPUT = 64
# Rows and columns of the outputs.
_SHAPES = ((1, 1), (1, 5), (3, 7), (3, 67), (1, 100), (16, 8))
_FLOATS = ("float32", "float16", "bfloat16")
_NARROW = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def _tolerances() -> dict[tuple[str, int], dict[str, float]]:
    lines = json.loads(_FIXTURE.read_text())
    return {(line["dtype"], line["reduction"]): line["tolerance"] for line in lines}


_TOLERANCES = _tolerances()
_LENGTHS = sorted({length for _, length in _TOLERANCES})


@dataclass
class Problem:
    """`left[M, K] @ right[K, N]`; a plain sum where every element of `right` is 1."""

    element: ElementType
    left: torch.Tensor
    right: torch.Tensor
    told: str

    @property
    def shape(self) -> tuple[int, int]:
        return self.left.shape[0], self.right.shape[1]

    @property
    def outputs(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def length(self) -> int:
        return self.left.shape[1]

    def truth(self) -> Truth:
        """As the judge makes it: in float64, by PyTorch in the dtype, and on inputs that are a little off."""
        perturbed: tuple[torch.Tensor, ...] = ()
        if self.outputs < _SMALL_OUTPUT:
            perturbed = tuple(self._perturbed(draw) for draw in range(case_truth._PERTURBATIONS))
        return Truth(self.left.double() @ self.right.double(), self._by_torch(), perturbed)

    def _by_torch(self) -> torch.Tensor:
        if self.element.itemsize > 1:
            return self.left @ self.right
        # PyTorch multiplies no matrices of 8 bits; whoever writes a reference widens them.
        return (self.left.float() @ self.right.float()).to(self.element.torch)

    def _perturbed(self, draw: int) -> torch.Tensor:
        left, right = (
            inputs.perturbed(values, case_truth._PERTURBATION, 7, position, draw)
            for position, values in enumerate((self.left, self.right))
        )
        return left @ right

    def violations(self, got: torch.Tensor) -> int:
        """Elements outside the tolerance, of a result in any dtype that is rounded once to the output's."""
        factors = dict(_TOLERANCES[self.element.name, self.length])
        if self.outputs >= _SMALL_OUTPUT:
            factors["condition_factor"] = 0.0
        rounded = got.to(self.element.torch).contiguous()
        found: dict[str, Any] = compare.measure(
            rounded, self.truth(), self.element, Tolerance(**factors), False
        )
        return found["violations"] + found["non_finite_mismatches"]

    def terms(self) -> np.ndarray:
        """All products in float32, K first: what is added up for each element."""
        left, right = self.left.float().numpy(), self.right.float().numpy()
        return left.T[:, :, None] * right[:, None, :]


class Draws:
    """Problems from a seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def whole(self, below: int) -> int:
        """A number from 0 to `below` - 1."""
        return int(torch.randint(below, (), generator=self.generator))

    def problem(
        self,
        dtype: str,
        lengths: list[int],
        shapes: tuple[tuple[int, int], ...] = _SHAPES,
        leaning: bool | None = None,
    ) -> Problem:
        """`leaning`: the terms have a mean, so that a sum grows with its length; None leaves it to chance."""
        element = by_name(dtype)
        length, (rows, columns) = lengths[self.whole(len(lengths))], shapes[self.whole(len(shapes))]
        if length > 4096:
            rows, columns = min(rows, 4), min(columns, 32)
        # What float16 and the 8-bit types hold of sums like these.
        largest = {"float16": 0, "float8_e5m2": 0, "float8_e4m3fn": -2}.get(dtype, 6)
        exponent = self.whole(largest + 7) - 6 if element.itemsize > 1 else largest - self.whole(2)
        lean = self.whole(2) == 1 if leaning is None else leaning
        mean = (0.5, 3.0)[self.whole(2)] if lean else 0.0

        def drawn(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=self.generator) + mean

        is_sum = self.whole(2) == 1
        if is_sum:
            rows, columns = rows * columns, 1
        left = (drawn(rows, length) * 10.0**exponent).to(element.torch)
        right = (torch.ones(length, columns) if is_sum else drawn(length, columns)).to(element.torch)
        what = "sum" if is_sum else "product"
        told = f"{dtype} {what} [{rows}, {length}, {columns}] around {mean} times 1e{exponent}"
        return Problem(element, left, right, told)


def _in_sequence(terms: np.ndarray) -> np.ndarray:
    return np.add.accumulate(terms, axis=0, dtype=np.float32)[-1]


def _in_chunks(terms: np.ndarray, size: int) -> np.ndarray:
    sums = [_in_sequence(terms[at : at + size]) for at in range(0, len(terms), size)]
    return _in_sequence(np.stack(sums))


def _pairwise(terms: np.ndarray) -> np.ndarray:
    while len(terms) > 1:
        even = len(terms) // 2 * 2
        pairs = terms[0:even:2] + terms[1:even:2]
        terms = np.concatenate([pairs, terms[even:]])
    return terms[0]


def _fused(problem: Problem) -> np.ndarray:
    """One rounding for each product and addition."""
    left, right = problem.left.double().numpy(), problem.right.double().numpy()
    total = np.zeros(problem.shape, np.float32)
    for k in range(problem.length):
        total = (left[:, k, None] * right[k] + total).astype(np.float32)
    return total


def _honest(problem: Problem, permutation: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    terms = problem.terms()
    yield "in sequence", _in_sequence(terms)
    yield "backwards", _in_sequence(terms[::-1])
    yield "permuted", _in_sequence(terms[permutation])
    for size in (16, 100, 1024):
        yield f"in chunks of {size}", _in_chunks(terms, size)
    yield "pairwise", _pairwise(terms)
    if problem.length <= 1024:
        yield "fused", _fused(problem)


def _tf32(values: torch.Tensor) -> torch.Tensor:
    """Ten explicit bits, to nearest."""
    bits = values.contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


def _narrow_sum(terms: np.ndarray, dtype: torch.dtype, tile: int) -> torch.Tensor:
    """Float32 sums of tiles, added to an accumulator of `dtype`."""
    total = torch.zeros(terms.shape[1:], dtype=dtype)
    for at in range(0, len(terms), tile):
        part = torch.from_numpy(_in_sequence(terms[at : at + tile]))
        total = (total.float() + part).to(dtype)
    return total


# Outputs of many elements: of few, any may be right by chance.
_TELLING = ((3, 67), (1, 100), (16, 8))


class ErrorModel(unittest.TestCase):
    def test_honest_rounding_is_accepted(self) -> None:
        draws = Draws(101)
        for _ in range(70):
            for dtype in _FLOATS:
                problem = draws.problem(dtype, _LENGTHS)
                order = torch.randperm(problem.length, generator=draws.generator).numpy()
                for how, got in _honest(problem, order):
                    with self.subTest(problem=problem.told, how=how):
                        self.assertEqual(problem.violations(torch.from_numpy(np.ascontiguousarray(got))), 0)

    def test_honest_rounding_to_eight_bits_is_accepted(self) -> None:
        draws = Draws(102)
        for _ in range(60):
            for dtype in ("float8_e4m3fn", "float8_e5m2"):
                problem = draws.problem(dtype, [length for length in _LENGTHS if length <= 64])
                with self.subTest(problem=problem.told):
                    self.assertEqual(problem.violations(torch.from_numpy(_in_sequence(problem.terms()))), 0)

    def test_float32_through_coarser_inputs_is_rejected(self) -> None:
        draws = Draws(103)
        through: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
            "TF32": _tf32,
            "float16": lambda values: values.half().float(),
            "bfloat16": lambda values: values.bfloat16().float(),
        }
        for turn in range(120):
            # Long sums of one sign lose what their terms are off: see `tolerance_properties.rs`.
            leaning = turn % 2 == 1
            lengths = [length for length in _LENGTHS if length <= 600] if leaning else _LENGTHS
            problem = draws.problem("float32", lengths, _TELLING, leaning)
            for how, rounded in through.items():
                if how == "float16" and problem.left.abs().max() > 65000:
                    continue
                with self.subTest(problem=problem.told, how=how):
                    got = rounded(problem.left).double() @ rounded(problem.right).double()
                    self.assertGreater(problem.violations(got.float()), 0)

    def test_narrow_accumulators_are_rejected(self) -> None:
        draws = Draws(104)
        for _ in range(25):
            for dtype, narrow in _NARROW.items():
                # Of few additions, one more rounding or two is all there is to see.
                problem = draws.problem(dtype, [1000, 1024, 2048, 4093], ((1, 100), (16, 8)))
                if problem.left.float().abs().mean() < 1e-3:
                    # Next to zero float16 is a grid, on which its sums are exact.
                    continue
                with self.subTest(problem=problem.told):
                    self.assertGreater(problem.violations(_narrow_sum(problem.terms(), narrow, 1)), 0)

    def test_float32_in_narrow_accumulators_is_rejected(self) -> None:
        draws = Draws(105)
        for _ in range(60):
            problem = draws.problem("float32", [n for n in _LENGTHS if n <= 2048], _TELLING)
            for dtype, narrow in _NARROW.items():
                if dtype == "float16" and problem.terms().sum(0).max() > 60000:
                    continue
                with self.subTest(problem=problem.told, accumulator=dtype):
                    self.assertGreater(problem.violations(_narrow_sum(problem.terms(), narrow, 16)), 0)


if __name__ == "__main__":
    unittest.main()
