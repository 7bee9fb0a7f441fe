"""Sampling, sessions, autotuning and host code that asks for a GPU."""

from __future__ import annotations

import contextlib
import unittest
from unittest import mock

from tests.worker.interp_support import interpreter, kinds, load, poisoned_empty, session, torch


class Sampling(unittest.TestCase):
    def setUp(self) -> None:
        self.memory = load("memory")

    def sampled(self, seed: int) -> torch.Tensor:
        x, y = torch.arange(64 * 500.0), poisoned_empty(64 * 500)
        with session(max_programs=16, sampling_seed=seed) as running:
            self.memory.masked_copy[(500,)](x, y, 64 * 500, B=64)
        launch = running.report()["launches"][0]
        self.assertEqual((launch["programs"], launch["programs_run"]), (500, 16))
        self.assertTrue(running.written_by_single_launch(y))
        written = ~y.isnan()
        self.assertTrue(torch.equal(y[written], x[written]))
        return written

    def test_corners_and_random_programs_by_seed(self) -> None:
        first, again, other = self.sampled(1), self.sampled(1), self.sampled(2)
        self.assertEqual(first.sum(), 16 * 64)
        self.assertTrue(first[0] and first[-1] and other[0] and other[-1])
        self.assertTrue(torch.equal(first, again))
        self.assertFalse(torch.equal(first, other))

    def test_all_programs_run_when_they_fit(self) -> None:
        y = poisoned_empty(64)
        with session(max_programs=4) as running:
            self.memory.masked_copy[(1,)](torch.zeros(64), y, 64, B=64)
        self.assertEqual(running.report()["launches"][0]["programs_run"], 1)

    def test_a_grid_of_many_programs_costs_only_those_that_run(self) -> None:
        y = torch.zeros(1, dtype=torch.int32)
        with session(max_programs=8) as running:
            self.memory.everyone_stores[(2**30, 1000)](y, VALUE=1)
        self.assertEqual(running.report()["launches"][0]["programs"], 2**30 * 1000)

    def test_programs_run_in_the_order_that_is_asked_for(self) -> None:
        def stored_last(order: str, seed: int = 1) -> int:
            y = torch.zeros(1, dtype=torch.int32)
            with session(program_order=order, sampling_seed=seed):
                self.memory.last_program_wins[(50,)](y)
            return int(y.item())

        self.assertEqual((stored_last("forward"), stored_last("reverse")), (49, 0))
        self.assertGreater(len({stored_last("random", seed) for seed in range(8)}), 2)

    def test_outputs_that_one_launch_does_not_explain(self) -> None:
        x = torch.randn(256)

        def copy_into(y: torch.Tensor) -> None:
            self.memory.masked_copy[(4,)](x, y, 256, B=64)

        y = poisoned_empty(256)
        with session() as running:
            copy_into(y)
            self.assertTrue(running.written_by_single_launch(y))
            self.assertFalse(running.written_by_single_launch(y * 2))
            y.add_(1)
            self.assertFalse(running.written_by_single_launch(y))
        y = poisoned_empty(256)
        with session() as running:
            copy_into(y)
            copy_into(y)
            self.assertFalse(running.written_by_single_launch(y))
        y = torch.zeros(300)
        with session() as running:
            copy_into(y)
            self.assertFalse(running.written_by_single_launch(y))
        y = poisoned_empty(300)
        with session() as running:
            copy_into(y)
            self.assertTrue(running.written_by_single_launch(y))
        y = torch.zeros(1)
        with session() as running:
            self.memory.split_sum[(4,)](x, y, 256, B=64)
            self.assertFalse(running.written_by_single_launch(y))

    def test_programs_that_hand_each_other_work_explain_no_output(self) -> None:
        y = torch.zeros(1)
        with session(max_programs=1) as running:
            self.memory.with_a_lock[(8,)](torch.ones(8), y, torch.zeros(1, dtype=torch.int32))
            self.assertFalse(running.written_by_single_launch(y))

    def test_d10_no_rows_is_no_work(self) -> None:
        x = torch.zeros(0, 128)
        with session() as running:
            self.memory.row_norm[(0,)](x, torch.empty_like(x), 128, B=128)
        launch = running.report()["launches"][0]
        self.assertEqual((launch["programs"], launch["programs_run"], launch["grid"]), (0, 0, [0, 1, 1]))
        self.assertEqual(running.report()["findings"], [])


