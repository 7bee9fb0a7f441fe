"""Measuring an output: tolerances, non-finite values, poison, impostors."""

import math
import unittest
from typing import Any
from unittest import mock

import torch
from warpsmith_worker import compare, integers, poison
from warpsmith_worker.compare import Tolerance, Truth
from warpsmith_worker.dtypes import by_name
from warpsmith_worker.reference import ReferenceFailed

NAN, INF = math.nan, math.inf
EXACT = Tolerance(0, 0, 0, 0)
USUAL = Tolerance(4, 2**-20, 2**-20, 2**-9)


def measure(
    got: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance = USUAL,
    in_dtype: torch.Tensor | None = None,
    written_only: bool = False,
) -> dict[str, Any]:
    element = by_name(str(got.dtype).removeprefix("torch."))
    expected = expected.to(torch.float64 if element.is_float else torch.int64)
    truth = Truth(expected, expected.to(got.dtype) if in_dtype is None else in_dtype)
    return compare.measure(got, truth, element, tolerance, written_only)


def floats(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def distinct(rows: torch.Tensor) -> torch.Tensor:
    """Rows of many values a hair apart: such rows are measured alone."""
    return rows.double() * (1 + 1e-6 * torch.arange(rows.shape[1]))


class Tolerances(unittest.TestCase):
    def test_equal_is_no_violation(self) -> None:
        x = torch.randn(5, 33)
        found = measure(x, x, EXACT)
        self.assertEqual((found["violations"], found["elements_compared"]), (0, 165))
        self.assertIsNone(found["first"])
        self.assertEqual(found["worst"]["expected"], found["worst"]["got"])

    def test_each_term_of_the_sum(self) -> None:
        expected = distinct(torch.tensor([[1.0, 2.0, 2.0], [100.0, 0.0, 0.0]]).repeat(1, 40))
        reference = expected.clone()
        reference[0, 1] += 0.5
        rms = [math.sqrt(3.0), math.sqrt(10000 / 3)]
        for tolerance, allowed in (
            (Tolerance(2, 0, 0, 0), [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]),
            (Tolerance(0, 0.25, 0, 0), [[0.25, 0.5, 0.5], [25.0, 0.0, 0.0]]),
            (Tolerance(0, 0, 0.1, 0), [[0.1 * rms[0]] * 3, [0.1 * rms[1]] * 3]),
        ):
            limits = torch.tensor(allowed, dtype=torch.float64).repeat(1, 40)
            inside, outside = expected + 0.99 * limits, expected + 1.01 * limits + 1e-3
            found = measure(inside.float(), expected, tolerance, reference.float())
            self.assertEqual(found["violations"], 0, (tolerance, found))
            found = measure(outside.float(), expected, tolerance, reference.float())
            self.assertEqual(found["violations"], 240, (tolerance, found))

    def test_the_terms_of_an_allowed_error(self) -> None:
        expected = torch.tensor([[3.0, 4.0]], dtype=torch.float64)
        truth = Truth(
            expected,
            torch.tensor([[3.5, 4.0]]),
            (expected + torch.tensor([[0.0, 0.125]]), expected + torch.tensor([[0.125, 0.0]])),
        )
        element = by_name("float32")
        tolerance = Tolerance(2, 0.25, 0.5, 0.5, 8)
        found = compare.measure(expected.float(), truth, element, tolerance, written_only=False)
        terms = found["worst"]["terms"]
        self.assertEqual((terms["reference"], terms["rounding"], terms["conditioning"]), (1.0, 0.75, 1.0))
        self.assertAlmostEqual(terms["accumulation"], 0.5 * math.sqrt(12.5))
        self.assertAlmostEqual(found["worst"]["allowed"], sum(terms.values()))

    def test_the_worst_element_is_told_when_all_are_right(self) -> None:
        expected = torch.ones(2, 3)
        got = expected.clone()
        got[1, 2] += 2.0**-22
        found = measure(got, expected)
        self.assertEqual((found["violations"], found["worst"]["index"]), (0, [1, 2]))

    def test_next_to_zero_a_rounding_is_one_subnormal(self) -> None:
        tiny = 2.0**-149
        found = measure(floats(2 * tiny, 0), floats(tiny, 0), Tolerance(0, 2**-23, 0, 0))
        self.assertEqual(found["violations"], 0)
        found = measure(floats(3 * tiny, 0), floats(tiny, 0), Tolerance(0, 2**-23, 0, 0))
        self.assertEqual(found["violations"], 1)

    def test_rows_that_repeat_one_value_are_measured_together(self) -> None:
        expected = torch.arange(1.0, 6.0)[:, None].expand(5, 40).double()
        reference = expected.float().clone()
        # In one row PyTorch is off by 0.25; in the others it is right by luck.
        reference[2] += 0.25
        got = expected.float().clone()
        got[4] += 0.25
        tolerance = Tolerance(2, 0, 0, 0)
        self.assertEqual(measure(got, expected, tolerance, reference)["violations"], 0)
        got[4] += 0.5
        self.assertEqual(measure(got, expected, tolerance, reference)["violations"], 40)
        # Rows of many values stay on their own.
        expected = expected + torch.arange(40) / 64
        found = measure(expected.float() + 0.25, expected, tolerance, expected.float())
        self.assertEqual(found["violations"], 200)

    def test_what_is_exact_in_its_dtype_must_be_exact(self) -> None:
        element = by_name("float32")

        def violations(expected: torch.Tensor, got: torch.Tensor) -> tuple[int, bool]:
            truth = Truth(expected.double(), expected.float())
            found = compare.measure(got, truth, element, USUAL, False, exact_if_agree=True)
            return found["violations"], found["exact"]

        near = floats(1, 2 + 2**-21)
        self.assertEqual(violations(torch.tensor([1.0, 2.0]), near), (1, True))
        self.assertEqual(violations(torch.tensor([1.0, 2.0]), floats(1, 2)), (0, True))
        # A third is not exact, so the usual tolerance holds.
        self.assertEqual(violations(torch.tensor([1 / 3, 2.0], dtype=torch.float64), near)[1], False)

    def test_where_the_reference_fails_itself(self) -> None:
        half = torch.tensor([[INF, NAN, 1.0]], dtype=torch.float16)
        # 1e6 is out of range, so infinity is right; 2.0 is not.
        found = measure(half, torch.tensor([[1e6, 2.0, 1.0]]), in_dtype=half)
        self.assertEqual(found["undefined"], 1)
        self.assertEqual(measure(half, half.double(), in_dtype=half)["undefined"], 0)

    def test_rows_have_their_own_scale(self) -> None:
        # An error that the large row hides must show in the small one.
        expected = distinct(torch.tensor([[1000.0] * 16, [0.001] * 16]))
        found = measure((expected + 0.01).float(), expected, Tolerance(0, 0, 1e-3, 0))
        self.assertEqual(found["violations"], 16)
        self.assertEqual(found["first"]["index"], [1, 0])

    def test_short_rows_are_measured_with_their_neighbours(self) -> None:
        # One column, as of a product with a vector: that an element is small by cancellation says nothing
        # of the size of its terms.
        expected = torch.ones(32, 1, dtype=torch.float64)
        expected[3] = 1e-9
        found = measure((expected + 1e-4).float(), expected, Tolerance(0, 0, 1e-3, 0))
        self.assertEqual(found["violations"], 0)
        expected[16:] = 1e-9  # the second group of 16
        found = measure((expected + 1e-4).float(), expected, Tolerance(0, 0, 1e-3, 0))
        self.assertEqual((found["violations"], found["first"]["index"]), (16, [16, 0]))

    def test_what_is_left_of_short_rows_joins_the_last_group(self) -> None:
        for rows, columns in ((5, 3), (11, 3), (17, 2), (40, 15), (2, 1)):
            expected = torch.ones(rows, columns, dtype=torch.float64)
            expected[-1] = 1e-9
            found = measure((expected + 1e-4).float(), expected, Tolerance(0, 0, 1e-3, 0))
            self.assertEqual(found["violations"], 0, (rows, columns))

    def test_first_and_worst(self) -> None:
        expected = torch.ones(4, 6)
        got = expected.clone()
        got[1, 2] += 0.1
        got[3, 5] -= 7
        found = measure(got, expected)
        self.assertEqual(found["violations"], 2)
        self.assertEqual(found["first"]["index"], [1, 2])
        self.assertEqual(found["worst"]["index"], [3, 5])
        self.assertEqual((found["worst"]["expected"], found["worst"]["got"]), (1.0, -6.0))
        self.assertEqual(found["max_absolute_error"], 7.0)
        self.assertEqual(found["max_relative_error"], 7.0)

    def test_worst_is_relative_to_what_is_allowed(self) -> None:
        expected = distinct(torch.tensor([[1000.0] * 16, [0.001] * 16])).float()
        got = expected.clone()
        got[0, 0] += 1.0
        got[1, 0] += 0.1
        found = measure(got, expected, Tolerance(0, 0, 1e-4, 0))
        self.assertEqual(found["worst"]["index"], [1, 0])

    def test_nothing_allowed_reports_infinite_excess(self) -> None:
        found = measure(floats(1, 2, 4), floats(1, 2, 3), EXACT)
        self.assertEqual((found["violations"], found["worst"]["allowed"]), (1, 0.0))

    def test_tf32_violations_use_the_wider_limit(self) -> None:
        expected = torch.ones(1, 64)
        found = measure(expected + 1e-3, expected)
        self.assertEqual((found["violations"], found["tf32_violations"]), (64, 0))
        found = measure(expected + 1e-1, expected)
        self.assertEqual((found["violations"], found["tf32_violations"]), (64, 64))

    def test_reference_error_is_reported(self) -> None:
        found = measure(floats(1, 2), floats(1, 2), USUAL, in_dtype=floats(1.25, 2))
        self.assertEqual(found["reference_max_absolute_error"], 0.25)

    def test_signed_zeros_are_equal(self) -> None:
        self.assertEqual(measure(floats(-0.0, 0.0), floats(0.0, -0.0), EXACT)["violations"], 0)

    def test_scalar_output(self) -> None:
        self.assertEqual(measure(torch.tensor(2.0), torch.tensor(3.0))["first"]["index"], [])

    def test_zero_size_outputs(self) -> None:
        for shape in ((0,), (0, 5), (5, 0), (2, 0, 3)):
            found = measure(torch.empty(shape), torch.empty(shape))
            self.assertEqual((found["elements"], found["violations"], found["unwritten"]), (0, 0, 0))

    def test_tiles_agree_with_the_whole(self) -> None:
        torch.manual_seed(1)
        for shape in ((37, 11), (3, 101), (211,), (2, 3, 5, 7)):
            expected = torch.randn(shape)
            got = expected + 1e-5 * torch.randn(shape)
            got.view(-1)[-1] = NAN
            poison_at = got.view(-1)[5:7]
            poison_at.view(torch.int32).fill_(by_name("float32").poison)
            tolerance = Tolerance(0, 0, 1e-5, 1e-4)
            whole = measure(got, expected, tolerance)
            self.assertGreater(whole["violations"], 0)
            for tile in (1, 10, 64):
                with mock.patch.object(compare, "_TILE_ELEMENTS", tile):
                    pieces = measure(got, expected, tolerance)
                self.assertAlmostEqual(pieces.pop("expected_rms"), whole["expected_rms"])
                # Sums in another order: the limits may differ in the last bit.
                for sample in ("first", "worst", "first_non_finite"):
                    self.assertEqual(pieces.pop(sample)["index"], whole[sample]["index"])
                self.assertEqual(pieces, {key: whole[key] for key in pieces})


class NonFinite(unittest.TestCase):
    def mismatches(self, got: torch.Tensor, expected: torch.Tensor) -> int:
        found = measure(got, expected)
        self.assertEqual(found["violations"], 0, "counted once, as non-finite")
        return found["non_finite_mismatches"]

    def test_same_masks_agree(self) -> None:
        self.assertEqual(self.mismatches(floats(NAN, INF, -INF, 1), floats(NAN, INF, -INF, 1)), 0)

    def test_every_other_combination_is_a_mismatch(self) -> None:
        for got, expected in ((NAN, 1), (1, NAN), (INF, 1), (1, INF), (INF, -INF), (INF, NAN), (NAN, INF)):
            found = measure(floats(0, got), floats(0, expected))
            self.assertEqual((found["non_finite_mismatches"], found["violations"]), (1, 0), (got, expected))
            self.assertEqual(found["first_non_finite"]["index"], [1])

    def test_samples_survive_json(self) -> None:
        sample = measure(floats(NAN), floats(-INF))["first_non_finite"]
        self.assertEqual((sample["got"], sample["expected"]), ("NaN", "-Infinity"))

    def test_one_nan_does_not_excuse_the_rest(self) -> None:
        found = measure(floats(NAN, 5), floats(NAN, 1))
        self.assertEqual((found["non_finite_mismatches"], found["violations"]), (0, 1))

    def test_infinity_does_not_widen_the_row(self) -> None:
        found = measure(floats(INF, 5), floats(INF, 1))
        self.assertEqual(found["violations"], 1)

    def test_overflow_of_the_reference_does_not_widen_the_row(self) -> None:
        expected = torch.tensor([[1e300, 1.0]], dtype=torch.float64)
        found = measure(torch.tensor([[INF, 5.0]]), expected, in_dtype=torch.tensor([[INF, 1.0]]))
        self.assertEqual((found["violations"], found["non_finite_mismatches"]), (1, 0))
        self.assertEqual(found["expected_rms"], 1.0)

    def test_overflow_of_the_dtype_is_its_right_rounding(self) -> None:
        expected = torch.tensor([70000.0, -70000.0, 65500.0, 70000.0], dtype=torch.float64)
        got = torch.tensor([INF, -INF, 65504.0, 65504.0], dtype=torch.float16)
        found = measure(got, expected, Tolerance(0, 2**-10, 0, 0))
        self.assertEqual((found["non_finite_mismatches"], found["violations"]), (0, 1))
        wrong_sign = torch.tensor([-INF, -INF, 65504.0, INF], dtype=torch.float16)
        self.assertEqual(measure(wrong_sign, expected)["non_finite_mismatches"], 1)

    def test_a_type_without_infinity_overflows_to_nan(self) -> None:
        got = torch.tensor([1000.0, 1.0]).to(torch.float8_e4m3fn)
        got[0] = NAN
        found = measure(got, torch.tensor([1000.0, 1.0]))
        self.assertEqual(found["non_finite_mismatches"], 0)
        got[1] = NAN
        self.assertEqual(measure(got, torch.tensor([1000.0, 1.0]))["non_finite_mismatches"], 1)


class Integers(unittest.TestCase):
    def test_must_be_equal(self) -> None:
        expected = torch.arange(10, dtype=torch.int32)
        got = expected.clone()
        got[7] += 1
        found = measure(got, expected, Tolerance(9, 9, 9, 9))
        self.assertEqual((found["violations"], found["tf32_violations"]), (1, 1))
        first = {"index": [7], "expected": 7.0, "got": 8.0, "allowed": 0.0, "terms": None}
        self.assertEqual(found["first"], first)

    def test_large_values_are_not_rounded(self) -> None:
        expected = torch.tensor([2**53, 2**62], dtype=torch.int64)
        self.assertEqual(measure(expected + 1, expected)["violations"], 2)

    def test_bools(self) -> None:
        found = measure(torch.tensor([True, False, True]), torch.tensor([True, True, True]))
        self.assertEqual((found["violations"], found["unwritten"]), (1, 0))


class Poison(unittest.TestCase):
    def poisoned(self, dtype: torch.dtype, size: int = 8) -> torch.Tensor:
        tensor = torch.zeros(size, dtype=dtype)
        poison.fill_storage(tensor)
        return tensor

    def test_unwritten_elements_are_told_from_nan(self) -> None:
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2):
            got = self.poisoned(dtype)
            got[2] = NAN
            got[3] = 0
            found = measure(got, torch.zeros(8))
            self.assertEqual(found["unwritten"], 6, dtype)
            self.assertEqual((found["first_unwritten"], found["last_unwritten"]), ([0], [7]))
            self.assertEqual((found["non_finite_mismatches"], found["elements_compared"]), (1, 2))

    def test_poison_is_never_a_right_answer(self) -> None:
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            found = measure(self.poisoned(dtype), torch.full((8,), NAN))
            self.assertEqual((found["unwritten"], found["elements_compared"]), (8, 0))

    def test_converted_poison_is_no_poison(self) -> None:
        kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
        for source in kinds:
            for target in kinds[1:]:
                if source != target:
                    got = self.poisoned(source).to(target)
                    self.assertEqual(
                        measure(got, torch.zeros(8))["non_finite_mismatches"], 8, (source, target)
                    )

    def test_truncated_poison_is_no_poison(self) -> None:
        # As an interpreter that keeps the upper half of a float32 would make it.
        got = (self.poisoned(torch.float32).view(torch.int32) >> 16).to(torch.int16).view(torch.bfloat16)
        self.assertEqual(measure(got, torch.zeros(8))["non_finite_mismatches"], 8)

    def test_integers_show_poison_unless_it_is_right(self) -> None:
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
            got = self.poisoned(dtype)
            self.assertEqual(measure(got, torch.zeros(8, dtype=dtype))["unwritten"], 8)
            self.assertEqual(measure(got, got.clone())["unwritten"], 0)

    def test_written_only_bools_are_not_compared(self) -> None:
        found = measure(torch.tensor([True]), torch.tensor([False]), written_only=True)
        self.assertEqual((found["violations"], found["elements_compared"], found["unwritten"]), (0, 0, 0))

    def test_padding_is_poisoned_too(self) -> None:
        tensor = torch.zeros(4, 8)[:, :3]
        poison.fill_storage(tensor)
        self.assertTrue(
            torch.full((), by_name("float32").poison)
            .eq(torch.empty(0, dtype=torch.int32).set_(tensor.untyped_storage()))
            .all()
        )


