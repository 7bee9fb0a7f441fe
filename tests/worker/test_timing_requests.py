"""Timing as the server asks for it: one request, two runners in turns, on paper and on the pretended GPU."""

import time
import unittest
import unittest.mock
from types import SimpleNamespace
from typing import Any

from warpsmith_worker import runners
from warpsmith_worker.cases import Cases
from warpsmith_worker.requests import Requests

from .client import DOUBLE, Worker, output, tensor
from .test_cases import WorkerTest
from .test_fake_gpu import FAKE

OPENED = {
    "pool_entries": 2,
    "pool_bytes": 8,
    "flush_bytes": 8,
    "flush_us": 75.0,
    "method": "events",
    "graph_refused": "",
    "is_host_bound": False,
    "host_us": 5.0,
    "call_us": 50.0,
    "launches": 3,
}


class PaperRunner:
    """Answers jobs by a table, at once or when told; like `Runner` it answers a dead one's jobs at once."""

    def __init__(self) -> None:
        self.jobs: list[runners.Job] = []
        self.held: runners.Job | None = None
        self.hold_op = ""
        self.death: dict[str, Any] | None = None

    def submit(self, job: runners.Job) -> None:
        self.jobs.append(job)
        if self.death is not None:
            job.on_outcome(self.death, [])
        elif job.op == self.hold_op:
            self.held = job
        else:
            job.on_outcome({"done": self.answer(job)}, [])

    def answer(self, job: runners.Job) -> dict[str, Any]:
        if job.op == "time-open":
            return OPENED
        if job.op == "time-sample":
            return {"cold_us": 50.0, "warm_us": 40.0, "empty_us": 1.0}
        if job.op == "time-claim":
            # The batch takes real time, so that a clock can see it.
            if not job.message["empty"]:
                time.sleep(0.025)
            return {"calls": job.message["calls"], "claimed_us": 25e3}
        return {"outputs": []}

    def die(self) -> None:
        self.death = {"died": {"reason": "killed", "signal": 9, "status": None, "output": ""}}
        if self.held is not None:
            held, self.held = self.held, None
            held.on_outcome(self.death, [])