class Sessions(unittest.TestCase):
    def test_several_in_sequence_are_independent(self) -> None:
        memory = load("memory")
        with session() as first:
            memory.load_before[(1,)](torch.zeros(4), torch.zeros(1))
        with session() as second:
            memory.masked_copy[(1,)](torch.zeros(4), torch.zeros(4), 4, B=4)
        self.assertEqual(len(first.report()["findings"]), 1)
        self.assertEqual(second.report()["findings"], [])
        self.assertEqual(len(first.report()["launches"]), 1)

    def test_a_finding_in_a_library_is_told_at_the_users_line(self) -> None:
        places = interpreter._runtime.places
        known = dict(places._known)
        library, here = load("places").__file__, __file__
        places._known.update({library: (library, False), here: (here, True)})
        try:
            with session() as running:
                load("places").past_the_end[(1,)](torch.zeros(4))
        finally:
            places._known = known
        self.assertEqual(running.report()["findings"][0]["place"]["file"], here)

    def test_a_launch_outside_a_session_runs(self) -> None:
        y = torch.zeros(4)
        load("memory").masked_copy[(1,)](torch.ones(4), y, 4, B=4)
        self.assertEqual(y.sum(), 4)

    def test_a_failing_check_is_never_a_verdict(self) -> None:
        memory = load("memory")
        broken = mock.patch.object(
            interpreter._runtime.builder.__class__, "_load", side_effect=KeyError("a bug of ours")
        )
        with broken, session() as running, self.assertRaises(interpreter.InterpreterUnsupported):
            memory.masked_copy[(1,)](torch.zeros(4), torch.zeros(4), 4, B=4)
        report = running.report()
        self.assertEqual(report["findings"], [])
        self.assertEqual(report["unsupported"]["code"], "interpreter")
        self.assertIn("a bug of ours", report["unsupported"]["message"])

    def test_progress_is_told(self) -> None:
        told = []
        running = interpreter.Session(
            max_programs=None,
            compare_values=True,
            sampling_seed=0,
            on_progress=lambda done, total: told.append((done, total)),
        )
        with running:
            x = torch.zeros(64 * 400)
            load("memory").masked_copy[(400,)](x, x.clone(), 64 * 400, B=64)
        self.assertTrue(told)
        self.assertTrue(all(0 < done <= total == 400 for done, total in told))


