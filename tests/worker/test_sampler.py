"""The arithmetic of samples, on a GPU of paper."""

import unittest

from warpsmith_worker.sampler import Sampler, StillCompiling

from .gpu_model import ModelClock, kernel


def decided(clock: ModelClock, *calls: object) -> Sampler:
    sampler = Sampler(clock, list(calls))
    sampler.warm_up(lambda: 0)
    sampler.decide()
    return sampler


class WarmUp(unittest.TestCase):
    def test_it_lasts_25_ms_and_rotates(self) -> None:
        clock, seen = ModelClock(), []

        def call(at: int) -> object:
            return lambda: (seen.append(at), kernel(clock, 10, 2_000)())

        began = clock.now_us()
        Sampler(clock, [call(0), call(1)]).warm_up(lambda: 0)
        self.assertGreaterEqual(clock.now_us() - began, 25_000)
        self.assertLess(clock.now_us() - began, 30_000)
        self.assertEqual(seen[:4], [0, 1, 0, 1])

    def test_slow_calls_are_three(self) -> None:
        clock, seen = ModelClock(), []
        Sampler(clock, [lambda: (seen.append(0), clock.submit(500_000.0))]).warm_up(lambda: 0)
        self.assertEqual(len(seen), 3)

    def test_after_a_compile_come_two_quiet_calls(self) -> None:
        clock, seen = ModelClock(), []
        compiled = [0]

        def call() -> None:
            seen.append(0)
            clock.submit(30_000.0)
            if len(seen) in (1, 4):
                compiled[0] += 1

        Sampler(clock, [call]).warm_up(lambda: compiled[0])
        # Calls 2 and 3 were quiet already.
        self.assertEqual(len(seen), 3)
        seen.clear()
        compiled[0] = 0

        def later() -> None:
            seen.append(0)
            clock.submit(30_000.0)
            compiled[0] = min(len(seen), 5)

        Sampler(clock, [later]).warm_up(lambda: compiled[0])
        self.assertEqual(len(seen), 7)

    def test_a_call_that_is_suddenly_slow_is_not_quiet(self) -> None:
        clock, seen = ModelClock(), []

        def call() -> None:
            seen.append(0)
            clock.submit(2_000_000.0 if len(seen) == 3 else 20_000.0)

        Sampler(clock, [call]).warm_up(lambda: 0)
        self.assertEqual(len(seen), 5)

    def test_compiling_in_every_call_is_refused(self) -> None:
        clock, compiled = ModelClock(), [0]

        def call() -> None:
            compiled[0] += 1

        with self.assertRaises(StillCompiling):
            Sampler(clock, [call]).warm_up(lambda: compiled[0])


