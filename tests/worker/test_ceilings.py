"""Ceilings on a GPU of paper: what is measured, by which arithmetic, and what is left out."""

import unittest
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from warpsmith_worker.ceilings import MATRIX_KINDS, Ceilings

from .gpu_model import ModelClock

BYTES_PER_US = 4.2e6
FLOPS_PER_US = {torch.float16: 7e8, torch.bfloat16: 7e8, torch.float32: 5e7, torch.float64: 6e7}
TF32_FLOPS_PER_US = 4e8
FLOOR_US = 1.5


class Costs(TorchDispatchMode):
    """Submits to the model what torch's functions would take."""

    def __init__(self, clock: ModelClock) -> None:
        super().__init__()
        self.clock = clock
        self.seen: dict[str, int] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.__name__.partition(".")[0]
        self.seen[name] = self.seen.get(name, 0) + 1
        if name in ("copy_", "sum", "add_"):
            moved = {"copy_": 2, "sum": 1, "add_": 0}[name] * args[0].numel() * args[0].element_size()
            self.clock.host(4.0)
            self.clock.submit(FLOOR_US + moved / BYTES_PER_US)
            # Nobody looks at the values, and computing them here takes long.
            return args[0]
        if name == "normal_":
            return args[0]
        if name == "mm":
            dtype, side = args[0].dtype, args[0].shape[0]
            rate = FLOPS_PER_US[dtype]
            if dtype == torch.float32 and torch.backends.cuda.matmul.allow_tf32:
                rate = TF32_FLOPS_PER_US
            # Large products come closer to what is possible.
            self.clock.submit(2 * side**3 / rate * (1.0 + 8.0 / side))
            return kwargs["out"]
        return func(*args, **kwargs)


class Measured(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = ModelClock(event_us=1.0)
        self.costs = Costs(self.clock)
        self.ceilings = Ceilings(self.clock, wall_s=60.0, device="cpu")

    def test_bandwidth_by_bytes_moved(self) -> None:
        sizes = (1 << 20, 1 << 23, 1 << 27)
        with self.costs:
            copy, read = self.ceilings.bandwidth(sizes)
        for points in (copy, read):
            self.assertEqual([point["bytes"] for point in points], list(sizes))
            for point in points[:2]:
                # By graphs: the time of the call alone.
                expected = FLOOR_US + point["bytes"] / BYTES_PER_US
                self.assertAlmostEqual(point["time_us"], expected, delta=0.02)
            # By events, one of which is inside.
            expected = FLOOR_US + points[2]["bytes"] / BYTES_PER_US
            self.assertAlmostEqual(points[2]["time_us"], expected + 1.0, delta=0.02)

    def test_what_does_not_fit_into_the_memory_is_left_out(self) -> None:
        # A quarter of it: 12 MB, for a source and a target.
        self.clock.free = 48 << 20
        ceilings = Ceilings(self.clock, wall_s=60.0, device="cpu")
        with self.costs:
            copy, read = ceilings.bandwidth((1 << 20, 1 << 23, 1 << 24))
            self.assertEqual([point["bytes"] for point in copy], [1 << 20, 1 << 23])
            self.assertEqual(ceilings.matrix((4096,)), [])
        self.assertEqual(len(read), 2)

    def test_what_does_not_fit_into_the_time_is_left_out(self) -> None:
        ceilings = Ceilings(self.clock, wall_s=0.06, device="cpu")
        with self.costs:
            copy, read = ceilings.bandwidth((1 << 20, 1 << 21, 1 << 22, 1 << 23))
            self.assertTrue(1 <= len(copy) < 4, copy)
            self.assertLessEqual(len(read), len(copy))
            self.assertEqual(ceilings.matrix((16,)), [])

    def test_matrix_rates(self) -> None:
        before = torch.backends.cuda.matmul.allow_tf32
        with self.costs:
            rates = self.ceilings.matrix((16, 32))
        self.assertEqual([rate["kind"] for rate in rates], list(MATRIX_KINDS))
        self.assertEqual({rate["side"] for rate in rates}, {32})
        # Two operations a product and sum; an event is inside.
        for kind, per_us in (("float64", 6e7), ("tf32", TF32_FLOPS_PER_US), ("float32", 5e7)):
            (rate,) = (rate for rate in rates if rate["kind"] == kind)
            took_us = 2 * 32**3 / per_us * 1.25 + 1.0
            self.assertAlmostEqual(rate["flops_per_s"] / (2 * 32**3 / took_us * 1e6), 1.0, places=6)
        self.assertEqual(torch.backends.cuda.matmul.allow_tf32, before)

    def test_the_launch_floor_is_a_hundredth_of_a_graph_of_a_hundred(self) -> None:
        with self.costs:
            floor = self.ceilings.launch_floor_us()
        self.assertAlmostEqual(floor, FLOOR_US, delta=0.02)

    def test_without_graphs_there_is_no_launch_floor(self) -> None:
        def refuse(_body: Any) -> Any:
            raise RuntimeError("no graphs")

        self.clock.capture = refuse
        self.assertIsNone(self.ceilings.launch_floor_us())

    def test_all_of_it(self) -> None:
        self.clock.free = 48 << 20
        ceilings = Ceilings(self.clock, wall_s=60.0, device="cpu")
        began = self.clock.now_us()
        with self.costs:
            measured = ceilings.measure()
        self.assertEqual(sorted(measured), ["copy", "launch_floor_us", "matrix", "read", "took_s"])
        self.assertEqual([point["bytes"] for point in measured["copy"]], [1 << 23])
        self.assertAlmostEqual(measured["took_s"], (self.clock.now_us() - began) / 1e6)
        self.assertLess(measured["took_s"], 6)
        self.assertTrue(self.clock.released)

    def test_the_same_bytes_alone(self) -> None:
        with self.costs:
            measured = self.ceilings.measure(only_bytes=(1 << 20) + 5)
        self.assertEqual([point["bytes"] for point in measured["copy"] + measured["read"]], [1 << 20] * 2)
        self.assertEqual((measured["matrix"], measured["launch_floor_us"]), ([], None))


if __name__ == "__main__":
    unittest.main()
