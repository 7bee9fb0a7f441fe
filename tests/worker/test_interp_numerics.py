"""Values: what a GPU rounds, the interpreter rounds alike."""

from __future__ import annotations

import unittest

from tests.worker.interp_support import interpreter, kinds, line_of, load, poisoned_empty, session, tl, torch

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)


class Numerics(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        self.kernels = load("numerics")

    def launch(self, kernel: str, *arguments: object, **named: object) -> dict:
        with session() as running:
            getattr(self.kernels, kernel)[(1,)](*arguments, **named)
        report = running.report()
        self.assertEqual(kinds(report), [])
        return report

    def test_arithmetic_is_rounded_after_every_operation(self) -> None:
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            with self.subTest(dtype=dtype):
                a, b = torch.randn(64).to(dtype) * 3, torch.randn(64).to(dtype)
                out = torch.zeros(7, 64, dtype=dtype)
                self.launch("arithmetic", a, b, out, 64, B=64)
                expected = torch.stack(
                    [a + b, a * b, a - b, -a, torch.maximum(a, b), torch.minimum(a, b), a.abs()]
                )
                self.assertTrue(torch.equal(out, expected))

    def test_a_float_argument_is_float32_and_widens_the_product(self) -> None:
        a = torch.randn(64).to(torch.bfloat16)
        out = torch.zeros(64)
        self.launch("scaled_by_float_argument", a, out, 0.1, B=64)
        self.assertTrue(torch.equal(out, a.float() * torch.tensor(0.1)))

    def test_d30_a_sum_in_bfloat16_loses_digits(self) -> None:
        x = (1 + torch.rand(8192) / 4).to(torch.bfloat16)
        exact = x.double().sum().item()
        narrow, wide = torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1)
        self.launch("row_sum", x, narrow, N=8192)
        self.launch("row_sum_in_float32", x, wide, N=8192)
        self.assertLess(abs(wide.item() - exact), 0.01)
        level = x.float()
        while len(level) > 1:
            level = (level[0::2] + level[1::2]).to(torch.bfloat16).float()
        self.assertEqual(narrow.item(), level.item())

    def test_sums_of_halves_and_bytes(self) -> None:
        x = torch.full((4096,), 17.0, dtype=torch.float16)
        out = torch.zeros(1, dtype=torch.float16)
        self.launch("row_sum", x, out, N=4096)
        self.assertEqual(out.item(), float("inf"))
        x = torch.full((64,), 100, dtype=torch.int8)
        out = torch.zeros(1, dtype=torch.int32)
        self.launch("row_sum", x, out, N=64)
        self.assertEqual(out.item(), 6400)

    def test_extremes(self) -> None:
        for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.int32):
            with self.subTest(dtype=dtype):
                x = torch.randint(-9, 9, (8, 32)).to(dtype)
                out, where = torch.zeros(2, 8, dtype=dtype), torch.zeros(2, 8, dtype=torch.int32)
                self.launch("extremes", x, out, where, M=8, N=32)
                self.assertTrue(torch.equal(out, torch.stack([x.amax(1), x.amin(1)])))
                rows = torch.arange(8)
                self.assertTrue(torch.equal(x[rows, where[0].long()], out[0]))
                first = (x == out[0][:, None]).int().argmax(1).int()
                self.assertTrue(torch.equal(where[0], first))

    def test_extremes_ignore_nan_even_in_a_row_of_nothing_else(self) -> None:
        x = torch.randn(4, 8)
        x[0, 3] = float("nan")
        x[1, :] = float("nan")
        out, where = torch.zeros(2, 4), torch.zeros(2, 4, dtype=torch.int32)
        self.launch("extremes", x, out, where, M=4, N=8)
        self.assertEqual(out[0, 0], x[0][~x[0].isnan()].max())
        self.assertTrue(out[0, 1].isnan())

    def test_running_sums(self) -> None:
        x = torch.randn(64)
        for reverse in (False, True):
            out = torch.zeros(64)
            self.launch("running_sum", x, out, N=64, REVERSE=reverse)
            expected = x.flip(0).cumsum(0).flip(0) if reverse else x.cumsum(0)
            torch.testing.assert_close(out, expected)
        narrow = x.to(torch.bfloat16)
        out = torch.zeros(64, dtype=torch.bfloat16)
        self.launch("running_sum", narrow, out, N=64, REVERSE=False)
        torch.testing.assert_close(out.float(), narrow.float().cumsum(0), rtol=0.05, atol=0.1)
        self.assertEqual(out[0], narrow[0])
        self.assertEqual(out[1], narrow[0] + narrow[1])

    def test_custom_combine_functions(self) -> None:
        x = torch.rand(16) + 0.5
        out = torch.zeros(17)
        self.launch("custom_combinations", x, out, N=16)
        self.assertEqual(out[0], x.max())
        expected, b = [], 0.0
        for position, value in enumerate(x.tolist()):
            b = b * value + value if position else value
            expected.append(b)
        torch.testing.assert_close(out[1:], torch.tensor(expected), rtol=1e-4, atol=1e-4)

    def test_casts_round_to_nearest_even(self) -> None:
        x = torch.cat([torch.randn(60) * 20, torch.tensor([1.00390625, 1.01171875, -0.0, 3e-5])])
        for dtype in (torch.bfloat16, torch.float16, *FLOAT8):
            with self.subTest(dtype=dtype):
                out = torch.zeros(64, dtype=dtype)
                self.launch("cast", x, out, B=64, ROUND=None)
                self.assertTrue(torch.equal(out.float(), x.to(dtype).float()))
                back = torch.zeros(64)
                self.launch("cast", out, back, B=64, ROUND=None)
                self.assertTrue(torch.equal(back, x.to(dtype).float()))

    def test_casts_to_float8_saturate(self) -> None:
        x = torch.tensor([1e6, -1e6, float("inf"), float("nan")])
        for dtype, limit in zip(FLOAT8, (448.0, 57344.0), strict=False):
            out = torch.zeros(4, dtype=dtype)
            self.launch("cast", x, out, B=4, ROUND=None)
            self.assertEqual(out.float()[:3].tolist(), [limit, -limit, limit])
            self.assertTrue(out.float()[3].isnan())

    def test_casts_toward_zero(self) -> None:
        x = torch.randn(64) * 5
        for dtype in (torch.bfloat16, torch.float16, *FLOAT8):
            out = torch.zeros(64, dtype=dtype)
            self.launch("cast", x, out, B=64, ROUND="rtz")
            self.assertTrue((out.float().abs() <= x.abs()).all())
            self.assertTrue(((out.float() - x).abs() <= x.abs() * 2 * torch.finfo(dtype).eps + 2e-3).all())

    def test_casts_to_integers_saturate(self) -> None:
        x = torch.tensor([2.9, -2.9, 1e20, -1e20, float("nan"), float("inf"), 0.0, 5.0])
        out = torch.zeros(8, dtype=torch.int32)
        self.launch("cast", x, out, B=8, ROUND=None)
        self.assertEqual(out.tolist(), [2, -2, 2**31 - 1, -(2**31), 0, 2**31 - 1, 0, 5])

    def dot(self, dtype: torch.dtype, precision: str | None, out: object = tl.float32, k: int = 32) -> tuple:
        a, b = torch.randn(16, k).to(dtype), torch.randn(k, 16).to(dtype)
        c = torch.zeros(16, 16, dtype=torch.float16 if out is tl.float16 else torch.float32)
        report = self.launch("dot", a, b, c, PRECISION=precision, OUT=out, K=k)
        return c, a.double() @ b.double(), report["launches"][0]["tf32_dots"]

    def test_products_of_narrow_floats_accumulate_in_float32(self) -> None:
        for dtype in (torch.float16, torch.bfloat16):
            product, expected, tf32 = self.dot(dtype, None)
            torch.testing.assert_close(product.double(), expected, rtol=1e-5, atol=1e-5)
            self.assertEqual(tf32, [])

    def test_products_accumulated_in_float16_are_rough(self) -> None:
        product, expected, _ = self.dot(torch.float16, None, tl.float16, 256)
        error = (product.double() - expected).abs().max().item()
        self.assertGreater(error, 1e-3)
        self.assertLess(error, 0.5)

    def test_float32_products_are_tf32_unless_told_otherwise(self) -> None:
        product, expected, tf32 = self.dot(torch.float32, None)
        error = (product.double() - expected).abs().max().item()
        self.assertGreater(error, 1e-4)
        self.assertLess(error, 0.05)
        self.assertEqual(tf32, [{"file": self.kernels.__file__, "line": line_of(self.kernels, "dot")}])
        for precision, limit in (("ieee", 2e-5), ("tf32x3", 2e-5)):
            with self.subTest(precision=precision):
                product, expected, tf32 = self.dot(torch.float32, precision)
                self.assertLess((product.double() - expected).abs().max().item(), limit)
                self.assertEqual(tf32, [])

    def test_float8_products(self) -> None:
        a, b = torch.randn(16, 32).to(FLOAT8[0]), torch.randn(32, 16).to(FLOAT8[0])
        c = torch.zeros(16, 16)
        self.launch("dot", a, b, c, PRECISION=None, OUT=tl.float32, K=32)
        torch.testing.assert_close(c.double(), a.double() @ b.double(), rtol=1e-5, atol=1e-5)

    def test_integer_products(self) -> None:
        a = torch.randint(-128, 127, (16, 32), dtype=torch.int8)
        b = torch.randint(-128, 127, (32, 16), dtype=torch.int8)
        c = torch.zeros(16, 16, dtype=torch.int32)
        self.launch("dot", a, b, c, PRECISION=None, OUT=tl.int32, K=32)
        self.assertTrue(torch.equal(c.long(), a.long() @ b.long()))

    def test_atomic_exchanges_move_bits(self) -> None:
        for dtype in (torch.float32, torch.float64, torch.int32, torch.int64):
            with self.subTest(dtype=dtype):
                x, out = torch.tensor([3, -5, 7, 0]).to(dtype), torch.tensor([1, 2, -4, 8]).to(dtype)
                old = torch.zeros_like(out)
                self.launch("exchange_atomically", x, out, old, B=4)
                self.assertEqual(out.tolist(), [3, 2, 7, 0])
                self.assertEqual(old.tolist(), [1, 0, -4, 8])

    def test_atomic_additions_of_narrow_floats(self) -> None:
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            with self.subTest(dtype=dtype):
                x = torch.randint(-4, 5, (32,)).to(dtype)
                out = torch.zeros(2, dtype=dtype)
                self.launch("add_atomically", x, out, B=32)
                self.assertEqual(out.tolist(), [x[0::2].sum().item(), x[1::2].sum().item()])

    def test_libdevice(self) -> None:
        x = torch.randn(32)
        out = torch.zeros(4, 32)
        self.launch("libdevice_functions", x, out, B=32)
        expected = torch.stack([torch.tanh(x), torch.erf(x), x.abs() ** x, x.abs().rsqrt()])
        torch.testing.assert_close(out, expected)

    def test_and_or_not_chains_min_and_max_are_elementwise(self) -> None:
        x, out = torch.arange(16.0) - 8, torch.full((4, 16), 99.0)
        self.launch("python_logic", x, out, 10, B=16)
        o = torch.arange(16)
        inside = (o < 10) & (o > 2)
        for row, mask in enumerate((inside, ~inside, (o == 4) | (o == 0))):
            self.assertTrue(torch.equal(out[row], torch.where(mask, x, torch.tensor(99.0))))
        self.assertTrue(torch.equal(out[3], torch.maximum(x, torch.clamp(o, max=3))))

    def test_comparison_chains(self) -> None:
        out = torch.zeros(16)
        with session() as running:
            try:
                self.kernels.comparison_chain[(1,)](out, B=16)
            except interpreter.TritonCompileError as error:
                self.assertIn("multiple comparison", str(error))  # older compilers refuse them
                self.assertEqual(error.place["line"], line_of(self.kernels, "chain"))
                return
        self.assertEqual(kinds(running.report()), [])
        self.assertEqual(out.nonzero().ravel().tolist(), [5, 6, 7])

    def test_integer_functions(self) -> None:
        for dtype in (torch.int32, torch.int64):
            limits = torch.iinfo(dtype)
            x = torch.randint(limits.min, limits.max, (16,), dtype=dtype)
            out = torch.zeros(4, 16, dtype=dtype)
            self.launch("integer_functions", x, out, B=16)
            bits = limits.bits
            high = [((v % 2**bits) ** 2 >> bits) for v in x.tolist()]
            high = [v - 2**bits if v >= 2 ** (bits - 1) else v for v in high]
            self.assertEqual(out[0].tolist(), high)
            self.assertTrue(torch.equal(out[1], x >> 3))
            self.assertTrue(torch.equal(out[2], ~x))
            self.assertTrue(torch.equal(out[3], torch.bincount(x & 15, minlength=16).to(dtype)))

    def test_not_a_number_survives_bfloat16(self) -> None:
        a = torch.tensor([float("nan"), float("inf"), -float("inf"), 3e38]).to(torch.bfloat16)
        out = poisoned_empty(7, 4, dtype=torch.bfloat16)
        self.launch("arithmetic", a, a, out, 4, B=4)
        self.assertTrue(torch.equal(out[0].isnan(), torch.tensor([True, False, False, False])))
        self.assertEqual(out[0, 3].item(), float("inf"))


if __name__ == "__main__":
    unittest.main()
