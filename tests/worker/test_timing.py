"""The runner's side of a timing, on CPU tensors and a GPU of paper."""

import unittest
import unittest.mock
from types import SimpleNamespace
from typing import Any

import torch
from warpsmith_worker import messages
from warpsmith_worker.candidate import _CaseMemory
from warpsmith_worker.timing import NotOpen, Timing, counting_compiles
from warpsmith_worker.timing_pool import Pool, entries_for

from .gpu_model import ModelClock


class Entries(unittest.TestCase):
    def test_more_than_wanted_but_not_more_than_there_is(self) -> None:
        for input_bytes, wanted, most, expected in (
            (33, 126, 1000, 4),
            (126, 126, 1000, 2),
            (1000, 126, 10_000, 2),
            (1000, 126, 1500, 1),
            (1000, 126, 10, 1),
            (1, 126, 1000, 64),
            (0, 126, 1000, 1),
        ):
            self.assertEqual(entries_for(input_bytes, wanted, most), expected, (input_bytes, wanted, most))


class Pools(unittest.TestCase):
    def pool(self, **inputs: Any) -> Pool:
        return Pool(inputs, wanted_bytes=1, most_bytes=1 << 30)

    def test_copies_have_their_own_memory_and_the_same_layout(self) -> None:
        padded = torch.randn(6, 10)[:, :7]
        transposed = torch.randn(5, 4).t()
        expanded = torch.randn(4, 1).expand(4, 6)
        late = torch.randn(40).as_strided((6, 5), (5, 1), 3)
        pool = self.pool(a=padded, b=transposed, c=expanded, d=late, n=3)
        self.assertEqual(len(pool.entries), 2)
        pool.settle()
        for entry in pool.entries:
            for name, source in (("a", padded), ("b", transposed), ("c", expanded), ("d", late)):
                copy = entry[name]
                self.assertEqual(copy.stride(), source.stride())
                self.assertEqual(copy.shape, source.shape)
                self.assertEqual(copy.data_ptr() % 64, source.data_ptr() % 64)
                self.assertNotEqual(copy.data_ptr(), source.data_ptr())
            self.assertEqual(entry["n"], 3)
        for name, source in (("a", padded), ("b", transposed), ("c", expanded), ("d", late)):
            self.assertTrue(torch.equal(pool.entries[0][name], source))

    def test_other_entries_hold_such_values_elsewhere(self) -> None:
        for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn):
            source = torch.randn(30, 33).to(dtype)
            pool = self.pool(x=source)
            first, second = (entry["x"].to(torch.float32) for entry in pool.entries)
            wanted = source.to(torch.float32)
            for values in (first, second):
                self.assertFalse(torch.equal(values, wanted))
                self.assertTrue(bool(torch.isin(values, wanted).all()), "only values that the case has")
                self.assertNotEqual(float(values.double().sum()), float(wanted.double().sum()))
            self.assertFalse(torch.equal(first, second))
            pool.settle()
            self.assertTrue(torch.equal(pool.entries[0]["x"].to(torch.float32), wanted))

    def test_padding_is_never_moved_into_the_values(self) -> None:
        storage = torch.full((6, 10), float("nan"))
        padded = storage[:, :7]
        padded.copy_(torch.randn(6, 7))
        pool = self.pool(x=padded)
        for entry in pool.entries:
            self.assertFalse(bool(entry["x"].isnan().any()))
            self.assertTrue(
                bool(entry["x"].as_strided((5,), (10,), entry["x"].storage_offset() + 8).isnan().all())
            )

    def test_indices_stay_as_they_are(self) -> None:
        index, mask = torch.arange(50), torch.rand(50) > 0.5
        for entry in self.pool(i=index, m=mask).entries:
            self.assertTrue(torch.equal(entry["i"], index))
            self.assertTrue(torch.equal(entry["m"], mask))

    def test_without_elements(self) -> None:
        pool = self.pool(x=torch.empty(0, 4), s=torch.tensor(2.5))
        pool.settle()
        self.assertEqual(pool.entries[0]["x"].shape, (0, 4))
        self.assertEqual(float(pool.entries[0]["s"]), 2.5)