class TimeRequest(unittest.TestCase):
    def setUp(self) -> None:
        self.replies: list[dict[str, Any]] = []
        self.candidate, self.baseline, self.judge = PaperRunner(), PaperRunner(), PaperRunner()
        supervisor = self.supervisor = SimpleNamespace(
            cases=Cases(),
            device=SimpleNamespace(name="cuda:0"),
            spares=[],
            runners={"k": self.candidate, "b": self.baseline},
            judge=self.judge,
            reply=lambda request, outcome: self.replies.append({"id": request["id"], **outcome}),
        )
        self.requests = Requests(supervisor)
        self.case = supervisor.cases.add("c")
        self.case.fill({"inputs": [{"name": "x", "key": "input-0"}], "outputs": []}, [])

    def ask(self, **changes: Any) -> None:
        side = {"arguments": [{"parameter": "x", "input": "x"}]}
        request = {
            "id": 7,
            "op": "time",
            "case": "c",
            "candidate": {"runner": "k", **side},
            "baseline": {"runner": "b", **side},
            "pairs": 3,
            "seed": 1,
            "wall_s": 30.0,
        }
        self.requests.serve({**request, **changes})

    def reply(self) -> dict[str, Any]:
        (reply,) = self.replies
        return reply

    def test_the_case_is_rearmed_first_and_free_afterwards(self) -> None:
        self.ask()
        done = self.reply()["done"]
        self.assertEqual([job.op for job in self.judge.jobs], ["rearm"])
        self.assertEqual(len(done["candidate"]["cold_us"]), 3)
        self.assertEqual(len(done["baseline"]["cold_us"]), 3)
        self.assertGreaterEqual(done["candidate"]["wall_us"] * 480, 20_000)
        self.assertFalse(self.case.busy)
        # A run has to put the poison back.
        self.assertEqual(self.case.runs, 1)

    def test_spares_that_open_their_contexts_are_waited_for(self) -> None:
        for dies in (False, True):
            self.setUp()
            spares = self.supervisor.spares = [PaperRunner(), PaperRunner()]
            for spare in spares:
                spare.hold_op = "time-close"
            self.ask()
            self.requests.serve({"id": 9, "op": "ceilings", "wall_s": 5.0})
            outcome = {"died": {"reason": "exit"}} if dies else {"done": {}}
            for spare in spares:
                self.assertEqual((self.candidate.jobs, self.judge.jobs), ([], []))
                for job in spare.jobs:
                    job.on_outcome(outcome, [])
            self.assertEqual([job.op for job in self.judge.jobs], ["rearm", "ceilings"])
            self.assertEqual([reply["id"] for reply in self.replies], [7, 9])
            self.assertIn("done", self.replies[0])

    def test_refusals(self) -> None:
        side = {"arguments": [{"parameter": "x", "input": "x"}]}
        for changes, code in (
            ({"case": "none"}, "unknown-case"),
            ({"candidate": {"runner": "none", **side}}, "unknown-runner"),
            ({"baseline": {"runner": "none", **side}}, "unknown-runner"),
            ({"baseline": {"runner": "k", **side}}, "bad-request"),
            ({"baseline": {"runner": "b", "arguments": [{"parameter": "x", "input": "z"}]}}, "bad-request"),
        ):
            with self.subTest(code=code, changes=changes):
                self.replies.clear()
                self.ask(**changes)
                self.assertEqual(self.reply()["failed"]["code"], code)
                self.assertFalse(self.case.busy)
        self.assertEqual(self.candidate.jobs, [])

    def test_a_busy_case(self) -> None:
        self.candidate.hold_op = "time-sample"
        self.ask()
        self.ask(id=8)
        self.assertEqual(self.reply()["failed"]["code"], "case-busy")

    def test_closing_either_runner_in_the_middle(self) -> None:
        for op in ("time-open", "time-claim", "time-sample"):
            for side in ("candidate", "baseline"):
                with self.subTest(op=op, side=side):
                    self.setUp()
                    runner = getattr(self, side)
                    runner.hold_op = op
                    self.ask()
                    self.assertEqual(self.replies, [])
                    runner.die()
                    if side == "candidate":
                        self.assertEqual(self.reply()["died"]["reason"], "killed")
                    else:
                        self.assertIn("killed", self.reply()["done"]["baseline_failed"])
                    self.assertFalse(self.case.busy)

    def test_the_judge_ends_in_the_middle(self) -> None:
        self.candidate.hold_op = "time-sample"
        self.ask()
        lost = runners.failed("judge-died", "gone")
        self.case.fail("lost", lost)
        held, self.candidate.held, self.candidate.hold_op = self.candidate.held, None, ""
        held.on_outcome({"done": self.candidate.answer(held)}, [])
        self.assertEqual(self.reply()["failed"]["code"], "judge-died")