class Events(unittest.TestCase):
    def test_a_long_kernel_is_timed_by_events(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, kernel(clock, 10, 100))
        self.assertIsNone(sampler.graphs)
        self.assertFalse(sampler.is_host_bound)
        self.assertEqual(sampler.graph_refused, "")
        self.assertAlmostEqual(sampler.host_us, 10)
        self.assertAlmostEqual(sampler.call_us, 100, delta=15)
        self.assertAlmostEqual(sampler.flush_us, 75, delta=1)
        sample = sampler.sample(20, 10)
        # The flush stays outside.
        self.assertAlmostEqual(sample["cold_us"], 100, delta=0.5)
        self.assertAlmostEqual(sample["warm_us"], 100, delta=0.5)

    def test_every_cold_call_is_flushed_and_no_warm_one(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, kernel(clock, 10, 100))
        before = clock.flushes
        sampler.sample(7, 10)
        # One or two that keep the GPU busy while the host submits the first.
        self.assertEqual(clock.flushes - before, 7 + 2)

    def test_a_host_that_is_slower_than_the_kernel_is_hidden(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, kernel(clock, 40, 25))
        self.assertIsNone(sampler.graphs)
        self.assertFalse(sampler.is_host_bound)
        self.assertTrue(sampler.is_paced_by_host)
        self.assertAlmostEqual(sampler.sample(20, 100)["cold_us"], 25, delta=0.1)
        self.assertAlmostEqual(sampler.sample(20, 100)["warm_us"], 25, delta=0.1)
        # It is what both clocks see of calls in a row.
        self.assertAlmostEqual(sampler.claim(100, empty=False)["claimed_us"] / 100, 40, delta=1)

    def test_a_host_that_becomes_slower_is_hidden_too(self) -> None:
        clock = ModelClock()
        host_us = [15.0]

        def call() -> None:
            clock.host(host_us[0])
            clock.submit(25)

        sampler = decided(clock, call)
        self.assertFalse(sampler.is_paced_by_host)
        host_us[0] = 32.0
        for name in ("cold_us", "warm_us"):
            self.assertAlmostEqual(sampler.sample(20, 20)[name], 25, delta=2)

    def test_what_two_events_take_is_told(self) -> None:
        clock = ModelClock(event_us=1.5)
        sampler = decided(clock, kernel(clock, 10, 100))
        self.assertAlmostEqual(sampler.sample(5, 5)["empty_us"], 1.5)

    def test_l2_is_shared_before_each_sample(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, kernel(clock, 10, 100))
        for _ in range(2):
            before = clock.flushes
            sampler.sample(3, 2)
            self.assertEqual(clock.shared_at[-1], before)
            self.assertGreater(clock.flushes, before)
        self.assertEqual(len(clock.shared_at), 2)

    def test_what_is_kept_is_of_entry_0(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, *(kernel(clock, 10, 100, returned=at) for at in range(3)))
        for count in (1, 2, 3, 7):
            sampler.sample(count, 2)
            self.assertEqual(sampler.last, 0)

    def test_any_call_of_a_sample_may_be_the_one_that_is_kept(self) -> None:
        for entries, count in ((1, 4), (3, 4), (8, 4)):
            clock, calls, kept = ModelClock(), [], set()

            def call(at: int, clock: ModelClock = clock, calls: list[int] = calls) -> object:
                return lambda: (calls.append(at), kernel(clock, 10, 100)(), len(calls))[2]

            sampler = decided(clock, *(call(at) for at in range(entries)))
            for _ in range(200):
                calls.clear()
                sampler.sample(count, 1)
                # Behind the two warm ones.
                kept.add(sampler.last - 2)
                self.assertEqual(calls[sampler.last - 1], 0)
            self.assertEqual(kept, set(range(1, count + 1)))

    def test_cold_calls_rotate_over_all_entries(self) -> None:
        clock, seen = ModelClock(), []

        def call(at: int) -> object:
            return lambda: (seen.append(at), kernel(clock, 10, 100)())

        sampler = decided(clock, *(call(at) for at in range(3)))
        seen.clear()
        sampler.sample(6, 1)
        # One that brings the entry into L2, one that is timed, then the cold ones.
        self.assertEqual(seen[:2], [2, 2])
        self.assertIn(seen[2:], [[0, 1, 2, 0, 1, 2], [2, 0, 1, 2, 0, 1], [1, 2, 0, 1, 2, 0]])

    def test_slow_calls_are_few(self) -> None:
        clock, seen = ModelClock(), []
        decided(clock, lambda: (seen.append(0), clock.submit(2e6)))
        self.assertLessEqual(len(seen), 7)