class Runner:
    """A runner's `Timing` around a function, with a case of one input `x` and one output `y`."""

    def __init__(self, entry: Any, **argument: Any) -> None:
        self.x = torch.randn(8, 16)
        self.y = torch.full((8, 16), float("nan"))
        self.clock = ModelClock()
        self.clock.l2_bytes = 1024
        self.delivered: list[bool] = []
        self.timing = Timing(
            lambda _request, _descriptors: self.case(),
            lambda values: lambda: self.timed(entry, values),
            lambda _value: False,
            lambda: self.delivered.append(bool(self.y.isnan().all())),
            lambda: self.clock,
        )
        self.arguments = [{"parameter": "x", "input": "x"}, *([argument] if argument else [])]

    def timed(self, entry: Any, values: dict[str, Any]) -> Any:
        self.clock.host(10.0)
        self.clock.submit(100.0)
        return entry(**values)

    def case(self) -> _CaseMemory:
        scalars = {"inputs": [], "outputs": [], "arguments": []}
        case = _CaseMemory(scalars, [], SimpleNamespace(begin=lambda: None))
        case.inputs = {"x": self.x}
        spec = {"name": "y", "dtype": "float32", "shape": [8, 16]}
        case.outputs = [SimpleNamespace(spec=spec, storage=self.y.view(torch.uint8).reshape(-1))]
        case.destinations = {
            item["output"]: self.y for item in getattr(self, "arguments", []) if "output" in item
        }
        return case

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        answer = {"done": self.timing.answer({"op": op, **fields}, [])}
        # What it says is what the supervisor takes.
        checked = messages.candidate_answer(op, answer)
        assert checked == answer, (checked, answer)
        return answer["done"]

    def open(self, **changes: Any) -> dict[str, Any]:
        fields = {"case": "c", "arguments": self.arguments, "inputs": [], "outputs": [], **changes}
        return self.ask("time-open", **fields)

    def sample(self) -> dict[str, Any]:
        return self.ask("time-sample", cold_calls=3, warm_calls=2)