class OnFakeGpu(unittest.TestCase):
    """The real processes on a pretended GPU, whose events are the host's clock."""

    DOUBLE = "def kernel_fn(x):\n    return x * 2\n"
    REMEMBERS = (
        "results = []\n"
        "def kernel_fn(x):\n"
        "    if not results:\n"
        "        results.append(x * 2)\n"
        "    return results[0].clone()\n"
    )

    worker: Worker

    @classmethod
    def started(cls, **environment: str) -> Worker:
        worker = Worker(environment=environment, device=("cuda:0", "GPU-fake"), main_file=FAKE)
        cls.addClassCleanup(worker.close)
        reply = worker.define("double", DOUBLE)
        if reply.get("done") != {}:
            raise AssertionError(reply)
        return worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = cls.started()

    def fields(self, worker: Worker, candidate: str, baseline: str | None, **changes: Any) -> dict[str, Any]:
        arguments = [{"parameter": "x", "input": "x"}]
        sides = {}
        for name, source in (("candidate", candidate), ("baseline", baseline)):
            sides[name] = None
            if source is not None:
                runner = worker.fresh("runner")
                self.assertIn("done", worker.open_source(source, runner))
                sides[name] = {"runner": runner, "arguments": arguments}
        case = worker.prepare("double", [tensor("x", [64, 64])], [output("y", [64, 64])])
        return {"case": case, **sides, "pairs": 6, "seed": 3, "wall_s": 20.0, **changes}

    def violations(self, worker: Worker, case: str) -> int:
        (errors,) = worker.compare(case)["done"]["outputs"]
        self.assertEqual(errors["elements_compared"], 64 * 64)
        return errors["violations"]

    def test_both_sides_and_both_transports(self) -> None:
        for worker in (self.worker, self.started(WARPSMITH_TRANSPORT="host")):
            fields = self.fields(worker, self.DOUBLE, self.DOUBLE)
            reply = worker.ask("time", **fields)
            self.assertIn("done", reply, worker.stderr())
            done = reply["done"]
            for side in ("candidate", "baseline"):
                self.assertEqual(len(done[side]["cold_us"]), 6)
                self.assertIn("no graphs", done[side]["graph_refused"])
                self.assertGreater(done[side]["wall_us"], 0)
            self.assertGreater(done["pool_entries"], 1)
            self.assertTrue(done["outputs"][0]["copied"])
            self.assertEqual(self.violations(worker, fields["case"]), 0)
            # Both go on, and so does the case.
            runner = fields["candidate"]["runner"]
            self.assertIn("done", worker.run_case(runner, fields["case"]))
            self.assertIn("done", worker.ask("time", **fields))

    def test_remembered_results_are_wrong(self) -> None:
        worker = self.worker
        fields = self.fields(worker, self.REMEMBERS, None)
        self.assertIn("done", worker.ask("time", **fields))
        self.assertGreater(self.violations(worker, fields["case"]), 0)

    def test_sides_that_fail(self) -> None:
        worker = self.worker
        raises = "def kernel_fn(x):\n    raise ValueError('not today')\n"
        ends = "import os\ndef kernel_fn(x):\n    os._exit(3)\n"
        done = worker.ask("time", **self.fields(worker, self.DOUBLE, raises))["done"]
        self.assertEqual((done["baseline"], done["baseline_failed"]), (None, "ValueError: not today"))
        done = worker.ask("time", **self.fields(worker, self.DOUBLE, ends))["done"]
        self.assertEqual(done["baseline_failed"], "its process ended (exit)")
        reply = worker.ask("time", **self.fields(worker, raises, self.DOUBLE))
        self.assertEqual(reply["raised"]["message"], "not today")
        self.assertEqual(reply["raised"]["place"]["line"], 2)
        reply = worker.ask("time", **self.fields(worker, ends, self.DOUBLE))
        self.assertEqual((reply["died"]["reason"], reply["died"]["status"]), ("exit", 3))

    def test_cancelled_in_the_middle(self) -> None:
        worker = self.worker
        fields = self.fields(worker, self.DOUBLE, self.DOUBLE, pairs=100_000)
        request = worker.send("time", **fields)
        time.sleep(0.5)
        began = time.monotonic()
        self.assertEqual(worker.ask("close", runner=fields["candidate"]["runner"])["done"], {})
        self.assertEqual(worker.reply_to(request)["died"]["reason"], "killed")
        self.assertLess(time.monotonic() - began, 2.5)
        self.assertIn("done", worker.run_case(fields["baseline"]["runner"], fields["case"]))
        self.assertEqual(self.violations(worker, fields["case"]), 0)

    def test_a_hanging_side_is_stopped(self) -> None:
        worker = self.worker
        hangs = "def kernel_fn(x):\n    while True: pass\n"
        done = worker.ask("time", **self.fields(worker, self.DOUBLE, hangs, wall_s=4.0))["done"]
        self.assertEqual(done["baseline_failed"], "its process ended (timeout)")
        self.assertEqual(len(done["candidate"]["cold_us"]), 6)
        reply = worker.ask("time", **self.fields(worker, hangs, self.DOUBLE, wall_s=1.0))
        self.assertEqual(reply["died"]["reason"], "timeout")


class WithoutAGpu(WorkerTest):
    """The real processes, started without one."""

    def test_it_is_told_and_the_runner_lives_on(self) -> None:
        runner = self.opened("def kernel_fn(x):\n    return x * 2")
        case = self.case([4, 4])
        side = {"runner": runner, "arguments": [{"parameter": "x", "input": "x"}]}
        fields = {"case": case, "candidate": side, "baseline": None, "pairs": 3, "seed": 1, "wall_s": 20.0}
        reply = self.worker.ask("time", **fields)
        self.assertEqual(reply["failed"]["code"], "no-device")
        self.assertEqual(self.worker.run_case(runner, case)["done"]["outputs"][0]["copied"], True)
        (errors,) = self.compared(case)["outputs"]
        self.assertEqual((errors["violations"], errors["elements_compared"]), (0, 16))
        self.assertEqual(self.worker.ask("ceilings", wall_s=5.0)["failed"]["code"], "no-device")


if __name__ == "__main__":
    unittest.main()
