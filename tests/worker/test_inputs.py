"""Values of inputs: the generator, the fills, and that layouts do not change them."""

import json
import unittest

import numpy as np
import torch
from warpsmith_worker import inputs, philox

from .client import NORMAL, ROOT

GOLDEN = json.loads((ROOT / "tests/fixtures/philox.json").read_text())


class Philox(unittest.TestCase):
    def test_published_known_answers(self) -> None:
        for row in GOLDEN["known_answers"]:
            counter = tuple(np.array([int(word, 16)], np.uint64) for word in row["counter"])
            key = tuple(int(word, 16) for word in row["key"])
            words = [f"{int(word[0]):08x}" for word in philox.words(counter, key)]
            self.assertEqual(words, row["words"])

    def test_golden_draws(self) -> None:
        for row in GOLDEN["draws"]:
            count = len(row["values"])
            drawn = inputs.draw(row["fill"], int(row["seed"]), row["position"], row["first"], count)
            self.assertEqual(drawn.tolist(), row["values"])

    def test_chunks_do_not_change_values(self) -> None:
        count = 4 * inputs._CHUNK_BLOCKS + 1001
        for fill in (NORMAL, {"uniform": {"low": 0, "high": 1}}):
            whole = torch.empty(count, dtype=torch.float64)
            inputs.fill_tensor(whole, fill, 99, 2)
            at_once = inputs.draw(fill, 99, 2, 0, count).astype(np.float32).astype(np.float64)
            self.assertEqual(whole.tolist(), at_once.tolist())


class Fills(unittest.TestCase):
    def test_normal_has_its_moments(self) -> None:
        drawn = inputs.draw({"normal": {"mean": 3.0, "std": 0.5}}, 1, 0, 0, 1 << 18)
        self.assertAlmostEqual(drawn.mean(), 3.0, delta=0.01)
        self.assertAlmostEqual(drawn.std(), 0.5, delta=0.01)

    def test_integers_cover_their_range_and_no_more(self) -> None:
        drawn = inputs.draw({"integers": {"low": -2, "high": 3}}, 1, 0, 0, 4096)
        self.assertEqual(sorted(set(drawn.tolist())), [-2, -1, 0, 1, 2])

    def test_seed_and_position_matter(self) -> None:
        first = inputs.draw(NORMAL, 1, 0, 0, 64).tolist()
        self.assertNotEqual(first, inputs.draw(NORMAL, 2, 0, 0, 64).tolist())
        self.assertNotEqual(first, inputs.draw(NORMAL, 1 << 32 | 1, 0, 0, 64).tolist())
        self.assertNotEqual(first, inputs.draw(NORMAL, 1, 1, 0, 64).tolist())

    def test_bad_fills_are_refused(self) -> None:
        for fill in ({"integers": {"low": 3, "high": 3}}, {"gamma": {}}, "ones", {}):
            with self.assertRaises(inputs.BadFill):
                inputs.draw(fill, 1, 0, 0, 4)

    def test_every_dtype_can_be_filled(self) -> None:
        for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
            tensor = torch.empty(1000, dtype=dtype)
            inputs.fill_tensor(tensor, NORMAL, 3, 0)
            exact = torch.empty(1000)
            inputs.fill_tensor(exact, NORMAL, 3, 0)
            self.assertEqual(tensor.float().tolist(), exact.to(dtype).float().tolist())
        for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.bool):
            tensor = torch.empty(1000, dtype=dtype)
            inputs.fill_tensor(tensor, {"integers": {"low": 0, "high": 2}}, 3, 0)
            self.assertEqual(set(tensor.long().tolist()), {0, 1})


def profiled(profile: object, row_length: int = 16, base: object = NORMAL) -> dict[str, object]:
    return {"profiled": {"base": base, "profile": profile, "row_length": row_length}}


