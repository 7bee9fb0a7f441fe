"""A timing's script, against sides that answer by a table: what is asked, when it ends, what is told."""

import itertools
import unittest
from collections.abc import Callable
from typing import Any

from warpsmith_worker.timing_session import Answered, Plan, Step, TimingSession

OPENED = {
    "pool_entries": 4,
    "pool_bytes": 1 << 27,
    "flush_bytes": 1 << 27,
    "flush_us": 75.0,
    "method": "events",
    "graph_refused": "",
    "is_host_bound": False,
    "host_us": 12.0,
    "call_us": 50.0,
    "launches": 3,
}
RAISED = {"raised": {"exception": "ValueError", "message": "no", "code": "raised"}}
DIED = {"died": {"reason": "timeout", "signal": 9, "status": None, "output": ""}}
TRIP_US = 120.0


class Sides:
    """Both runners and the clock. `fails` maps (side, op, nth such message) to an outcome."""

    def __init__(self, call_us: float = 50.0, true_us: float | None = None) -> None:
        self.now_us = 0.0
        self.steps: list[Step] = []
        self.call_us = call_us
        self.true_us = true_us or call_us
        self.opened = {**OPENED, "call_us": call_us}
        self.fails: dict[tuple[str, str, int], dict[str, Any]] = {}
        self.ended: list[dict[str, Any]] = []
        self.waiting: list[tuple[Callable[[Answered], None], Answered]] = []
        self.is_deferred = False
        self.open_us = 30_000.0
        self.busy: str | None = None
        self.keeps = itertools.count(1)

    def ask(self, step: Step, on_answer: Callable[[Answered], None]) -> None:
        assert self.busy is None, "both sides were asked at once"
        self.steps.append(step)
        nth = sum((other.side, other.op) == (step.side, step.op) for other in self.steps)
        took_us, outcome = self.answer(step)
        outcome = self.fails.get((step.side, step.op, nth), outcome)
        self.now_us += took_us
        answered = Answered(outcome, took_us)
        if self.is_deferred:
            self.busy = step.side
            self.waiting.append((on_answer, answered))
        else:
            on_answer(answered)

    def answer(self, step: Step) -> tuple[float, dict[str, Any]]:
        message = step.message
        if step.op == "time-open":
            return self.open_us, {"done": self.opened}
        if step.op == "time-claim":
            if message["empty"]:
                return TRIP_US, {"done": {"calls": message["calls"], "claimed_us": 1.0}}
            took = message["calls"] * self.true_us
            return TRIP_US + took, {
                "done": {"calls": message["calls"], "claimed_us": message["calls"] * self.call_us}
            }
        if step.op == "time-sample":
            took = message["cold_calls"] * (self.true_us + 75.0) + message["warm_calls"] * self.true_us
            sample = {"cold_us": self.call_us + 2, "warm_us": self.call_us, "empty_us": 1.0}
            return TRIP_US + took, {"done": sample}
        if step.op == "time-keep":
            return TRIP_US, {
                "done": {"outputs": [{"type_name": "torch.Tensor", "shape": [next(self.keeps)]}]}
            }
        return TRIP_US, {"done": {}}

    def session(self, *, pairs: int = 30, baseline: bool = True, wall_s: float = 10.0, seed: int = 5) -> None:
        plan = Plan(has_baseline=baseline, pairs=pairs, seed=seed, wall_s=wall_s)
        TimingSession(plan, self.ask, self.ended.append, lambda: self.now_us / 1e6).start()

    def outcome(self) -> dict[str, Any]:
        (outcome,) = self.ended
        return outcome

    def done(self) -> dict[str, Any]:
        return self.outcome()["done"]

    def asked(self, op: str) -> list[Step]:
        return [step for step in self.steps if step.op == op]


class Liars(unittest.TestCase):
    """What a runner may say or do in the batch that is held against the clock."""

    def test_more_calls_than_were_asked_for_do_not_make_each_shorter(self) -> None:
        class Sides10(Sides):
            def answer(self, step: Step) -> tuple[float, dict[str, Any]]:
                took_us, outcome = super().answer(step)
                if step.op == "time-claim":
                    outcome["done"]["calls"] *= 10
                return took_us, outcome

        for method in ("events", "graph"):
            sides = Sides10()
            sides.opened["method"] = method
            sides.session(baseline=False)
            self.assertEqual(sides.outcome()["failed"]["code"], "not-timed", method)
            self.assertIn("its process says that of", sides.outcome()["failed"]["message"])

    def test_a_baseline_that_lies_gives_its_memory_back_before_the_kernel_is_timed(self) -> None:
        class Liar(Sides):
            def answer(self, step: Step) -> tuple[float, dict[str, Any]]:
                took_us, outcome = super().answer(step)
                if step.op == "time-claim" and step.side == "baseline":
                    outcome["done"]["calls"] += 1
                return took_us, outcome

        sides = Liar()
        sides.session()
        self.assertIn("were made", sides.done()["baseline_failed"])
        ops = [(step.side, step.op) for step in sides.steps]
        self.assertLess(ops.index(("baseline", "time-close")), ops.index(("candidate", "time-sample")))

    def test_a_slow_empty_batch_does_not_make_the_calls_look_short(self) -> None:
        class SlowEmpty(Sides):
            def answer(self, step: Step) -> tuple[float, dict[str, Any]]:
                took_us, outcome = super().answer(step)
                if step.op == "time-claim":
                    if step.message["empty"]:
                        return step.message["calls"] * self.true_us / 2, outcome
                    outcome["done"]["claimed_us"] /= 2
                return took_us, outcome

        sides = SlowEmpty()
        sides.session(baseline=False)
        candidate = sides.done()["candidate"]
        self.assertEqual(candidate["claimed_us"], 25.0)
        self.assertGreater(candidate["wall_us"], 44.0)