class HostCode(unittest.TestCase):
    def setUp(self) -> None:
        self.tuning = load("tuning")

    def test_autotuned_kernels_run_one_configuration_twice(self) -> None:
        seen = set()
        for n in range(200, 210):
            x, y = torch.randn(n), torch.zeros(1)
            with session() as running:
                self.tuning.accumulate[lambda meta: (-(-meta["n"] // meta["B"]),)](x, y, n)
            report = running.report()
            self.assertEqual(report["findings"], [])
            tried, chosen = (launch["grid"] for launch in report["launches"])
            self.assertEqual(tried, chosen)
            seen.add(tuple(chosen))
            torch.testing.assert_close(y[0], x.sum())
        self.assertEqual(seen, {(4, 1, 1), (2, 1, 1)})

    def test_what_is_drawn_depends_on_the_call_alone(self) -> None:
        def grids() -> list[list[int]]:
            self.tuning.accumulate.cache.clear()
            with session() as running:
                for n in range(200, 206):
                    self.tuning.accumulate[lambda meta: (-(-meta["n"] // meta["B"]),)](
                        torch.randn(n), torch.zeros(1), n
                    )
            return [launch["grid"] for launch in running.report()["launches"]]

        self.assertEqual(grids(), grids())

    def test_a_sample_of_programs_is_the_only_launch(self) -> None:
        with session(max_programs=2) as running:
            self.tuning.accumulate[lambda meta: (-(-meta["n"] // meta["B"]),)](
                torch.randn(640), torch.zeros(1), 640
            )
        self.assertEqual(len(running.report()["launches"]), 1)

    def test_tuning_repeats_a_kernel_that_adds_to_its_output(self) -> None:
        x, y = torch.randn(100), torch.zeros(1)
        with session():
            self.tuning.adds_without_reset[(1,)](x, y, 100)
        torch.testing.assert_close(y[0], 2 * x.sum())

    def test_configurations_that_refuse_are_left_out(self) -> None:
        for n in range(1, 8):
            y = torch.zeros(64, dtype=torch.int32)
            with session() as running:
                self.tuning.refuses[(1,)](y, n)
            self.assertEqual(running.report()["findings"], [])
            self.assertEqual(int(y[0]), 64)

    def test_every_configuration_has_to_compile(self) -> None:
        failed = 0
        for n in range(1, 17):
            with session() as running, contextlib.suppress(interpreter.TritonCompileError):
                self.tuning.half_right[(1,)](torch.zeros(64), n)
            failed += kinds(running.report()) == ["compile-error"]
        self.assertTrue(0 < failed < 16, failed)

    def test_autotuning_in_place_changes_the_tensor_once(self) -> None:
        x = torch.ones(100)
        with session() as running:
            self.tuning.double[(4,)](x, 100)
        self.assertEqual(running.report()["findings"], [])
        self.assertTrue(torch.equal(x, torch.full((100,), 2.0)))

    def test_every_configuration_runs_before_the_first_when_it_is_tried(self) -> None:
        tuner, before = self.tuning.double, dict(self.tuning.double.cache)
        try:
            tuner.cache.clear()
            tuner.restore_value, post_hook = [], tuner.post_hook
            tuner.post_hook = lambda *_args, **_named: None
            x = torch.ones(100)
            with session(autotune="trial") as running:
                tuner[(4,)](x, 100)
            self.assertEqual(len(running.report()["launches"]), 3)
            self.assertTrue(torch.equal(x, torch.full((100,), 8.0)))
        finally:
            tuner.cache, tuner.restore_value, tuner.post_hook = before, ["x"], post_hook

    def test_one_configuration_alone(self) -> None:
        x = torch.ones(200)
        for only, programs in ((0, 4), (1, 2), (7, 4)):
            y = torch.zeros(1)
            with session(autotune={"only": only}) as running:
                self.tuning.accumulate[lambda meta: (-(-meta["n"] // meta["B"]),)](x, y, 200)
            report = running.report()
            self.assertEqual([launch["programs"] for launch in report["launches"]], [programs])
            self.assertEqual(
                report["autotuned"], [{"kernel": "accumulate", "configurations": ["B=64", "B=128"]}]
            )
            self.assertEqual(y.item(), 200)

    def test_wrapped_kernels(self) -> None:
        x = torch.zeros(10, dtype=torch.int32)
        with session() as running:
            self.tuning.wrapped[(1,)](x, 10, B=16)
        self.assertEqual(running.report()["launches"][0]["kernel"], "wrapped")
        self.assertEqual(x.tolist(), list(range(10)))

    def test_benchmarks_answer_without_a_device(self) -> None:
        calls = []
        self.assertEqual(self.tuning.bench(lambda: calls.append(1)), [1.0, 1.0, 1.0])
        self.assertEqual(calls, [1])

    def test_the_driver_answers_like_an_h100(self) -> None:
        target, properties = self.tuning.device_facts()
        self.assertEqual((target.backend, target.arch, target.warp_size), ("cuda", 90, 32))
        self.assertEqual(properties["multiprocessor_count"], 132)

    def test_loops_over_program_counts(self) -> None:
        x = torch.zeros(100, dtype=torch.int32)
        with session() as running:
            self.tuning.grid_stride[(3,)](x, 100, B=16)
        self.assertEqual(running.report()["findings"], [])
        self.assertEqual(x.tolist(), list(range(100)))


if __name__ == "__main__":
    unittest.main()
