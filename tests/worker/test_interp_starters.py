"""The starters, on shapes that break kernels, against float64."""

from __future__ import annotations

import math
import unittest

from tests.worker.interp_support import STARTERS, load, session, torch

F = torch.nn.functional
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

    def test_layernorm(self) -> None:
        for dtype in DTYPES:
            for shape in [(1,), (13,), (1, 1), (3, 127), (2, 3, 7), (2, 20000), (0, 128), (4, 0)]:
                with self.subTest(dtype=dtype, shape=shape):
                    x = torch.randn(shape).to(dtype)
                    weight, bias = torch.randn(shape[-1]).to(dtype), torch.randn(shape[-1]).to(dtype)
                    result = self.run_checked("layernorm", x=x, weight=weight, bias=bias)
                    expected = F.layer_norm(x.double(), shape[-1:], weight.double(), bias.double())
                    self.assert_close(result, expected, dtype)

    def test_layernorm_of_strided_views_with_a_large_offset(self) -> None:
        for columns in (34, 20000):
            # Squares of 1000 have lost what a variance of 1 would need.
            x = (torch.randn(columns, 3) + 1000).t()
            weight, bias = torch.randn(2 * columns)[::2], torch.randn(3 * columns)[::3]
            expected = F.layer_norm(x.double(), (columns,), weight.double(), bias.double(), 0.25)
            result = self.run_checked("layernorm", x=x, weight=weight, bias=bias, eps=0.25)
            torch.testing.assert_close(result.double(), expected, rtol=0, atol=2e-3)

    def test_reduce(self) -> None:
        shapes = [(7,), (5, 130), (130, 5), (3, 17, 9), (2, 3, 4, 5), (2, 9000), (700, 300), (0, 4), (4, 0)]
        for dtype in DTYPES:
            for shape in shapes:
                for dim in range(-1, len(shape) - 1):
                    for op in ("sum", "max"):
                        if op == "max" and shape[dim] == 0:
                            continue
                        with self.subTest(dtype=dtype, shape=shape, dim=dim, op=op):
                            x = torch.randn(shape).to(dtype)
                            result = self.run_checked("reduce", x=x, dim=dim, op=op)
                            exact = x.double()
                            expected = exact.sum(dim) if op == "sum" else exact.amax(dim)
                            size = 1 + math.sqrt(shape[dim])
                            self.assert_close(result / size, expected / size, dtype)

    def test_reduce_of_strided_views_and_special_values(self) -> None:
        base = torch.randn(12, 34)
        base[3, 5], base[4, 6], base[5] = float("nan"), float("inf"), float("-inf")
        for x in (base.t(), base[::2, ::3], base[:, :1].expand(12, 9), base.reshape(3, 4, 34).mT):
            for dim in range(x.dim()):
                with self.subTest(stride=x.stride(), dim=dim):
                    exact = x.double()
                    self.assert_close(self.run_checked("reduce", x=x, dim=dim), exact.sum(dim), x.dtype)
                    self.assert_close(
                        self.run_checked("reduce", x=x, dim=dim, op="max"), exact.amax(dim), x.dtype
                    )

    def test_the_maximum_of_nothing_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "nothing"):
            load("reduce", STARTERS).kernel_fn(x=torch.empty(3, 0), op="max")
        with self.assertRaisesRegex(ValueError, "mean"):
            load("reduce", STARTERS).kernel_fn(x=torch.empty(3, 4), op="mean")

    def test_cross_entropy(self) -> None:
        for dtype in DTYPES:
            for rows, classes in [(1, 1), (1, 17), (19, 67), (300, 3), (3, 9000)]:
                with self.subTest(dtype=dtype, rows=rows, classes=classes):
                    logits = (torch.randn(rows, 2 * classes).to(dtype) * 3)[:, ::2]
                    targets = torch.randint(0, classes, (2 * rows,))[::2]
                    result = self.run_checked("cross_entropy", logits=logits, targets=targets)
                    self.assert_close(result, F.cross_entropy(logits.double(), targets), dtype)

    def test_cross_entropy_of_infinities_and_nothing(self) -> None:
        logits = torch.randn(4, 5000)
        logits[:, 700:4900] = float("-inf")
        targets = torch.tensor([0, 699, 4999, 3])
        result = self.run_checked("cross_entropy", logits=logits, targets=targets)
        self.assert_close(result, F.cross_entropy(logits.double(), targets), logits.dtype)
        nothing = self.run_checked("cross_entropy", logits=logits[:0], targets=targets[:0])
        self.assertTrue(nothing.isnan())
        unknown = self.run_checked("cross_entropy", logits=logits, targets=targets + 1)
        self.assertTrue(unknown.isnan(), "the class 5000 does not exist")

    def test_rotary_embedding(self) -> None:
        for dtype in DTYPES:
            for shape in [
                (1, 1, 1, 2),
                (2, 5, 19, 66),
                (1, 3, 70, 8),
                (1, 1, 2, 1100),
                (0, 2, 3, 4),
                (2, 2, 3, 0),
            ]:
                with self.subTest(dtype=dtype, shape=shape):
                    # As a projection of all heads gives it: positions before heads.
                    batch, heads, positions, head_dim = shape
                    x = torch.randn(batch, positions, heads, head_dim).to(dtype).transpose(1, 2)
                    cos, sin = (torch.randn(head_dim // 2, positions).to(dtype).t() for _ in range(2))
                    result = self.run_checked("rotary_embedding", x=x, cos=cos, sin=sin)
                    even, odd = x.double()[..., 0::2], x.double()[..., 1::2]
                    c, s = cos.double(), sin.double()
                    expected = torch.stack((even * c - odd * s, even * s + odd * c), -1).flatten(-2)
                    self.assert_close(result, expected, dtype)

    def test_fused_mlp(self) -> None:
        activations = {"silu": F.silu, "gelu": F.gelu, "relu2": lambda gate: F.relu(gate).square()}
        for dtype in DTYPES:
            for name, activation in activations.items():
                for shape, hidden in [
                    ((1, 1), 1),
                    ((3, 5, 67), 33),
                    ((131, 70), 20),
                    ((0, 4), 3),
                    ((3, 4), 0),
                ]:
                    with self.subTest(dtype=dtype, activation=name, shape=shape, hidden=hidden):
                        dim = shape[-1]
                        x = torch.randn(shape).to(dtype)
                        w_gate, w_up = (torch.randn(dim, hidden).to(dtype).t() * 0.2 for _ in range(2))
                        w_down = (torch.randn(dim, 2 * hidden).to(dtype) * 0.2)[:, ::2]
                        result = self.run_checked(
                            "fused_mlp", x=x, w_gate=w_gate, w_up=w_up, w_down=w_down, activation=name
                        )
                        gate, up = (F.linear(x.double(), w.double()) for w in (w_gate, w_up))
                        expected = F.linear(activation(gate) * up, w_down.double())
                        size = 1 + (expected.abs().max().item() if expected.numel() else 0)
                        self.assert_close((result / size), expected / size, dtype)

    def test_flash_attention(self) -> None:
        shapes = [(1, 1, 1, 1), (1, 2, 147, 33), (2, 1, 130, 16), (1, 1, 20, 200), (0, 1, 3, 4), (1, 2, 0, 4)]
        for dtype in DTYPES:
            for shape in shapes:
                for causal in (True, False):
                    with self.subTest(dtype=dtype, shape=shape, causal=causal):
                        batch, heads, positions, head_dim = shape
                        q, k, v = (
                            torch.randn(batch, positions, heads, head_dim).to(dtype).transpose(1, 2)
                            for _ in range(3)
                        )
                        result = self.run_checked("flash_attention", Q=q, K=k, V=v, causal=causal)
                        expected = F.scaled_dot_product_attention(
                            q.double(), k.double(), v.double(), is_causal=causal
                        )
                        self.assert_close(result, expected, dtype)

    def test_flash_attention_with_other_scales(self) -> None:
        q, k, v = (torch.randn(1, 1, 70, 24) for _ in range(3))
        for scale in (0.01, 3.0):
            with self.subTest(scale=scale):
                result = self.run_checked("flash_attention", Q=q, K=k, V=v, sm_scale=scale)
                expected = F.scaled_dot_product_attention(
                    q.double(), k.double(), v.double(), is_causal=True, scale=scale
                )
                self.assert_close(result, expected, q.dtype)

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
