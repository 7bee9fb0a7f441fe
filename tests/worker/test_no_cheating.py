"""What a candidate's process may not do unseen: files, threads, libraries, idle kernels, late writes."""

import threading
import unittest
from typing import Any
from unittest import mock

import torch
from warpsmith_worker import case_truth, inputs, judge, library, shared, threads
from warpsmith_worker.errors import UserFiles

from .client import DOUBLE, NORMAL, TOLERANCE, Worker, output, tensor

KERNEL = """
import threading, time
import torch, triton
import triton.language as tl

@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 2 * tl.load(x + at, mask=at < n), mask=at < n)

def double(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""


def setUpModule() -> None:
    WithWorker.worker = Worker()
    unittest.addModuleCleanup(WithWorker.worker.close)
    WithWorker.worker.define("double", DOUBLE)


class WithWorker(unittest.TestCase):
    worker: Worker

    def case(self) -> str:
        return self.worker.prepare("double", [tensor("x", [5, 67])], [output("y", [5, 67])])

    def opened(self, source: str, **changes: Any) -> str:
        runner = self.worker.fresh("runner")
        reply = self.worker.open_source(source, runner, **changes)
        self.assertIn("done", reply, reply)
        return runner

    def ran(self, body: str, **interpreter: Any) -> tuple[dict[str, Any], str]:
        case = self.case()
        runner = self.opened(f"{KERNEL}\n{body}")
        options = {"max_programs": None, "compare_values": True, **interpreter}
        return self.worker.run_case(runner, case, interpreter=options), case


class Files(WithWorker):
    def test_the_text_of_the_request_runs_whatever_the_copy_holds(self) -> None:
        text = (
            "import inspect\n\ndef kernel_fn(new):\n    return 'naïve'\n\n"
            "assert 'new' in inspect.getsource(kernel_fn)\n"
        )
        path = self.worker.write("def kernel_fn(old):\n    pass\n")
        reply = self.worker.open_file(path, text=text)
        self.assertEqual(reply["done"]["parameters"][0]["name"], "new", reply)

    def test_an_error_in_it_has_its_line(self) -> None:
        path = self.worker.write("def kernel_fn(old):\n    pass\n")
        raised = self.worker.open_file(path, text="x = 1\n\nraise ValueError(x)\n")["raised"]
        self.assertEqual(raised["place"], {"file": str(path), "line": 3})
        self.assertIn("raise ValueError(x)", raised["traceback"])

    def test_a_kernel_in_it_runs(self) -> None:
        case = self.case()
        path = self.worker.write("raise AssertionError('the copy was imported')\n")
        runner = self.worker.fresh("runner")
        source = f"{KERNEL}\ndef kernel_fn(x):\n    return double(x)\n"
        self.assertIn("done", self.worker.open_file(path, runner, text=source))
        (launch,) = self.worker.run_case(runner, case)["done"]["launches"]
        self.assertEqual((launch["file"], launch["line"]), (str(path), 7))


class Threads(WithWorker):
    def test_a_thread_that_outlives_its_call_is_told(self) -> None:
        body = """
def kernel_fn(x):
    threading.Thread(target=lambda: time.sleep(60), daemon=True).start()
    return double(x)
"""
        reply, _ = self.ran(body)
        self.assertEqual(reply["raised"]["code"], "left-running", reply)

    def test_one_that_the_call_waits_for_runs_on_the_same_gpu(self) -> None:
        body = """
def kernel_fn(x):
    found = []
    worker = threading.Thread(target=lambda: found.append(double(x)))
    worker.start()
    worker.join()
    assert found[0].is_cuda
    return found[0]
"""
        reply, case = self.ran(body)
        self.assertIn("done", reply, reply)
        self.assertEqual(self.worker.compare(case)["done"]["outputs"][0]["violations"], 0)

    def test_one_that_was_there_before_is_no_matter(self) -> None:
        body = """
threading.Thread(target=lambda: time.sleep(60), daemon=True).start()

def kernel_fn(x):
    return double(x)
"""
        reply, _ = self.ran(body)
        self.assertIn("done", reply, reply)

    def test_only_threads_with_code_of_the_user_count(self) -> None:
        done = threading.Event()
        waiting = threading.Thread(target=done.wait)
        waiting.start()
        self.addCleanup(waiting.join)
        self.addCleanup(done.set)
        nobody, everybody = UserFiles("/k.py", "/k.py"), mock.Mock(shown=lambda _name: "/k.py")
        self.assertEqual(threads.of_user(nobody), set())
        self.assertIn(waiting.ident, threads.of_user(everybody))
        self.assertNotIn(threading.get_ident(), threads.of_user(everybody))


class Libraries(WithWorker):
    def test_however_it_is_spelled(self) -> None:
        for call, name in (
            ("torch.softmax(x, -1)", "softmax"),
            ("x.softmax(-1)", "softmax"),
            ("torch.nn.functional.softmax(x, dim=-1)", "softmax"),
            ("torch.special.softmax(x, -1)", "softmax"),
            ("torch.ops.aten._softmax(x, -1, False)", "softmax"),
            ("torch.ops.aten._softmax.default(x, -1, False)", "softmax"),
            ("torch.nn.Softmax(-1)(x)", "softmax"),
            ("x @ x.T", "matmul"),
            ("x.__rmatmul__(x.T)", "matmul"),
            ("torch.nn.functional.linear(x, x)", "linear"),
            ("torch.nn.functional.layer_norm(x, (67,))", "layer_norm"),
            ("torch.nn.functional.scaled_dot_product_attention(*[x[None, None]] * 3)", None),
        ):
            reply, _ = self.ran(f"def kernel_fn(x):\n    {call}\n    return double(x)\n")
            self.assertIn("done", reply, (call, reply))
            self.assertIn(name or "scaled_dot_product_attention", reply["done"]["library"], call)

    def test_elementwise_work_and_sums_are_none(self) -> None:
        body = "def kernel_fn(x):\n    (x.exp() / x.sum(-1, keepdim=True)).half()\n    return double(x)\n"
        self.assertEqual(self.ran(body)[0]["done"]["library"], [])

    def test_each_call_has_its_own(self) -> None:
        body = """
