"""The starters, on shapes that break kernels, against float64."""

from __future__ import annotations

import unittest

from tests.worker.interp_support import STARTERS, load, session, torch

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


class Starters(unittest.TestCase):
    def run_checked(self, name: str, **arguments: object) -> torch.Tensor:
        module = load(name, STARTERS)
        with session() as running:
            result = module.kernel_fn(**arguments)
        report = running.report()
        self.assertEqual(report["findings"], [])
        self.assertIsNone(report["unsupported"])
        for launch in report["launches"]:
            self.assertEqual(launch["tf32_dots"], [])
        return result

    def assert_close(self, result: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> None:
        self.assertEqual(result.dtype, dtype)
        self.assertEqual(result.shape, expected.shape)
        torch.testing.assert_close(
            result.double(), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], equal_nan=True
        )

    def test_softmax(self) -> None:
        shapes = [
            (1,),
            (17,),
            (1, 1),
            (3, 127),
            (5, 1000),
            (2, 3, 7),
            (2, 16385),
            (0, 128),
            (4, 0),
        ]
        for dtype in DTYPES:
            for shape in shapes:
                with self.subTest(dtype=dtype, shape=shape):
                    x = torch.randn(shape).to(dtype) * 3
                    result = self.run_checked("softmax", x=x)
                    self.assert_close(result, torch.softmax(x.double(), -1), dtype)

    def test_softmax_of_infinities(self) -> None:
        for columns in (100, 20000):
            with self.subTest(columns=columns):
                x = torch.randn(4, columns)
                x[0, :] = float("-inf")
                x[1, : columns - 3] = float("-inf")
                x[2, 5] = float("nan")
                x[3, 7] = float("inf")
                self.assert_close(self.run_checked("softmax", x=x), torch.softmax(x.double(), -1), x.dtype)

    def test_softmax_of_strided_views(self) -> None:
        base = torch.randn(12, 34)
        for x in (base.t(), base[::2], base[:, ::3], base[:, :1].expand(12, 9), base.reshape(3, 4, 34).mT):
            with self.subTest(stride=x.stride()):
                self.assert_close(self.run_checked("softmax", x=x), torch.softmax(x.double(), -1), x.dtype)

    def test_rmsnorm(self) -> None:
        for dtype in DTYPES:
            for shape in [(1,), (13,), (1, 1), (3, 127), (5, 1000), (2, 3, 7), (2, 20000), (0, 128), (4, 0)]:
                with self.subTest(dtype=dtype, shape=shape):
                    x = torch.randn(shape).to(dtype)
                    weight = torch.randn(shape[-1]).to(dtype)
                    result = self.run_checked("rmsnorm", x=x, weight=weight)
                    exact = x.double()
                    scale = torch.rsqrt((exact * exact).mean(-1, keepdim=True) + 1e-6)
                    self.assert_close(result, exact * scale * weight.double(), dtype)

    def test_rmsnorm_of_strided_views_and_another_eps(self) -> None:
        x, weight = torch.randn(34, 12).t(), torch.randn(68)[::2]
        exact = x.double()
        scale = torch.rsqrt((exact * exact).mean(-1, keepdim=True) + 0.25)
        result = self.run_checked("rmsnorm", x=x, weight=weight, eps=0.25)
        self.assert_close(result, exact * scale * weight.double(), x.dtype)

    def test_matmul(self) -> None:
        sizes = [(1, 1, 1), (3, 5, 7), (17, 31, 13), (129, 65, 67), (64, 64, 64), (128, 200, 96), (1, 300, 2)]
        sizes += [(0, 4, 4), (4, 0, 4), (4, 4, 0)]
        for dtype in DTYPES:
            for m, n, k in sizes:
                with self.subTest(dtype=dtype, m=m, n=n, k=k):
                    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
                    result = self.run_checked("matmul", A=a, B=b)
                    self.assertEqual(result.dtype, dtype)
                    expected = a.double() @ b.double()
                    allowed = TOLERANCE[dtype] * (1 + expected.abs().max().item() if expected.numel() else 1)
                    torch.testing.assert_close(result.double(), expected, rtol=TOLERANCE[dtype], atol=allowed)

    def test_matmul_of_strided_views(self) -> None:
        a, b = torch.randn(20, 33).t(), torch.randn(40, 60)[::2, ::3]
        self.assert_close(self.run_checked("matmul", A=a, B=b), a.double() @ b.double(), a.dtype)

    def test_offsets_of_tensors_with_more_than_two_to_the_31_elements(self) -> None:
        columns = 4099
        x = torch.empty(2**31 // columns + 3, columns, dtype=torch.float16)
        weight = torch.ones(columns, dtype=torch.float16)
        for name, arguments in (("softmax", {"x": x}), ("rmsnorm", {"x": x, "weight": weight})):
            with self.subTest(name=name), session(max_programs=8, compare_values=False) as running:
                load(name, STARTERS).kernel_fn(**arguments)
            report = running.report()
            self.assertEqual(report["findings"], [])
            self.assertLessEqual(report["launches"][0]["programs_run"], 8)


if __name__ == "__main__":
    unittest.main()
