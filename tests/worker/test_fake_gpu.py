"""Whole cases on a pretended GPU (see `fake_gpu.py`): how a worker on a device is put together."""

import time
import unittest
from pathlib import Path
from typing import Any

from .client import DOUBLE, SOFTMAX, Worker, output, processes_below, tensor

DEVICE = ("cuda:0", "GPU-fake")
FAKE = Path(__file__).with_name("fake_gpu.py")
RIGHT = "def kernel_fn(x):\n    return x * 2\n"


class OnFakeGpu(unittest.TestCase):
    worker: Worker

    def started(self, **environment: str) -> Worker:
        worker = Worker(environment=environment, device=DEVICE, main_file=FAKE)
        self.addCleanup(worker.close)
        for name, source in (("double", DOUBLE), ("softmax", SOFTMAX)):
            self.assertEqual(worker.define(name, source).get("done"), {})
        return worker

    def ran(self, worker: Worker, source: str, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """What a run said, and what the comparison found."""
        runner = worker.fresh("runner")
        self.assertIn("done", worker.open_source(source, runner))
        case = worker.prepare("double", [tensor("x", [8, 8])], [output("y", [8, 8])])
        reply = worker.run_case(runner, case, **changes)
        self.assertIn("done", reply, worker.stderr())
        compared = worker.compare(case)
        self.assertIn("done", compared)
        self.assertEqual(worker.ask("release", case=case), {"id": worker.next_id, "done": {}})
        return reply["done"], compared["done"]

    def test_both_transports(self) -> None:
        for environment, transport in (({}, "ipc"), ({"WARPSMITH_TRANSPORT": "host"}, "host")):
            worker = self.started(**environment)
            warm = worker.event("warm")["device"]
            self.assertEqual((warm["device"], warm["transport"]), ("cuda:0", transport))
            self.assertEqual(bool(warm["transport_reason"]), transport == "host")
            done, compared = self.ran(worker, RIGHT)
            self.assertEqual((done["findings"], done["launches"]), ([], []))
            (errors,) = compared["outputs"]
            self.assertEqual((errors["violations"], errors["elements_compared"]), (0, 64))
            self.assertEqual((compared["inputs_changed"], compared["written_outside"]), ([], []))
            wrong = "def kernel_fn(x):\n    y = x * 2\n    y[0, 3] += 1\n    x[1, 1] = 5\n    return y\n"
            _, compared = self.ran(worker, wrong)
            self.assertEqual(compared["outputs"][0]["violations"], 1)
            self.assertEqual(compared["inputs_changed"], ["x"])

    def test_no_context_opens_while_something_is_timed(self) -> None:
        worker = self.started()
        opened = [worker.fresh("runner") for _ in range(3)]
        for runner in opened[:2]:
            self.assertIn("done", worker.open_source(RIGHT, runner, for_timing=True))
        # The zygote, the judge, and the two that were spares.
        self.assertEqual(len(processes_below(worker.process.pid)), 4)
        for runner in opened[:2]:
            self.assertEqual(worker.ask("close", runner=runner)["done"], {})
        # What was taken is there again, and one more for what is judged; it is forked after the answer.
        self.assertIn("done", worker.open_source(RIGHT, opened[2]))
        until = time.monotonic() + 60
        while (count := len(processes_below(worker.process.pid))) != 5 and time.monotonic() < until:
            time.sleep(0.02)
        self.assertEqual(count, 5)

    def test_compiling_ahead_runs_the_entry_and_says_nothing(self) -> None:
        worker = self.started()
        fields = {"inputs": [tensor("x", [8, 8])], "outputs": [], "wall_s": 9.0}
        fields["arguments"] = [{"parameter": "x", "input": "x"}]
        for source in (RIGHT, "def kernel_fn(x):\n    raise ValueError(float(x.sum()))\n"):
            runner = worker.fresh("runner")
            self.assertIn("done", worker.open_source(source, runner))
            self.assertEqual(worker.ask("compile", runner=runner, **fields)["done"], {})
        dies = worker.fresh("runner")
        worker.open_source("import os\ndef kernel_fn(x):\n    os._exit(3)\n", dies)
        self.assertEqual(worker.ask("compile", runner=dies, **fields)["died"]["status"], 3)
        self.assertEqual(worker.ask("compile", runner="none", **fields)["failed"]["code"], "unknown-runner")
        _, compared = self.ran(worker, RIGHT)
        self.assertEqual(compared["outputs"][0]["violations"], 0)

    def test_memory_that_cannot_be_opened(self) -> None:
        worker = self.started(WARPSMITH_FAKE_GPU_FAULT="ipc")
        warm = worker.event("warm")["device"]
        self.assertEqual(warm["transport"], "host")
        self.assertIn("invalid device context", warm["transport_reason"])
        _, compared = self.ran(worker, RIGHT)
        self.assertEqual(compared["outputs"][0]["violations"], 0)

    def test_what_is_written_beside_tensors(self) -> None:
        worker = self.started()
        beside = (
            "import ctypes, torch\n"
            "def scribble(tensor, at):\n"
            "    byte = ctypes.c_ubyte.from_address(tensor.data_ptr() + at)\n"
            "    byte.value = (byte.value + 1) % 256\n"
            "def kernel_fn(x):\n"
            "    scribble(x, -1)\n"
            "    y = torch.empty_like(x)\n"
            "    scribble(y, 256)\n"
            "    torch.mul(x, 2, out=y)\n"
            "    return y\n"
        )
        done, compared = self.ran(worker, beside)
        self.assertEqual(compared["written_outside"], ["x"])
        (finding,) = done["findings"]
        self.assertEqual((finding["kind"], finding["place"]["line"]), ("out-of-bounds-store", 7))
        self.assertIn("wrote 1 byte behind", finding["message"])

    def test_destination_passing_and_unwritten(self) -> None:
        for environment in ({}, {"WARPSMITH_TRANSPORT": "host"}):
            worker = self.started(**environment)
            arguments = [{"parameter": "x", "input": "x"}, {"parameter": "y", "output": "y"}]
            source = "def kernel_fn(x, y):\n    y[:7] = x[:7] * 2\n"
            _, compared = self.ran(worker, source, arguments=arguments)
            (errors,) = compared["outputs"]
            self.assertEqual((errors["violations"], errors["unwritten"]), (0, 8))
            runner = worker.fresh("runner")
            worker.open_source(source, runner)
            case = worker.prepare("double", [tensor("x", [8, 8])], [output("y", [8, 8])])
            for _ in range(3):
                done = worker.run_case(runner, case, arguments=arguments)["done"]
                self.assertEqual(done["outputs"][0]["returned_before"], False)

    def test_other_values_in_the_same_memory(self) -> None:
        for environment in ({}, {"WARPSMITH_TRANSPORT": "host"}):
            worker = self.started(**environment)
            runner = worker.fresh("runner")
            worker.open_source("last = []\ndef kernel_fn(x):\n    return x * 2\n", runner)
            case = worker.prepare("double", [tensor("x", [8, 8])], [output("y", [8, 8])])
            for seed in (8, 9):
                self.assertIn("done", worker.run_case(runner, case, hold=True))
                self.assertEqual(worker.compare(case)["done"]["outputs"][0]["violations"], 0)
                repeated = worker.ask("repeat", case=case)["done"]["outputs"][0]
                self.assertEqual(repeated["differing"] == 0, seed == 8)
                self.assertIn("done", worker.ask("redraw", case=case, seed=seed))
                recopied = worker.ask("recopy", runner=runner, case=case, wall_s=9.0)
                self.assertEqual(recopied["done"], {"copied": [True]})

    def test_offsets_only(self) -> None:
        worker = self.started()
        runner = worker.fresh("runner")
        worker.open_source("def kernel_fn(x):\n    return x.sum()\n", runner)
        big = tensor("x", [1 << 16], fill="untouched")
        case = worker.prepare("double", [big], [output("y", [1 << 16])])
        options = {"max_programs": None, "compare_values": False}
        self.assertIn("done", worker.run_case(runner, case, interpreter=options))
        self.assertEqual(worker.compare(case)["failed"]["code"], "not-comparable")

    def test_a_foreign_reference_in_float64(self) -> None:
        worker = self.started()
        runner, reference = worker.fresh("runner"), worker.fresh("runner")
        worker.open_source(RIGHT, runner)
        worker.open_source("def kernel_fn(x):\n    return x.float() * 2\n", reference)
        case = worker.prepare("double", [tensor("x", [8, 8])], [output("y", [8, 8])])
        self.assertIn("done", worker.run_case(runner, case))
        truth: dict[str, Any] = {"perturbed": []}
        for name, change in (("float64", "widened"), ("in_dtype", "same")):
            made = worker.ask(
                "derive", case=name, of=case, change=change, draw=0, outputs=[output("y", [8, 8])], wall_s=9.0
            )
            self.assertEqual(made["done"], {"possible": True})
            self.assertIn("done", worker.run_case(reference, name, widened=change == "widened"))
            truth[name] = name
        compared = worker.compare(case, truth=truth)
        self.assertEqual(compared["done"]["outputs"][0]["violations"], 0)

    def test_no_memory_for_a_case(self) -> None:
        worker = self.started()
        huge = worker.ask(
            "prepare",
            case="huge",
            definition="double",
            seed=1,
            inputs=[tensor("x", [1 << 30])],
            outputs=[output("y", [1 << 30])],
            wall_s=60.0,
        )
        self.assertEqual(huge["failed"]["code"], "out-of-memory")
        _, compared = self.ran(worker, RIGHT)
        self.assertEqual(compared["outputs"][0]["violations"], 0)

    def test_an_error_that_ends_the_context(self) -> None:
        worker = self.started()
        runner = worker.fresh("runner")
        words = "an illegal memory access was encountered"
        fault = f"os.environ['WARPSMITH_FAKE_GPU_ERROR'] = {words!r}"
        source = f"import os\ndef kernel_fn(x):\n    {fault}\n    return x\n"
        worker.open_source(source, runner)
        case = worker.prepare("double", [tensor("x", [8, 8])], [output("y", [8, 8])])
        raised = worker.run_case(runner, case)["raised"]
        self.assertEqual((raised["code"], raised["place"]), ("illegal-access", None))
        self.assertIn(words, raised["message"])
        died = worker.run_case(runner, case)["died"]
        self.assertEqual((died["reason"], died["status"]), ("exit", 17))
        _, compared = self.ran(worker, RIGHT)
        self.assertEqual(compared["outputs"][0]["violations"], 0)

    def test_a_released_case_that_still_runs_keeps_its_memory(self) -> None:
        worker = self.started()
        runner = worker.fresh("runner")
        worker.open_source("import time\ndef kernel_fn(x):\n    time.sleep(30)\n", runner)
        case = worker.prepare("double", [tensor("x", [8, 8])], [output("y", [8, 8])])
        running = worker.send("run", **worker.run_fields(runner, case))
        released = worker.send("release", case=case)
        worker.send("close", runner=runner)
        self.assertEqual(worker.reply_to(running)["died"]["reason"], "killed")
        self.assertEqual(worker.reply_to(released)["done"], {})
        _, compared = self.ran(worker, RIGHT)
        self.assertEqual(compared["outputs"][0]["violations"], 0)

    def test_blocking_takes_a_process_of_its_own(self) -> None:
        worker = self.started()
        runner = worker.fresh("runner")
        waits = "assert os.environ['CUDA_LAUNCH_BLOCKING'] == '1'"
        source = f"import os\ndef kernel_fn(x):\n    {waits}\n    return x * 2\n"
        worker.open_source(source, runner, blocking=True)
        case = worker.prepare("double", [tensor("x", [8, 8])], [output("y", [8, 8])])
        self.assertIn("done", worker.run_case(runner, case))

    def test_what_is_written_beside_tensors_before_an_exception(self) -> None:
        worker = self.started()
        runner = worker.fresh("runner")
        source = (
            "import ctypes, torch\n"
            "def kernel_fn(x):\n"
            "    y = torch.empty_like(x)\n"
            "    byte = ctypes.c_ubyte.from_address(y.data_ptr() - 1)\n"
            "    byte.value ^= 1\n"
            "    raise ValueError('so be it')\n"
        )
        worker.open_source(source, runner)
        case = worker.prepare("double", [tensor("x", [8, 8])], [output("y", [8, 8])])
        raised = worker.run_case(runner, case)["raised"]
        self.assertEqual((raised["code"], raised["place"]["line"]), ("raised", 6))
        self.assertEqual([finding["kind"] for finding in raised["findings"]], ["out-of-bounds-store"])

    def test_memory_left(self) -> None:
        state = self.started().ask("device-state")["done"]
        self.assertEqual(state, {"free_bytes": 1 << 29, "total_bytes": 1 << 30})


if __name__ == "__main__":
    unittest.main()