calls = []
def kernel_fn(x):
    calls.append(0)
    if len(calls) == 1:
        torch.softmax(x, -1)
    return double(x)
"""
        case, runner = self.case(), self.opened(f"{KERNEL}\n{body}")
        found = [self.worker.run_case(runner, case)["done"]["library"] for _ in range(2)]
        self.assertEqual(found, [["softmax"], []])

    def test_plain_names(self) -> None:
        self.assertEqual(library.plain_name(torch.Tensor.__rmatmul__), "matmul")
        self.assertEqual(library.plain_name(object()), "")


class IdleKernels(WithWorker):
    def test_launches_are_told_and_nothing_is_stored(self) -> None:
        reply, case = self.ran("def kernel_fn(x):\n    return double(x)\n", idle_kernels=True)
        (launch,) = reply["done"]["launches"]
        self.assertEqual((launch["programs"], launch["programs_run"]), (6, 0))
        self.assertEqual(self.worker.compare(case)["done"]["outputs"][0]["unwritten"], 335)

    def test_what_needs_no_kernel_is_right_all_the_same(self) -> None:
        reply, case = self.ran("def kernel_fn(x):\n    double(x)\n    return x + x\n", idle_kernels=True)
        self.assertIn("done", reply)
        self.assertEqual(self.worker.compare(case)["done"]["outputs"][0]["violations"], 0)


class OneElement(WithWorker):
    def test_a_case_with_one_element_changed(self) -> None:
        body = """
seen = []
def kernel_fn(x):
    seen.append(x.clone())
    if len(seen) > 1:
        assert (seen[0] != seen[-1]).sum() == 1 - len(seen) % 2
    return double(x)
"""
        case, runner = self.case(), self.opened(f"{KERNEL}\n{body}")
        for changed in (None, 3, None, 4):
            self.worker.ask("redraw", case=case, seed=7, changed=changed)
            reply = self.worker.run_case(runner, case)
            self.assertIn("done", reply, reply)
            self.assertEqual(self.worker.compare(case)["done"]["outputs"][0]["violations"], 0)

    def test_one_element_moves_far_within_what_may_be_drawn(self) -> None:
        for dtype, shape in ((torch.float32, (5, 67)), (torch.bfloat16, (3,)), (torch.float16, ())):
            for seed in range(20):
                values = torch.empty(shape, dtype=dtype)
                inputs.fill_tensor(values, NORMAL, 1, 0)
                changed = values.clone()
                inputs.change_one(changed, NORMAL, seed, 0)
                far = (changed.double() - values.double()).abs()
                self.assertEqual(int((far > 0).sum()), 1)
                self.assertTrue(1.0 < float(far.max()) < 12.0, float(far.max()))

    def test_strides_and_nothing(self) -> None:
        values = torch.zeros(8, 6).t()[::2]
        inputs.change_one(values, NORMAL, 5, 0)
        self.assertEqual(int((values != 0).sum()), 1)
        inputs.change_one(torch.empty(0, 3), NORMAL, 5, 0)


class LateWrites(unittest.TestCase):
    """Whoever still has the outputs' memory may write there: the judge compares what it copied before."""

    def compared(self, write: Any) -> dict[str, Any]:
        own = judge.Judge()
        request = {"definition": "double", "reference": DOUBLE, "reference_f64": None, "is_named": False}
        self.assertEqual(own.answer({"op": "define", **request})[0], {"done": {}})
        case = {"op": "prepare", "case": "c", "definition": "double", "seed": 7}
        own.answer({**case, "inputs": [tensor("x", [4])], "outputs": [output("y", [4])]})
        own.close_sent()
        made = own.cases["c"]
        true_truths = case_truth.truths

        def truths(*args: Any) -> Any:
            found = true_truths(*args)
            write(made, found)
            return found

        asked = {"op": "compare", "case": "c", "tolerances": [TOLERANCE], "written_only": False}
        with mock.patch.object(case_truth, "truths", truths):
            answer, _ = own.answer({**asked, "null_candidates": False, "exact_if_agree": False})
        return answer["done"]["outputs"][0]

    def test_what_is_written_once_the_answer_exists_is_not_compared(self) -> None:
        def write(case: Any, truths: Any) -> None:
            (item,) = case.outputs
            item.view(item.shared).copy_(truths[0].in_dtype)

        self.assertEqual(self.compared(write)["unwritten"], 4)

    def test_a_copy_of_another_memory_is_not_copied_again(self) -> None:
        here, there = torch.zeros(4, dtype=torch.uint8), torch.zeros(4, dtype=torch.uint8)
        item = shared.SharedTensor("k", "y", mock.Mock(), [1], [1], None, here)
        self.assertIsNot(item.copied(), here)
        item.far = there
        self.assertIs(item.copied(), here)


if __name__ == "__main__":
    unittest.main()