class Whole(unittest.TestCase):
    def test_all_pairs_are_taken_and_both_sides_closed(self) -> None:
        sides = Sides()
        sides.session()
        done = sides.done()
        for side in ("candidate", "baseline"):
            self.assertEqual(len(done[side]["cold_us"]), 30)
            self.assertEqual(len(done[side]["warm_us"]), 30)
            self.assertEqual(done[side]["method"], "events")
        self.assertEqual(done["candidate"]["cold_us"][0], 52.0)
        self.assertEqual(done["candidate"]["empty_us"], 1.0)
        self.assertEqual((done["pool_entries"], done["flush_bytes"]), (4, 1 << 27))
        self.assertIsNone(done["baseline_failed"])
        self.assertEqual({step.side for step in sides.asked("time-close")}, {"candidate", "baseline"})

    def test_thirty_pairs_of_a_short_kernel_are_quick(self) -> None:
        sides = Sides()
        sides.session()
        self.assertLess(sides.now_us, 0.6e6)

    def test_alone(self) -> None:
        sides = Sides()
        sides.session(baseline=False)
        self.assertIsNone(sides.done()["baseline"])
        self.assertIsNone(sides.done()["baseline_failed"])
        self.assertEqual({step.side for step in sides.steps}, {"candidate"})

    def test_late_answers_do_the_same(self) -> None:
        sides, other = Sides(), Sides()
        sides.is_deferred = True
        sides.session()
        while sides.waiting:
            on_answer, answered = sides.waiting.pop()
            sides.busy = None
            on_answer(answered)
        other.session()
        self.assertEqual(sides.done(), other.done())


class Order(unittest.TestCase):
    def order(self, seed: int) -> list[str]:
        sides = Sides()
        sides.session(seed=seed)
        return [step.side for step in sides.asked("time-sample")]

    def test_pairs_are_interleaved_and_their_order_drawn(self) -> None:
        order = self.order(1)
        pairs = [tuple(order[at : at + 2]) for at in range(0, len(order), 2)]
        self.assertTrue(all(set(pair) == {"candidate", "baseline"} for pair in pairs))
        first = sum(pair[0] == "candidate" for pair in pairs)
        self.assertTrue(5 <= first <= 25, first)
        self.assertNotEqual(order, self.order(2))
        self.assertEqual(order, self.order(1))


class Kept(unittest.TestCase):
    def kept_sample(self, seed: int, pairs: int) -> int:
        """Which sample of the candidate was the last one kept."""
        sides = Sides()
        sides.session(seed=seed, pairs=pairs)
        taken = last = 0
        for step in sides.steps:
            taken += (step.side, step.op) == ("candidate", "time-sample")
            if step.op == "time-keep":
                last = taken
        self.assertEqual(sides.done()["outputs"][0]["shape"], [len(sides.asked("time-keep"))])
        return last

    def test_every_sample_is_as_likely_as_any_other(self) -> None:
        found = [self.kept_sample(seed, 6) for seed in range(300)]
        for sample in range(1, 7):
            self.assertGreater(found.count(sample), 25, sample)

    def test_the_first_sample_is_kept_at_once(self) -> None:
        sides = Sides()
        sides.session()
        at = next(
            i for i, step in enumerate(sides.steps) if (step.side, step.op) == ("candidate", "time-sample")
        )
        self.assertEqual(sides.steps[at + 1].op, "time-keep")


class Claim(unittest.TestCase):
    def test_an_honest_side_agrees(self) -> None:
        sides = Sides()
        sides.session()
        series = sides.done()["candidate"]
        self.assertAlmostEqual(series["claimed_us"], 50.0)
        # The message trip is off.
        self.assertAlmostEqual(series["wall_us"], 50.0)

    def test_a_batch_takes_20_ms_and_is_repeated(self) -> None:
        sides = Sides()
        sides.session(baseline=False)
        full = [step for step in sides.asked("time-claim") if not step.message["empty"]]
        self.assertEqual(len(full), 3)
        self.assertTrue(all(step.message["calls"] * 50.0 >= 20_000 for step in full))
        empty = [step for step in sides.asked("time-claim") if step.message["empty"]]
        self.assertEqual([step.message["calls"] for step in empty], [step.message["calls"] for step in full])

    def test_hidden_work_shows(self) -> None:
        sides = Sides(call_us=5.0, true_us=300.0)
        sides.session(baseline=False)
        series = sides.done()["candidate"]
        self.assertAlmostEqual(series["claimed_us"], 5.0)
        self.assertAlmostEqual(series["wall_us"], 300.0)

    def test_an_estimate_that_was_too_long_is_mended(self) -> None:
        sides = Sides()
        sides.opened["call_us"] = 5_000.0
        sides.session(baseline=False)
        last = sides.asked("time-claim")[-1]
        self.assertGreaterEqual(last.message["calls"] * 50.0, 20_000)

    def test_what_takes_no_time_cannot_be_checked(self) -> None:
        sides = Sides(call_us=0.001)
        sides.session(baseline=False)
        self.assertEqual(sides.outcome()["failed"]["code"], "not-timed")


