"""The parts of a KernelBench problem: what crosses between its processes, weights, sizes, products."""

import math
import unittest
from typing import Any

import torch
from torch import nn
from warpsmith_worker.module_candidate import share_weights
from warpsmith_worker.module_role import (
    Unusable,
    constant_parameters,
    decoded,
    encoded,
    randomise_constants,
)
from warpsmith_worker.product_count import ProductCount
from warpsmith_worker.size_guard import SizeGuard, TooManyElements


class Arguments(unittest.TestCase):
    def test_what_constructors_get_crosses_unchanged(self) -> None:
        value: list[Any] = [1, -2.5, "a", None, True, (1, [2, (3,)]), {"k": (0.1,), 3: []}, torch.float16]
        self.assertEqual(decoded(encoded(value)), value)
        infinite = decoded(encoded([math.inf, math.nan]))
        self.assertTrue(infinite[0] == math.inf and math.isnan(infinite[1]))

    def test_what_has_no_form_is_refused(self) -> None:
        for value in (torch.zeros(1), nn.ReLU(), print):
            with self.assertRaises(TypeError):
                encoded([value])


class Weights(unittest.TestCase):
    def test_by_name(self) -> None:
        theirs, ours = nn.Linear(3, 2), nn.Linear(3, 2)
        share_weights(ours, dict(theirs.state_dict()), "ModelNew")
        self.assertTrue(torch.equal(ours.weight, theirs.weight))

    def test_by_value_when_names_differ(self) -> None:
        torch.manual_seed(1)
        theirs = nn.Sequential(nn.Linear(3, 2))
        torch.manual_seed(1)
        ours = nn.Linear(3, 2)
        share_weights(ours, dict(theirs.state_dict()), "ModelNew")

    def test_neither_is_told(self) -> None:
        theirs, ours = nn.Sequential(nn.Linear(3, 2)), nn.Linear(3, 2)
        with self.assertRaises(Unusable) as caught:
            share_weights(ours, dict(theirs.state_dict()), "ModelNew")
        self.assertEqual(caught.exception.code, "unmatched-weights")
        for name in ("`0.weight` [2, 3]", "`weight` [2, 3]", "`0.bias` [2]"):
            self.assertIn(name, str(caught.exception))

    def test_only_constants_get_other_values(self) -> None:
        model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
        before = {name: value.clone() for name, value in model.state_dict().items()}
        self.assertEqual(len(constant_parameters(model)), 2)
        randomise_constants(model, 5)
        after = model.state_dict()
        self.assertTrue(torch.equal(after["0.weight"], before["0.weight"]))
        self.assertTrue(bool((after["1.weight"] > 0.7).all()) and after["1.weight"].unique().numel() == 4)
        self.assertTrue(bool((after["1.bias"].abs() <= 0.25).all()) and after["1.bias"].unique().numel() == 4)

    def test_running_statistics_count_in_evaluation_only(self) -> None:
        model = nn.BatchNorm1d(4)
        self.assertEqual(len(constant_parameters(model)), 2)
        self.assertEqual(len(constant_parameters(model.eval())), 4)
        randomise_constants(model, 5)
        self.assertEqual(model.running_mean.unique().numel(), 4)
        self.assertTrue(bool((model.running_var > 0.7).all()))
        without = nn.BatchNorm1d(4, track_running_stats=False).eval()
        self.assertEqual(len(constant_parameters(without)), 2)


class Sizes(unittest.TestCase):
    def test_too_many_elements_are_not_made(self) -> None:
        for make in (
            lambda: torch.rand(1 << 20, 1 << 20),
            lambda: torch.zeros((1 << 20, 1 << 20)),
            lambda: torch.empty(size=(1 << 20, 1 << 20)),
            lambda: torch.randint(0, 5, (1 << 20, 1 << 20)),
            lambda: nn.Linear(1 << 20, 1 << 20),
        ):
            with self.assertRaises(TooManyElements), SizeGuard(1000):
                make()

    def test_all_tensors_count_together(self) -> None:
        with self.assertRaises(TooManyElements) as caught, SizeGuard(100):
            torch.rand(60)
            torch.randn(7, 6)
        self.assertEqual(caught.exception.elements, 102)
        with SizeGuard(100):
            torch.rand(60)

    def test_products_are_counted(self) -> None:
        x, w = torch.rand(5, 7), torch.rand(3, 7)
        for compute, flops in (
            (lambda: x @ w.T, 2 * 5 * 7 * 3),
            (lambda: nn.functional.linear(x, w), 2 * 5 * 7 * 3),
            (lambda: torch.addmm(torch.rand(3), x, w.T), 2 * 5 * 7 * 3),
            (lambda: nn.functional.conv1d(torch.rand(2, 4, 9), torch.rand(6, 4, 3)), 2 * 2 * 6 * 7 * 12),
            (lambda: torch.relu(x) + 1, 0),
        ):
            with ProductCount() as count:
                compute()
            self.assertEqual(count.flops, flops)


if __name__ == "__main__":
    unittest.main()