class Impostors(unittest.TestCase):
    def test_softmax_rejects_zeros_and_mean(self) -> None:
        # The values are tiny: a fixed absolute tolerance would accept both.
        expected = torch.softmax(torch.randn(16, 4096, dtype=torch.float64), -1)
        element, truth = by_name("float16"), Truth(expected, expected.half())
        tolerance = Tolerance(4, 2**-11, 2**-11, 2**-9)
        mean = compare.mean_value(truth, element)
        self.assertAlmostEqual(mean, 1 / 4096, delta=1e-5)
        for impostor in (0, mean):
            self.assertGreater(compare.count_violations(impostor, truth, element, tolerance), 1000)
        self.assertEqual(compare.count_violations(expected, truth, element, tolerance), 0)

    def test_absurd_tolerance_accepts_everything(self) -> None:
        expected = torch.softmax(torch.randn(4, 256, dtype=torch.float64), -1)
        truth = Truth(expected, expected.float())
        element = by_name("float32")
        self.assertEqual(compare.count_violations(0, truth, element, Tolerance(0, 0, 1e9, 0)), 0)

    def test_a_wrong_infinity_counts(self) -> None:
        truth = Truth(torch.tensor([INF, 1.0], dtype=torch.float64), floats(INF, 1))
        wide = Tolerance(0, 0, 1e9, 0)
        self.assertEqual(compare.count_violations(0, truth, by_name("float32"), wide), 1)

    def test_mean_ignores_what_the_dtype_cannot_hold(self) -> None:
        truth = Truth(torch.tensor([INF, NAN, 1e300, 2.0, 4.0], dtype=torch.float64), torch.zeros(5))
        self.assertEqual(compare.mean_value(truth, by_name("float32")), 3.0)