class Profiles(unittest.TestCase):
    def draw(self, profile: object, rows: int = 64, row_length: int = 16, **more: object) -> np.ndarray:
        fill = profiled(profile, row_length, **more)
        return inputs.draw(fill, 11, 1, 0, rows * row_length).reshape(rows, row_length)

    def base(self) -> np.ndarray:
        return inputs.draw(NORMAL, 11, 1, 0, 64 * 16).reshape(64, 16)

    def test_values_depend_on_the_index_alone(self) -> None:
        for name in ("heavy-tails", "mixed-scale", "signed-zeros", "ties", "one-hot", "exact-integers"):
            fill = profiled(name, 7)
            whole = inputs.draw(fill, 3, 2, 0, 4 * 50)
            pieces = [inputs.draw(fill, 3, 2, first, 20) for first in range(0, 200, 20)]
            np.testing.assert_array_equal(whole, np.concatenate(pieces), name)
            self.assertFalse(np.array_equal(whole, inputs.draw(fill, 4, 2, 0, 200)), name)

    def test_scales(self) -> None:
        base = self.base()
        np.testing.assert_array_equal(self.draw({"scaled": {"exponent": -130}}), np.ldexp(base, -130))
        mixed = self.draw("mixed-scale")
        np.testing.assert_array_equal(mixed[::2], base[::2] * 1024)
        np.testing.assert_array_equal(mixed[1::2], base[1::2] / 1024)
        factors = self.draw("heavy-tails") / base
        self.assertEqual(set(np.log2(factors).ravel().tolist()) - set(range(9)), set())
        self.assertAlmostEqual(float((factors == 1).mean()), 0.5, delta=0.05)
        np.testing.assert_array_equal(self.draw("offset"), base + 1024)

    def test_few_values(self) -> None:
        ties = self.draw("ties", base={"normal": {"mean": 1.0, "std": 0.5}})
        self.assertEqual(sorted(set(ties.ravel().tolist())), [0.5, 1.0, 1.5])
        self.assertEqual(set(self.draw("equal").ravel().tolist()), {1.5})
        integers = self.draw("exact-integers")
        self.assertEqual(sorted(set(integers.ravel().tolist())), [-2, -1, 0, 1, 2])
        hot = self.draw("one-hot")
        np.testing.assert_array_equal((hot == 16).sum(1), np.ones(64))
        self.assertEqual((hot == 0).sum(), 64 * 15)
        self.assertGreater(len(set(hot.argmax(1).tolist())), 8)

    def test_zeros_of_both_signs(self) -> None:
        drawn = self.draw("signed-zeros")
        self.assertTrue((drawn[3::4] == 0).all())
        zeros = drawn[drawn == 0]
        self.assertTrue(np.signbit(zeros).any() and not np.signbit(zeros).all())
        self.assertTrue((drawn != 0).any())

    def test_values_that_are_not_finite(self) -> None:
        base = self.base()
        rows = self.draw("negative-infinity-rows")
        self.assertTrue((rows[::2] == -np.inf).all())
        np.testing.assert_array_equal(rows[1::2], base[1::2])
        np.testing.assert_array_equal(np.isposinf(self.draw("infinity")).sum(1), [1, 0] * 32)
        nan = np.isnan(self.draw("nan"))
        self.assertEqual((nan.sum(), nan[0].sum()), (1, 1))

    def test_narrow_dtypes_hold_what_is_meant(self) -> None:
        tensor = torch.empty(64, 16, dtype=torch.float16)
        inputs.fill_tensor(tensor, profiled({"scaled": {"exponent": -17}}), 11, 1)
        small = tensor.float().abs()
        self.assertGreater(int(((small > 0) & (small < 2.0**-14)).sum()), 900)
        wide = torch.empty(64, 16)
        inputs.fill_tensor(wide, profiled({"scaled": {"exponent": -130}}), 11, 1)
        self.assertGreater(int(((wide != 0) & (wide.abs() < 2.0**-126)).sum()), 900)

    def test_unknown_profiles_are_refused(self) -> None:
        nested = profiled("ties", base=profiled("ties"))
        for fill in (profiled("gamma"), profiled({"scaled": {}, "more": 1}), nested):
            with self.assertRaises(inputs.BadFill):
                inputs.draw(fill, 1, 0, 0, 4)

    def test_perturbed_values_move_by_one_rounding(self) -> None:
        values = torch.linspace(1, 2, 100).reshape(4, 25)
        moved = inputs.perturbed(values, 2.0**-23, 5, 0, draw=2)
        self.assertFalse(torch.equal(moved, inputs.perturbed(values, 2.0**-23, 5, 0, draw=3)))
        relative = (moved / values.double() - 1).abs()
        self.assertTrue(torch.allclose(relative, torch.full_like(relative, 2.0**-23), rtol=1e-6))
        self.assertTrue((moved > values).any() and (moved < values).any())


class Layouts(unittest.TestCase):
    def fill(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
        tensor = torch.empty_strided(shape, strides)
        inputs.fill_tensor(tensor, NORMAL, 5, 1)
        return tensor

    def test_values_do_not_depend_on_strides(self) -> None:
        contiguous = self.fill((5, 7, 3), (21, 3, 1))
        for strides in ((1, 5, 35), (3, 15, 1), (64, 8, 2)):
            self.assertTrue(torch.equal(contiguous, self.fill((5, 7, 3), strides)), strides)

    def test_expanded_dimension_repeats_index_zero(self) -> None:
        expanded = torch.empty(4).expand(3, 4)
        inputs.fill_tensor(expanded, NORMAL, 5, 1)
        contiguous = self.fill((3, 4), (4, 1))
        self.assertTrue(torch.equal(expanded, contiguous[:1].expand(3, 4)))

    def test_overlapping_elements_are_refused(self) -> None:
        overlapping = torch.empty(10).as_strided((3, 4), (2, 1))
        with self.assertRaises(inputs.BadFill):
            inputs.fill_tensor(overlapping, NORMAL, 5, 1)

    def test_empty_and_scalar_tensors(self) -> None:
        self.fill((0, 4), (4, 1))
        self.fill((4, 0), (1, 1))
        self.assertEqual(self.fill((), ()).item(), self.fill((1,), (1,))[0].item())


if __name__ == "__main__":
    unittest.main()