class Ops(unittest.TestCase):
    def test_a_whole_timing(self) -> None:
        runner = Runner(lambda x: x * 2)
        opened = runner.open()
        self.assertEqual(opened["method"], "events")
        self.assertEqual(opened["pool_entries"], 5)
        self.assertEqual(opened["pool_bytes"], 5 * 8 * 16 * 4)
        self.assertAlmostEqual(runner.sample()["cold_us"], 100.0, delta=0.5)
        self.assertEqual(runner.ask("time-claim", calls=7, empty=False)["calls"], 7)
        self.assertTrue(bool(runner.y.isnan().all()), "nothing is handed over before it is asked for")
        runner.sample()
        (described,) = runner.ask("time-keep")["outputs"]
        self.assertTrue(described["copied"])
        self.assertIsNone(described["aliases_input"])
        # The values of the case, not those of another entry.
        self.assertTrue(torch.equal(runner.y, runner.x * 2))
        self.assertEqual(runner.delivered, [False], "once, and after it was written")
        self.assertEqual(runner.ask("time-close"), {})
        self.assertTrue(runner.clock.released)
        with self.assertRaises(NotOpen):
            runner.sample()

    def test_what_was_remembered_of_an_earlier_call_is_wrong(self) -> None:
        remembered: list[torch.Tensor] = []

        def entry(x: torch.Tensor) -> torch.Tensor:
            if not remembered:
                remembered.append(x * 2)
            return remembered[0].clone()

        runner = Runner(entry)
        runner.open()
        runner.sample()
        runner.ask("time-keep")
        self.assertFalse(torch.equal(runner.y, runner.x * 2))

    def right_samples(self, runner: Runner, samples: int) -> int:
        """How many of some samples ended with the right outputs."""
        right = 0
        for _ in range(samples):
            runner.sample()
            runner.ask("time-keep")
            right += torch.equal(runner.y, runner.x * 2)
        return right

    def test_what_is_remembered_by_address_from_some_call_on_is_wrong(self) -> None:
        remembered: dict[int, torch.Tensor] = {}
        remembers: list[bool] = []

        def entry(x: torch.Tensor) -> torch.Tensor:
            if not remembers or x.data_ptr() not in remembered:
                remembered[x.data_ptr()] = x * 2
            return remembered[x.data_ptr()].clone()

        runner = Runner(entry)
        runner.open()
        self.assertEqual(self.right_samples(runner, 3), 3)
        remembers.append(True)
        # Right is at most the entry that had the values of the case at that moment.
        self.assertLessEqual(self.right_samples(runner, 5), 1)

    def test_without_room_for_a_copy_the_values_stay_where_they_are(self) -> None:
        runner = Runner(lambda x: x * 2)
        runner.open()
        entries = list(runner.timing._pool.entries)

        def lacking(value: torch.Tensor, copy: torch.Tensor, shift: int) -> None:
            copy.fill_(shift)
            raise torch.OutOfMemoryError("CUDA out of memory")

        with unittest.mock.patch("warpsmith_worker.timing_pool._move", lacking):
            self.assertEqual(self.right_samples(runner, 2), 2)
        self.assertTrue(all(a is b for a, b in zip(runner.timing._pool.entries, entries, strict=True)))
        self.assertEqual(self.right_samples(runner, 2), 2)

    def test_memory_that_holds_the_result_of_an_earlier_call_is_seen(self) -> None:
        stops: list[bool] = []

        def entry(x: torch.Tensor, y: torch.Tensor) -> None:
            if not stops:
                torch.mul(x, 2, out=y)

        runner = Runner(entry, parameter="y", output="y")
        runner.open()
        self.assertEqual(self.right_samples(runner, 6), 6)
        stops.append(True)
        self.assertEqual(self.right_samples(runner, 6), 0)

    def test_a_remembered_sum_is_wrong(self) -> None:
        remembered: list[torch.Tensor] = []

        def entry(x: torch.Tensor) -> torch.Tensor:
            if not remembered:
                remembered.append(x.sum())
            return remembered[0].expand(8, 16).clone()

        runner = Runner(entry)
        runner.open()
        runner.sample()
        runner.ask("time-keep")
        self.assertFalse(torch.allclose(runner.y, runner.x.sum()))

    def test_an_input_that_is_returned_is_named(self) -> None:
        runner = Runner(lambda x: x)
        runner.open()
        runner.sample()
        (described,) = runner.ask("time-keep")["outputs"]
        self.assertEqual(described["aliases_input"], "x")

    def test_an_output_that_is_passed(self) -> None:
        def entry(x: torch.Tensor, y: torch.Tensor) -> None:
            torch.mul(x, 2, out=y)

        runner = Runner(entry, parameter="y", output="y")
        runner.open()
        runner.sample()
        self.assertTrue(bool(runner.y.isnan().all()), "calls write into memory of their own")
        (described,) = runner.ask("time-keep")["outputs"]
        self.assertTrue(described["copied"])
        self.assertTrue(torch.equal(runner.y, runner.x * 2))

    def test_spoiling_leaves_inputs_alone(self) -> None:
        runner = Runner(lambda x: x * 2)
        runner.open()
        held, mine = runner.timing._pool.entries[0]["x"], torch.zeros(8, 16)
        whole, transposed = held.clone(), torch.zeros(3, 4, dtype=torch.float16).t()
        runner.timing._spoil([held, mine, transposed, torch.zeros(1).expand(4), 3, None])
        self.assertTrue(torch.equal(held, whole))
        self.assertTrue(bool(mine.isnan().all()))
        self.assertTrue(bool(transposed.isnan().all()))

    def test_what_a_baseline_returns_stays(self) -> None:
        constant = torch.ones(8, 16)
        for spoils in (True, False):
            runner = Runner(lambda **_x: constant)
            runner.open(spoils=spoils)
            runner.sample()
            runner.sample()
            # It may be a constant of the reference that says what is right afterwards.
            self.assertEqual(bool(constant.isnan().any()), spoils)
            constant.fill_(1)

    def test_another_shape_is_not_copied(self) -> None:
        runner = Runner(lambda x: x[:4] * 2)
        runner.open()
        runner.sample()
        (described,) = runner.ask("time-keep")["outputs"]
        self.assertFalse(described["copied"])

    def test_what_the_entry_raises_goes_through(self) -> None:
        runner = Runner(lambda x: x.no_such_thing)
        with self.assertRaises(AttributeError):
            runner.open()

    def test_compiles_are_counted_and_an_earlier_hook_still_hears(self) -> None:
        from triton import knobs

        heard: list[dict[str, Any]] = []
        knobs.runtime.jit_post_compile_hook = lambda **told: heard.append(told)
        try:
            with counting_compiles() as compiled:
                self.assertEqual(compiled(), 0)
                knobs.runtime.jit_post_compile_hook(key="k")
                self.assertEqual(compiled(), 1)
            knobs.runtime.jit_post_compile_hook(key="later")
            self.assertEqual(compiled(), 1)
        finally:
            knobs.runtime.jit_post_compile_hook = None
        self.assertEqual(heard, [{"key": "k"}, {"key": "later"}])


SAMPLE = {"cold_us": 1.0, "warm_us": 2, "empty_us": 0.0}


class Messages(unittest.TestCase):
    def checked(self, op: str, done: Any) -> Any:
        return messages.candidate_answer(op, {"done": done})["done"]

    def test_unknown_fields_are_dropped(self) -> None:
        self.assertEqual(self.checked("time-sample", {**SAMPLE, "more": 1}), SAMPLE)

    def test_what_is_no_time_is_refused(self) -> None:
        for value in (-1.0, float("inf"), float("nan"), "1", None, True):
            with self.subTest(value=value), self.assertRaises(messages.Malformed):
                self.checked("time-sample", {**SAMPLE, "cold_us": value})

    def test_a_claim_of_no_calls_is_refused(self) -> None:
        with self.assertRaises(messages.Malformed):
            self.checked("time-claim", {"calls": 0, "claimed_us": 1.0})

    def test_an_unknown_method_is_refused(self) -> None:
        opened = Runner(lambda x: x * 2).open()
        with self.assertRaises(messages.Malformed):
            self.checked("time-open", {**opened, "method": "guess"})


if __name__ == "__main__":
    unittest.main()