class Graphs(unittest.TestCase):
    def test_a_short_kernel_is_timed_by_graphs(self) -> None:
        clock = ModelClock(event_us=1.5)
        sampler = decided(clock, kernel(clock, 12, 6, returned="out"))
        self.assertIsNotNone(sampler.graphs)
        # Flushes last longer than the host.
        self.assertFalse(sampler.is_host_bound)
        sample = sampler.sample(30, 150)
        # What the flushes and the events take is off, and the host plays no part.
        self.assertAlmostEqual(sample["cold_us"], 6, delta=0.01)
        self.assertAlmostEqual(sample["warm_us"], 6, delta=0.02)
        self.assertAlmostEqual(sample["empty_us"], 75, delta=0.1)
        self.assertEqual(sampler.last, "out")

    def test_the_graph_ends_with_entry_0(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, *(kernel(clock, 12, 6, returned=at) for at in range(5)))
        sampler.sample(1, 1)
        self.assertEqual(sampler.last, 0)

    def test_a_slow_host_is_told_and_a_graph_leaves_it_out(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, kernel(clock, 300, 60))
        self.assertTrue(sampler.is_host_bound)
        self.assertAlmostEqual(sampler.sample(10, 10)["cold_us"], 60, delta=0.1)

    def test_a_call_that_waits_cannot_be_captured(self) -> None:
        clock = ModelClock()

        def call() -> None:
            kernel(clock, 12, 6)()
            clock.synchronise()

        sampler = decided(clock, call)
        self.assertIsNone(sampler.graphs)
        self.assertEqual(
            sampler.graph_refused, "RuntimeError: operation not permitted when stream is capturing"
        )
        self.assertTrue(sampler.is_host_bound)
        # What events give then holds the host's time too.
        self.assertGreaterEqual(sampler.sample(5, 5)["warm_us"], 12)

    def test_a_graph_that_does_nothing_is_refused(self) -> None:
        clock = ModelClock()

        def call() -> None:
            clock.host(12)
            if clock.capturing is None:
                clock.submit(6)

        sampler = decided(clock, call)
        self.assertIsNone(sampler.graphs)
        self.assertIn("nothing", sampler.graph_refused)

    def test_outputs_are_spoiled_before_each_sample(self) -> None:
        clock, spoiled = ModelClock(), []
        sampler = Sampler(clock, [kernel(clock, 12, 6, returned="out")], spoiled.append)
        sampler.warm_up(lambda: 0)
        sampler.decide()
        self.assertEqual(spoiled, [])
        sampler.sample(5, 5)
        sampler.sample(5, 5)
        self.assertEqual(spoiled, ["out", "out"])

    def test_a_broken_gpu_is_no_refusal(self) -> None:
        clock = ModelClock()

        def call() -> None:
            kernel(clock, 12, 6)()
            if clock.capturing is not None:
                clock.capturing = None
                clock.error = RuntimeError("CUDA error: an illegal memory access was encountered")
                raise ValueError("in the capture")

        with self.assertRaisesRegex(RuntimeError, "illegal memory access"):
            decided(clock, call)


class Claims(unittest.TestCase):
    def test_events_and_the_clock_agree(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, kernel(clock, 10, 100))
        began = clock.now_us()
        claim = sampler.claim(200, empty=False)
        self.assertEqual(claim["calls"], 200)
        self.assertAlmostEqual(claim["claimed_us"], clock.now_us() - began, delta=20)

    def test_an_empty_batch_takes_nothing(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, kernel(clock, 10, 100))
        began = clock.now_us()
        sampler.claim(200, empty=True)
        self.assertLess(clock.now_us() - began, 1)

    def test_hidden_work_shows_in_the_clock_and_not_in_the_events(self) -> None:
        clock = ModelClock()

        def call() -> None:
            clock.host(5)
            clock.submit_aside(300)

        sampler = decided(clock, call)
        self.assertIn("unjoined", sampler.graph_refused)
        began = clock.now_us()
        claim = sampler.claim(100, empty=False)
        self.assertGreater(clock.now_us() - began, 10 * claim["claimed_us"])

    def test_graphs_claim_whole_replays(self) -> None:
        clock = ModelClock()
        sampler = decided(clock, kernel(clock, 12, 6))
        claim = sampler.claim(3_334, empty=False)
        self.assertEqual(claim["calls"] % sampler.graphs.warm_calls, 0)
        self.assertGreaterEqual(claim["calls"], 3_334)
        self.assertAlmostEqual(claim["claimed_us"] / claim["calls"], 6, delta=0.05)


if __name__ == "__main__":
    unittest.main()
