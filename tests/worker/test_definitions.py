"""References of the Definitions that come with warpsmith, against formulas written out in float64."""

import json
import math
import unittest
from pathlib import Path
from typing import Any

import torch
from warpsmith_worker.reference import Reference

ROOT = Path(__file__).resolve().parents[2] / "kernels" / "definitions"
SHAPE = {"batch": 2, "heads": 3, "seq": 9, "head_dim": 8, "half_dim": 4, "rows": 7, "vocab": 11, "dim": 6}
SHAPE |= {"hidden": 10, "M": 5, "N": 7, "K": 6, "A": 3, "R": 4, "C": 5}


def matmul(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    return (A[:, :, None] * B[None]).sum(1)


def softmax(x: torch.Tensor) -> torch.Tensor:
    weights = (x - x.amax(-1, keepdim=True)).exp()
    return weights / weights.sum(-1, keepdim=True)


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x / ((x * x).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt() * weight


def layernorm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float) -> torch.Tensor:
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
    return centred / ((centred * centred).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt() * weight + bias


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    losses = [-softmax(row)[target].log() for row, target in zip(logits, targets, strict=True)]
    return torch.stack(losses).sum() / len(losses)


def rotary_embedding(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    turned = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * torch.complex(cos, sin)
    return torch.view_as_real(turned).flatten(-2)


def attention(
    Q: torch.Tensor, K: torch.Tensor, V: torch.Tensor, sm_scale: float | None, causal: bool
) -> torch.Tensor:
    scale = 1 / math.sqrt(Q.shape[-1]) if sm_scale is None else sm_scale
    scores = (Q[:, :, :, None] * K[:, :, None]).sum(-1) * scale
    if causal:
        ahead = torch.arange(Q.shape[2])[None] > torch.arange(Q.shape[2])[:, None]
        scores = scores.masked_fill(ahead, -math.inf)
    return (softmax(scores)[..., None] * V[:, :, None]).sum(3)


ACTIVATIONS = {
    "silu": lambda gate: gate / (1 + (-gate).exp()),
    "gelu": lambda gate: gate * 0.5 * torch.special.erfc(-gate / math.sqrt(2)),
    "relu2": lambda gate: torch.where(gate > 0, gate * gate, 0.0),
}


def fused_mlp(
    x: torch.Tensor, w_gate: torch.Tensor, w_up: torch.Tensor, w_down: torch.Tensor, activation: str
) -> torch.Tensor:
    hidden = ACTIVATIONS[activation](matmul(x, w_gate.T)) * matmul(x, w_up.T)
    return matmul(hidden, w_down.T)


def reduce(x: torch.Tensor, dim: int, op: str) -> torch.Tensor:
    parts = x.unbind(dim)
    total = parts[0]
    for part in parts[1:]:
        total = total + part if op == "sum" else torch.where(part > total, part, total)
    return total


def expected(definition: dict[str, Any], inputs: list[Any]) -> torch.Tensor:
    """What the operation's formula gives, with the options that the Definition fixes."""
    formulas = {
        "matmul": matmul,
        "softmax": softmax,
        "rmsnorm": rmsnorm,
        "layernorm": layernorm,
        "cross_entropy": cross_entropy,
        "rotary_embedding": rotary_embedding,
        "flash_attention": attention,
        "fused_mlp": fused_mlp,
        "reduce": reduce,
    }
    arguments = definition["warpsmith"].get("args", {})
    options = {name: value for name, value in arguments.items() if name not in definition["inputs"]}
    return formulas[definition["op_type"]](*inputs, **options)


def drawn(definition: dict[str, Any], dtype: torch.dtype, scalars: dict[str, Any]) -> list[Any]:
    values = []
    for name, spec in definition["inputs"].items():
        if spec["shape"] is None:
            values.append(scalars.get(name, definition["warpsmith"]["args"][name]))
            continue
        shape = [SHAPE[axis] for axis in spec["shape"]]
        if spec["dtype"] == "int64":
            values.append(torch.randint(0, SHAPE["vocab"], shape))
        else:
            values.append(torch.randn(shape).to(dtype))
    return values


class Definitions(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(11)
        self.definitions = [json.loads(path.read_text("utf-8")) for path in sorted(ROOT.glob("*/*.json"))]

    def test_float64_reference_is_the_formula(self) -> None:
        self.assertEqual(len(self.definitions), 17)
        for definition in self.definitions:
            reference = Reference(definition["name"], definition["reference"], None)
            vary = definition["warpsmith"].get("vary", {})
            scalars = [{}] + [{name: value} for name, values in vary.items() for value in values]
            for chosen in scalars:
                with self.subTest(definition=definition["name"], **chosen):
                    inputs = drawn(definition, torch.float32, chosen)
                    (found,) = reference.in_float64(inputs)
                    wide = [value.double() if torch.is_tensor(value) and value.is_floating_point() else value
                            for value in inputs]  # fmt: skip
                    self.assertEqual(found.dtype, torch.float64)
                    torch.testing.assert_close(found, expected(definition, wide), rtol=1e-13, atol=1e-13)

    def test_in_each_dtype_the_reference_rounds_like_an_operator_of_torch(self) -> None:
        for definition in self.definitions:
            reference = Reference(definition["name"], definition["reference"], None)
            outputs = definition["outputs"].values()
            for name in definition["warpsmith"]["dtypes"]:
                with self.subTest(definition=definition["name"], dtype=name):
                    dtype = getattr(torch, name)
                    inputs = drawn(definition, dtype, {})
                    (found,), (exact,) = reference.in_dtype(inputs), reference.in_float64(inputs)
                    self.assertEqual(found.dtype, dtype)
                    shapes = [[SHAPE[axis] for axis in spec["shape"]] for spec in outputs]
                    self.assertEqual([list(found.shape)], shapes)
                    # Two chained products of rounded factors at most.
                    allowed = 6 * torch.finfo(dtype).eps * exact.abs().max().item()
                    torch.testing.assert_close(found.double(), exact, rtol=0, atol=allowed)

    def test_in_each_dtype_the_baseline_computes_the_operation(self) -> None:
        """It is timed against, so it must do the same work; how it rounds is its own affair."""
        named = [definition for definition in self.definitions if "baseline" in definition["warpsmith"]]
        self.assertEqual(
            {definition["op_type"] for definition in named},
            {"cross_entropy", "flash_attention", "rmsnorm", "rotary_embedding"},
        )
        for definition in named:
            reference = Reference(definition["name"], definition["reference"], None)
            baseline = Reference(definition["name"], definition["warpsmith"]["baseline"], None)
            for name in definition["warpsmith"]["dtypes"]:
                with self.subTest(definition=definition["name"], dtype=name):
                    dtype = getattr(torch, name)
                    inputs = drawn(definition, dtype, {})
                    (found,), (exact,) = baseline.in_dtype(inputs), reference.in_float64(inputs)
                    self.assertEqual((found.dtype, found.shape), (dtype, exact.shape))
                    allowed = 8 * torch.finfo(dtype).eps * exact.abs().max().item()
                    torch.testing.assert_close(found.double(), exact, rtol=0, atol=allowed)


if __name__ == "__main__":
    unittest.main()