class Undecided(unittest.TestCase):
    """Integers that roundings of the inputs change."""

    def measured(self, got: list[int], truth: Truth) -> tuple[int, int, int]:
        found = compare.measure(torch.tensor(got), truth, by_name("int64"), EXACT, False)
        return found["violations"], found["undecided"], found["elements_compared"]

    def truth(self, expected: list[int], *perturbed: list[int]) -> Truth:
        values = torch.tensor(expected)
        return Truth(values, values.clone(), tuple(torch.tensor(draw) for draw in perturbed))

    def test_only_values_that_a_draw_gave_are_right(self) -> None:
        truth = self.truth([1, 5, 7, 9], [1, 6, 7, 9], [1, 8, 7, 9])
        for value, found in ((5, (0, 0, 4)), (6, (0, 0, 4)), (8, (0, 0, 4)), (123456789, (0, 1, 3))):
            self.assertEqual(self.measured([1, value, 7, 9], truth), found)
        self.assertEqual(self.measured([2, 123456789, 7, 9], truth), (1, 1, 3))
        self.assertEqual(self.measured([6, 6, 7, 9], truth), (1, 0, 4))
        self.assertEqual(compare.count_violations(0, truth, by_name("int64"), EXACT), 4)

    def test_one_element_may_be_one_of_two(self) -> None:
        integers.check("y", self.truth([5], [6], [5]))
        for chance in (
            self.truth([5], [6], [7]),
            self.truth([5, 5], [6, 6]),
            self.truth([1, 2, 3], [2, 3, 3]),
        ):
            with self.assertRaisesRegex(ReferenceFailed, "order of equal values"):
                integers.check("y", chance)
        integers.check("y", self.truth([5, 5], [6, 5]))
        integers.check("y", self.truth([], []))
        integers.check("y", self.truth([1]))


if __name__ == "__main__":
    unittest.main()