class Adaptive(unittest.TestCase):
    def test_samples_take_a_few_milliseconds(self) -> None:
        for call_us in (3.0, 50.0, 400.0):
            sides = Sides(call_us=call_us)
            sides.session(baseline=False)
            step = sides.asked("time-sample")[-1]
            took_us, _ = sides.answer(step)
            self.assertTrue(2_000 <= took_us <= 8_500, (call_us, took_us))

    def test_a_long_call_is_one(self) -> None:
        sides = Sides(call_us=30_000.0)
        sides.session(baseline=False, pairs=5)
        message = sides.asked("time-sample")[-1].message
        self.assertEqual((message["cold_calls"], message["warm_calls"]), (1, 1))

    def test_a_wrong_estimate_is_mended(self) -> None:
        sides = Sides(call_us=50.0, true_us=1_000.0)
        sides.session(baseline=False)
        took = [sides.answer(step)[0] for step in sides.asked("time-sample")]
        self.assertGreater(took[0], 20_000)
        self.assertLess(took[-1], 8_500)

    def test_it_stops_before_the_wall_clock(self) -> None:
        sides = Sides(call_us=40_000.0)
        sides.session(pairs=100, wall_s=3.0)
        count = len(sides.done()["candidate"]["cold_us"])
        self.assertTrue(5 <= count < 100, count)
        self.assertEqual(count, len(sides.done()["baseline"]["cold_us"]))
        self.assertLess(sides.now_us, 3.0e6)
        self.assertGreater(sides.now_us, 2.3e6)

    def test_fewer_than_five_only_when_there_is_no_time(self) -> None:
        sides = Sides(call_us=200_000.0)
        sides.session(pairs=30, wall_s=3.5)
        count = len(sides.done()["candidate"]["cold_us"])
        self.assertTrue(1 <= count < 5, count)
        self.assertLess(sides.now_us, 3.5e6)


class Failures(unittest.TestCase):
    STEPS = (
        ("time-open", 1),
        ("time-claim", 1),
        ("time-claim", 2),
        ("time-sample", 1),
        ("time-sample", 7),
    )

    def test_a_candidate_that_fails_ends_it(self) -> None:
        for (op, nth), outcome in itertools.product((*self.STEPS, ("time-keep", 1)), (RAISED, DIED)):
            with self.subTest(op=op, nth=nth, outcome=next(iter(outcome))):
                sides = Sides()
                sides.fails["candidate", op, nth] = outcome
                sides.session()
                self.assertEqual(sides.outcome(), outcome)
                failed_at = max(
                    at for at, step in enumerate(sides.steps) if (step.side, step.op) == ("candidate", op)
                )
                later = [step.op for step in sides.steps[failed_at + 1 :]]
                self.assertEqual(set(later) - {"time-close"}, set())
                self.assertIn("baseline", {step.side for step in sides.asked("time-close")})

    def test_a_baseline_that_fails_leaves_the_candidate(self) -> None:
        for (op, nth), outcome in itertools.product(self.STEPS, (RAISED, DIED)):
            with self.subTest(op=op, nth=nth, outcome=next(iter(outcome))):
                sides = Sides()
                sides.fails["baseline", op, nth] = outcome
                sides.session()
                done = sides.done()
                self.assertIsNone(done["baseline"])
                told = "ValueError: no" if outcome is RAISED else "its process ended (timeout)"
                self.assertEqual(done["baseline_failed"], told)
                self.assertEqual(len(done["candidate"]["cold_us"]), 30)

    def test_both_fail(self) -> None:
        sides = Sides()
        sides.fails["candidate", "time-sample", 2] = DIED
        sides.fails["baseline", "time-sample", 2] = RAISED
        sides.session()
        self.assertEqual(sides.outcome(), DIED)

    def test_closing_may_fail(self) -> None:
        sides = Sides()
        sides.fails["candidate", "time-close", 1] = DIED
        sides.session()
        self.assertEqual(len(sides.done()["candidate"]["cold_us"]), 30)

    def test_a_baseline_may_not_take_all_the_time(self) -> None:
        sides = Sides()
        sides.session(wall_s=8.0)
        walls = {step.side: step.wall_s for step in reversed(sides.asked("time-open"))}
        self.assertLess(walls["baseline"], walls["candidate"] * 0.51)


if __name__ == "__main__":
    unittest.main()
