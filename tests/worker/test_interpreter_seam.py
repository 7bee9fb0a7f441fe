"""The seam to the interpreter: launches are reported, and a fault of ours is never a verdict."""

import os
import unittest

from warpsmith_worker import faults, interpreter
from warpsmith_worker.errors import UserFiles

from .client import output, tensor
from .test_cases import WorkerTest

KERNEL = """
import torch, triton, triton.language as tl

DEVICE = triton.runtime.driver.active.get_active_torch_device()

@triton.jit
def doubling(x_ptr, y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < size
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * 2, mask=mask)

def kernel_fn(x):
    assert x.is_cuda and x.device == DEVICE
    y = torch.empty_like(x)
    doubling[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
    return y
"""


class Launches(WorkerTest):
    def test_a_launch_is_reported_and_compared(self) -> None:
        runner, case = self.opened(KERNEL), self.case([5, 13])
        done = self.worker.run_case(runner, case)["done"]
        (launch,) = done["launches"]
        self.assertEqual((launch["kernel"], launch["grid"]), ("doubling", [5, 1, 1]))
        self.assertEqual((launch["programs"], launch["programs_run"]), (5, 5))
        self.assertTrue(launch["file"].endswith("kernel.py") and "copy" not in launch["file"])
        self.assertTrue(done["outputs"][0]["written_by_single_launch"])
        (errors,) = self.compared(case)["outputs"]
        self.assertEqual((errors["violations"], errors["unwritten"]), (0, 0))

    def test_a_sampled_run_compares_what_was_written(self) -> None:
        runner, case = self.opened(KERNEL), self.case([100, 16])
        options = {"max_programs": 6, "compare_values": True}
        done = self.worker.run_case(runner, case, interpreter=options)["done"]
        self.assertEqual(done["launches"][0]["programs_run"], 6)
        (errors,) = self.compared(case, written_only=True)["outputs"]
        self.assertEqual((errors["elements_compared"], errors["unwritten"]), (6 * 16, 94 * 16))
        self.assertEqual(errors["violations"], 0)

    def test_offsets_of_tensors_larger_than_memory(self) -> None:
        runner = self.opened(KERNEL, address_space_bytes=1 << 40)
        size = (1 << 31) + 40
        inputs = [tensor("x", [size], "float16", fill="untouched")]
        case = self.worker.prepare("double", inputs, [output("y", [size], "float16")])
        options = {"max_programs": 3, "compare_values": False}
        reply = self.worker.run_case(runner, case, interpreter=options)
        # `program_id * BLOCK` wraps at 2^31, which a kernel of this size must not do.
        self.assertIn("done", reply)
        self.assertTrue(reply["done"]["findings"], "the wrapped offsets are found")

    def test_progress_is_forwarded_but_not_too_often(self) -> None:
        runner, case = self.opened(KERNEL), self.case([20_000])
        self.worker.events.clear()
        done = self.worker.run_case(runner, case)["done"]
        events = [event for event in self.worker.events if event["ev"] == "progress"]
        self.assertTrue(events)
        self.assertLessEqual(len(events), done["run_ms"] / 100 + 1)
        for event in events:
            self.assertEqual((event["case"], event["programs"]), (case, 1250))
            self.assertLessEqual(event["programs_done"], 1250)


class OurFaults(WorkerTest):
    def raised(self, sabotage: str) -> dict:
        source = (
            f"from warpsmith_worker import interpreter\n{sabotage}\ndef kernel_fn(x):\n    return x * 2\n"
        )
        reply = self.worker.run_case(self.opened(source), self.case([2]))
        self.assertIn("raised", reply)
        return reply["raised"]

    def test_a_failing_interpreter_could_not_run(self) -> None:
        for sabotage in (
            "interpreter.Session.report = lambda self: 1 / 0",
            "interpreter.Session.report = lambda self: {'launches': 3}",
            "interpreter.Session.report = lambda self: {'launches': [], 'findings': [{'kind': 'odd'}]}",
            "interpreter.Session.__enter__ = lambda self: 1 / 0",
            "interpreter.Session.__exit__ = lambda *args: 1 / 0",
            "interpreter.Session.__init__ = lambda *args: None",
        ):
            self.assertEqual(self.raised(sabotage)["code"], "unsupported", sabotage)

    def test_a_lacking_feature_decides_whatever_follows(self) -> None:
        lacking = "{'code': 'libdevice', 'message': 'no libdevice', 'place': None}"
        report = f"{{'launches': [], 'findings': [], 'unsupported': {lacking}}}"
        source = f"""
            from warpsmith_worker import interpreter
            interpreter.Session.report = lambda self: {report}
            def kernel_fn(x):
                raise ValueError("a consequence")
        """
        raised = self.worker.run_case(self.opened(source), self.case([2]))["raised"]
        self.assertEqual((raised["code"], raised["message"]), ("unsupported", "no libdevice"))


class Classification(unittest.TestCase):
    """Whose exception it is, told from its frames."""

    FILES = UserFiles("/cache/k.py", "/w/k.py", ["/w"])
    OWN = os.path.dirname(faults.__file__)

    def caught(self, *frames: str) -> BaseException:
        """An exception raised in the last of these files, each called by the one before."""
        body = "raise ValueError('x')"
        names: dict = {}
        for filename in reversed(frames):
            exec(compile(f"def call():\n    {body}", filename, "exec"), names)
            names = {"inner": names["call"]}
            body = "inner()"
        try:
            names["inner"]()
        except ValueError as error:
            return error
        raise AssertionError

    def code(self, *frames: str) -> str:
        return faults.describe_fault(self.caught(*frames), self.FILES)["code"]

    def test_the_innermost_of_the_two_decides(self) -> None:
        hook = f"{self.OWN}/interpreter/hooks.py"
        candidate = f"{self.OWN}/candidate.py"
        self.assertEqual(self.code(candidate, "/cache/k.py"), "raised")
        self.assertEqual(self.code(candidate, "/cache/k.py", "/lib/triton/jit.py", hook), "unsupported")
        self.assertEqual(self.code(candidate, "/cache/k.py", hook, "/lib/numpy/core.py"), "unsupported")
        self.assertEqual(self.code(candidate, "/cache/k.py", hook, "/cache/k.py"), "raised")
        self.assertEqual(self.code(candidate, "/cache/k.py", "/lib/torch/functional.py"), "raised")
        self.assertEqual(self.code(candidate), "raised")
        self.assertEqual(self.code(candidate, f"{self.OWN}/cuda_shim.py"), "unsupported")

    def test_deliberate_exceptions_of_the_interpreter(self) -> None:
        place = {"file": "/w/k.py", "line": 7}
        lacking = interpreter.InterpreterUnsupported("inline assembly", "inline-asm", place)
        raised = faults.describe_fault(lacking, self.FILES)
        self.assertEqual((raised["code"], raised["place"]), ("unsupported", place))
        error = RuntimeError("wrapped by the user")
        error.__cause__ = lacking
        self.assertEqual(faults.describe_fault(error, self.FILES)["code"], "unsupported")
        broken = interpreter.TritonCompileError("not a power of two", place, [{"file": "/w/k.py", "line": 9}])
        raised = faults.describe_fault(broken, self.FILES)
        self.assertEqual((raised["code"], raised["place"]), ("compile-error", place))
        self.assertEqual(raised["called_from"][0]["line"], 9)


if __name__ == "__main__":
    unittest.main()
