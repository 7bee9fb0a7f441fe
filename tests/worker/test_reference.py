"""References: float64 truth, what the mode turns, what it must leave alone."""

import unittest

import torch
from warpsmith_worker.dtypes import by_name
from warpsmith_worker.reference import Reference, ReferenceFailed, coarsen

X = torch.tensor([1.0, 3.0, 1 + 2**-23])


def reference(body: str, float64: str | None = None) -> Reference:
    return Reference("test", f"import torch\ndef run(x, *rest):\n    {body}", float64)


class Float64(unittest.TestCase):
    def third(self, body: str) -> torch.Tensor:
        """Run a body that divides by three; float32 anywhere on the way would show."""
        (found,) = reference(body).in_float64([X])
        self.assertEqual(found.dtype, torch.float64)
        return found

    def test_casts_to_float32_widen(self) -> None:
        exact = (X.double() / 3).tolist()
        for body in (
            "return x.float() / 3",
            "return x.to(torch.float32) / 3",
            "return x.to(dtype=torch.float32) / 3",
            "return x.type(torch.float32) / 3",
            "return (x / 3).to(x.dtype)",
            "return torch.zeros(3, dtype=torch.float32) + x / 3",
            "out = torch.zeros(3, dtype=torch.float32); out[:] = x / 3; return out",
            "out = torch.zeros(3); out[:] = x / 3; return out",
            "out = torch.empty_like(x, dtype=torch.float32); out.copy_(x / 3); return out",
            "return torch.sum((x / 3)[None], dim=0, dtype=torch.float32)",
        ):
            self.assertEqual(self.third(body).tolist(), exact, body)

    def test_looking_at_bytes_is_no_cast(self) -> None:
        (found,) = reference("return torch.ones(1, dtype=torch.int64).view(torch.float32)").in_float64([X])
        self.assertEqual((found.dtype, found.shape), (torch.float32, (2,)))

    def test_other_casts_stay(self) -> None:
        (found,) = reference("return (x / 3).half()").in_float64([X])
        self.assertEqual(found.dtype, torch.float16)

    def test_own_float64_reference_is_preferred(self) -> None:
        with_own = reference("return x", "def run(x):\n    return x * 0 + 42")
        self.assertEqual(with_own.in_float64([X])[0].tolist(), [42.0] * 3)
        self.assertEqual(with_own.in_dtype([X])[0].tolist(), X.tolist())

    def test_default_dtype_is_restored(self) -> None:
        with self.assertRaises(ReferenceFailed):
            reference("raise ValueError").in_float64([X])
        self.assertEqual(torch.get_default_dtype(), torch.float32)

    def test_integers_and_scalars_pass_unchanged(self) -> None:
        body = "return x[rest[0]] * rest[1] if rest[2] is None else x"
        index = torch.tensor([2, 0])
        self.assertEqual(reference(body).in_float64([X, index, 2, None])[0].tolist(), [2 + 2**-22, 2.0])


class Calls(unittest.TestCase):
    def test_inputs_survive_a_reference_that_writes(self) -> None:
        index = torch.tensor([1])
        writing = reference("x.zero_(); rest[0].zero_(); return x")
        writing.in_dtype([X, index])
        writing.in_float64([X, index])
        self.assertEqual((X[0].item(), index.item()), (1.0, 1))

    def test_outputs_in_order(self) -> None:
        first, second = reference("return x.sum(), x[:1]").in_dtype([X])
        self.assertEqual((first.dim(), second.tolist()), (0, [1.0]))

    def test_random_numbers_say_nothing(self) -> None:
        for body in (
            "return torch.nn.functional.dropout(x)",
            "return x + 1e-9 * torch.randn_like(x)",
            "return x[torch.randperm(3)]",
        ):
            for call in (reference(body).in_dtype, reference(body).in_float64):
                with self.assertRaisesRegex(ReferenceFailed, "draws random numbers"):
                    call([X])
        (found,) = reference("return torch.nn.functional.dropout(x, training=False)").in_dtype([X])
        self.assertTrue(torch.equal(found, X))

    def test_faults_are_told(self) -> None:
        with self.assertRaisesRegex(ReferenceFailed, "x.no_such_method"):
            reference("return x.no_such_method()").in_dtype([X])
        with self.assertRaisesRegex(ReferenceFailed, "returned a float"):
            reference("return 1.0").in_dtype([X])
        with self.assertRaisesRegex(AttributeError, "run"):
            Reference("test", "def walk(x): pass", None)


class Coarsening(unittest.TestCase):
    def test_agrees_with_bfloat16(self) -> None:
        torch.manual_seed(3)
        x = torch.cat([torch.randn(1000) * 10.0**k for k in range(-20, 20)])
        self.assertTrue(torch.equal(coarsen(x, by_name("float32")), x.bfloat16().double()))

    def test_keeps_special_values(self) -> None:
        x = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1.0])
        found = coarsen(x, by_name("float32"))
        self.assertEqual(found[:4].tolist(), x[:4].tolist())
        self.assertTrue(found[4].isnan())
        self.assertEqual(found[5].item(), 1.0)

    def test_bits_of_the_narrow_types(self) -> None:
        for name, step in (("float16", 2**-7), ("bfloat16", 2**-4), ("float8_e4m3fn", 2**-1)):
            element = by_name(name)
            self.assertEqual(coarsen(torch.tensor([1 + step]), element).item(), 1 + step)
            self.assertEqual(coarsen(torch.tensor([1 + step / 4]), element).item(), 1.0)


if __name__ == "__main__":
    unittest.main()
