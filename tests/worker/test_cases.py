"""Whole cases through the supervisor: prepare, run, compare."""

import textwrap
import unittest
from typing import Any

from .client import DOUBLE, JUDGE_WALL_S, SOFTMAX, TOLERANCE, Worker, output, scalar, tensor

UNTOUCHED = {"max_programs": None, "compare_values": False}


class WorkerTest(unittest.TestCase):
    """One worker for all tests of a class."""

    worker: Worker

    @classmethod
    def setUpClass(cls) -> None:
        cls.worker = Worker()
        cls.addClassCleanup(cls.worker.close)
        for name, source in (("double", DOUBLE), ("softmax", SOFTMAX)):
            reply = cls.worker.define(name, source)
            if reply.get("done") != {}:
                raise AssertionError(reply)

    def opened(self, source: str, **changes: Any) -> str:
        runner = self.worker.fresh("runner")
        reply = self.worker.open_source(source, runner, **changes)
        self.assertIn("done", reply)
        self.addCleanup(self.worker.ask, "close", runner=runner)
        return runner

    def case(
        self, shape: list[int], dtype: str = "float32", definition: str = "double", **changes: Any
    ) -> str:
        case = self.worker.prepare(
            definition, [tensor("x", shape, dtype, **changes)], [output("y", shape, dtype)]
        )
        self.addCleanup(self.worker.ask, "release", case=case)
        return case

    def ran(self, source: str, case: str, **changes: Any) -> list[dict[str, Any]]:
        """Outputs of a run that must not raise."""
        reply = self.worker.run_case(self.opened(source), case, **changes)
        self.assertIn("done", reply)
        return reply["done"]["outputs"]

    def compared(self, case: str, **changes: Any) -> dict[str, Any]:
        reply = self.worker.compare(case, **changes)
        self.assertIn("done", reply)
        return reply["done"]


class Verdicts(WorkerTest):
    def test_right_kernel_in_every_float_dtype(self) -> None:
        runner = self.opened("import torch\ndef kernel_fn(x):\n    return torch.softmax(x, -1)")
        for dtype in ("float32", "float16", "bfloat16"):
            case = self.case([7, 129], dtype, "softmax")
            reply = self.worker.run_case(runner, case)
            (returned,) = reply["done"]["outputs"]
            self.assertEqual(returned["type_name"], "torch.Tensor")
            self.assertEqual((returned["dtype"], returned["shape"]), (dtype, [7, 129]))
            self.assertEqual((returned["strides"], returned["copied"]), ([129, 1], True))
            self.assertIsNone(returned["aliases_input"])
            ulp = {**TOLERANCE, "absolute_ulp": 2.0**-7}
            (errors,) = self.compared(case, tolerance=ulp, null_candidates=True)["outputs"]
            self.assertEqual((errors["violations"], errors["unwritten"]), (0, 0))
            self.assertEqual(errors["elements_compared"], 7 * 129)
            nulls = {null["name"]: null["violations"] for null in errors["null_candidates"]}
            self.assertEqual(set(nulls), {"zeros", "mean", "other-seed", "coarse-inputs"})
            for name in ("zeros", "mean", "other-seed"):
                self.assertGreater(nulls[name], 7 * 129 * 0.9)

    def test_wrong_values_are_found(self) -> None:
        source = "def kernel_fn(x):\n    y = x * 2\n    y[3, 5] += 1\n    return y"
        case = self.case([8, 8])
        self.ran(source, case)
        (errors,) = self.compared(case)["outputs"]
        self.assertEqual((errors["name"], errors["violations"]), ("y", 1))
        self.assertEqual(errors["first"]["index"], [3, 5])

    def test_half_precision_in_a_float32_task_is_coarse(self) -> None:
        case = self.case([64, 64])
        self.ran("def kernel_fn(x):\n    return (x.bfloat16() * 2).float()", case)
        (errors,) = self.compared(case, null_candidates=True)["outputs"]
        self.assertGreater(errors["violations"], 1000)
        nulls = {null["name"]: null["violations"] for null in errors["null_candidates"]}
        self.assertGreater(nulls["coarse-inputs"], 1000)

    def test_absurd_tolerance_accepts_impostors(self) -> None:
        case = self.case([4, 4])
        self.ran("def kernel_fn(x):\n    return x * 2", case)
        absurd = {**TOLERANCE, "row_rms_factor": 1e9}
        (errors,) = self.compared(case, tolerance=absurd, null_candidates=True)["outputs"]
        self.assertEqual([null["violations"] for null in errors["null_candidates"]], [0, 0, 0, 0])

    def test_a_single_number_has_the_impostors_that_it_can_tell_apart(self) -> None:
        self.worker.define("total", "def run(x):\n    return x.sum()")
        runner = self.opened("def kernel_fn(x):\n    return x.sum()")
        for dtype, names in (
            ("float32", {"zeros", "other-seed", "coarse-inputs"}),
            ("bfloat16", {"zeros", "other-seed"}),
        ):
            case = self.worker.prepare("total", [tensor("x", [1000], dtype)], [output("y", [], dtype)])
            self.addCleanup(self.worker.ask, "release", case=case)
            self.worker.run_case(runner, case)
            ulp = {**TOLERANCE, "absolute_ulp": 2.0**-7}
            (errors,) = self.compared(case, tolerance=ulp, null_candidates=True)["outputs"]
            nulls = {null["name"]: null["violations"] for null in errors["null_candidates"]}
            self.assertEqual(set(nulls), names, dtype)
            self.assertGreater(nulls["other-seed"], 8, "one of sixteen draws may be close by chance")

    def test_unwritten_elements(self) -> None:
        for make in (
            "torch.empty_like(x)",
            "torch.empty(x.shape, device='cuda')",
            "torch.empty_strided(x.shape, x.stride(), device=x.device)",
            "x.new_empty(x.shape)",
            "torch.Tensor(6, 10)",
            "x.new(6, 10)",
        ):
            case = self.case([6, 10])
            self.ran(
                f"import torch\ndef kernel_fn(x):\n    y = {make}\n    y[:5] = x[:5] * 2\n    return y", case
            )
            (errors,) = self.compared(case)["outputs"]
            self.assertEqual(errors["unwritten"], 10, make)
            self.assertEqual((errors["first_unwritten"], errors["last_unwritten"]), ([5, 0], [5, 9]))
            self.assertEqual((errors["violations"], errors["elements_compared"]), (0, 50))

    def test_nothing_returned_leaves_everything_unwritten(self) -> None:
        case = self.case([6, 10])
        (returned,) = self.ran("def kernel_fn(x):\n    pass", case)
        self.assertEqual((returned["type_name"], returned.get("copied", False)), ("NoneType", False))
        self.assertEqual(self.compared(case)["outputs"][0]["unwritten"], 60)

    def test_changed_inputs(self) -> None:
        case = self.case([6, 10])
        self.ran("def kernel_fn(x):\n    y = x * 2\n    x[0, 0] += 1\n    return y", case)
        found = self.compared(case)
        self.assertEqual(found["inputs_changed"], ["x"])
        # The truth is that of the inputs as they were.
        self.assertEqual(found["outputs"][0]["violations"], 0)

    def test_a_second_run_starts_afresh(self) -> None:
        case = self.case([6, 10])
        self.ran("def kernel_fn(x):\n    y = x * 2\n    x.zero_()\n    return y", case)
        self.assertEqual(self.compared(case)["inputs_changed"], ["x"])
        self.ran("def kernel_fn(x):\n    return None", case)
        found = self.compared(case)
        self.assertEqual((found["inputs_changed"], found["outputs"][0]["unwritten"]), ([], 60))
        self.ran("def kernel_fn(x):\n    return x + x", case)
        self.assertEqual(self.compared(case)["outputs"][0]["violations"], 0)

    def test_integer_outputs(self) -> None:
        self.worker.define("argmax", "def run(x):\n    return x.argmax(-1), x > 0")
        case = self.worker.prepare(
            "argmax", [tensor("x", [9, 33])], [output("i", [9], "int64"), output("m", [9, 33], "bool")]
        )
        self.ran("def kernel_fn(x):\n    return [x.argmax(-1), x > 0]", case)
        first, second = self.compared(case, outputs=2, null_candidates=True)["outputs"]
        self.assertEqual((first["violations"], second["violations"]), (0, 0))
        self.assertEqual((first["elements_compared"], second["elements_compared"]), (9, 297))
        self.ran("def kernel_fn(x):\n    return (x.argmax(-1) + 1, x <= 0)", case)
        first, second = self.compared(case, outputs=2)["outputs"]
        self.assertEqual((first["violations"], second["violations"]), (9, 297))

    def test_a_named_reference_must_be_near_its_own_float64(self) -> None:
        far_off = "def run(x):\n    return x if x.dtype == torch.float64 else x * -2"
        for is_named in (False, True):
            self.worker.define("far", f"import torch\n{far_off}", is_named=is_named)
            case = self.worker.prepare("far", [tensor("x", [4, 33])], [output("y", [4, 33])])
            self.ran("def kernel_fn(x):\n    return x + 0", case)
            answer = self.worker.compare(case, 1)
            self.assertEqual("failed" in answer, is_named, answer)
            if is_named:
                self.assertEqual(answer["failed"]["code"], "reference-failed")

    def test_zero_size_shapes(self) -> None:
        runner = self.opened("def kernel_fn(x):\n    return x * 2")
        for shape in ([0, 8], [8, 0], [0], [0, 0]):
            case = self.case(shape)
            (returned,) = self.worker.run_case(runner, case)["done"]["outputs"]
            self.assertEqual((returned["shape"], returned["copied"]), (shape, True))
            (errors,) = self.compared(case, null_candidates=True)["outputs"]
            self.assertEqual((errors["elements"], errors["violations"]), (0, 0))

    def test_scalars_and_zero_dimensions(self) -> None:
        self.worker.define(
            "mean", "def run(x, scale, mode):\n    return x.mean() * scale if mode is None else x"
        )
        case = self.worker.prepare(
            "mean",
            [tensor("x", [5]), scalar("scale", 2.5), scalar("mode", None)],
            [output("y", [])],
        )
        arguments = [{"parameter": name, "input": name} for name in ("x", "scale", "mode")]
        source = (
            "def kernel_fn(x, *, scale, mode='other'):\n    assert mode is None\n    return x.mean() * scale"
        )
        self.ran(source, case, arguments=arguments)
        (errors,) = self.compared(case)["outputs"]
        self.assertEqual((errors["violations"], errors["elements_compared"]), (0, 1))


class Claims(WorkerTest):
    def returned(self, source: str, shape: tuple[int, ...] = (4, 6)) -> dict[str, Any]:
        (found,) = self.ran(f"import torch\n{source}", self.case(list(shape)))
        return found

    def test_wrong_dtype_or_shape_is_not_copied(self) -> None:
        found = self.returned("def kernel_fn(x):\n    return (x * 2).half()")
        self.assertEqual((found["dtype"], found["copied"]), ("float16", False))
        found = self.returned("def kernel_fn(x):\n    return (x * 2).view(-1)")
        self.assertEqual((found["shape"], found["copied"]), ([24], False))

    def test_subclasses_and_other_types_are_named(self) -> None:
        subclass = (
            "class Sneaky(torch.Tensor): pass\ndef kernel_fn(x):\n    return (x * 2).as_subclass(Sneaky)"
        )
        found = self.returned(subclass)
        self.assertEqual((found["type_name"], found["dtype"]), ("Sneaky", None))
        self.assertFalse(found.get("copied", False))
        self.assertEqual(self.returned("def kernel_fn(x):\n    return 1.0")["type_name"], "float")
        self.assertEqual(self.returned("def kernel_fn(x):\n    return {'y': x}")["type_name"], "dict")
        found = self.returned("def kernel_fn(x):\n    return torch.nn.Parameter(x * 2)")
        self.assertEqual((found["type_name"], found["dtype"]), ("Parameter", None))
        for odd in ("(x * 2).to_sparse()", "torch.empty(4, 6, device='meta')"):
            self.assertIsNone(self.returned(f"def kernel_fn(x):\n    return {odd}")["dtype"])

    def test_aliases_are_named(self) -> None:
        for source in ("return x", "return x[1:]", "x.mul_(2)\n    return x", "return x.detach().t()"):
            self.assertEqual(self.returned(f"def kernel_fn(x):\n    {source}")["aliases_input"], "x", source)
        self.assertIsNone(self.returned("def kernel_fn(x):\n    return x.clone()")["aliases_input"])

    def test_memory_of_an_earlier_result_is_named(self) -> None:
        source = """
            import torch
            kept = {}
            def kernel_fn(x):
                fresh = torch.empty_like(x)
                y = kept.setdefault(x.shape, fresh) if x.shape[0] == 4 else fresh
                return y.copy_(x * 2)
        """
        runner = self.opened(textwrap.dedent(source))
        told = []
        for shape in ([4, 2], [5, 2], [4, 2], [5, 2]):
            reply = self.worker.run_case(runner, self.case(shape))
            told.append(reply["done"]["outputs"][0]["returned_before"])
        self.assertEqual(told, [False, False, True, False])

    def test_results_on_the_cpu_are_no_results(self) -> None:
        for made in ("torch.empty(x.shape)", "torch.zeros(x.shape).mul_(0)", "x.cpu()", "(x * 2).to('cpu')"):
            found = self.returned(f"import torch\ndef kernel_fn(x):\n    return {made}")
            self.assertEqual((found["type_name"], found["dtype"]), ("torch.Tensor on the CPU", None), made)
        moves = ".cuda()", ".to(x.device)", ".to(x)", ".to('cuda', torch.float16)", ".pin_memory()", " + x"
        for move in moves:
            found = self.returned(f"import torch\ndef kernel_fn(x):\n    return torch.zeros(x.shape){move}")
            self.assertEqual(found["type_name"], "torch.Tensor", move)

    def test_strided_and_differentiable_results_are_copied(self) -> None:
        case = self.case([5, 5])
        source = "def kernel_fn(x):\n    return (x.requires_grad_() * 2).t().contiguous().t()"
        (found,) = self.ran(source, case)
        self.assertEqual((found["strides"], found["copied"]), ([1, 5], True))
        self.assertEqual(self.compared(case)["outputs"][0]["violations"], 0)

    def test_a_copy_keeps_the_poison_of_strided_results(self) -> None:
        for dtype in ("float32", "float16", "bfloat16"):
            case = self.case([6, 6], dtype)
            self.ran("import torch\ndef kernel_fn(x):\n    return torch.empty_like(x).t()", case)
            self.assertEqual(self.compared(case)["outputs"][0]["unwritten"], 36)

    def test_too_many_outputs_are_listed(self) -> None:
        found = self.ran("def kernel_fn(x):\n    return x * 2, (x, [x * 3])", self.case([2, 2]))
        self.assertEqual([item.get("copied") for item in found], [True, False, False])

    def test_parameters(self) -> None:
        source = "def kernel_fn(x, /, weight, eps=1e-5, *rest, causal=True, **more):\n    pass"
        reply = self.worker.open_source(source, self.worker.fresh("runner"))
        self.assertEqual(
            [(item["name"], item["has_default"]) for item in reply["done"]["parameters"]],
            [
                ("x", False),
                ("weight", False),
                ("eps", True),
                ("*rest", False),
                ("causal", True),
                ("**more", False),
            ],
        )


class Layouts(WorkerTest):
    def test_values_do_not_depend_on_the_layout(self) -> None:
        source = "def kernel_fn(x):\n    return x.stride(0) * 0 + x * 2"
        for strides in ([10, 1], [1, 6], [16, 1], [40, 3]):
            case = self.case([6, 10], strides=strides)
            self.ran(source, case)
            found = self.compared(case)
            self.assertEqual((found["outputs"][0]["violations"], found["inputs_changed"]), (0, []))

    def test_strides_storage_and_guards_reach_the_candidate(self) -> None:
        case = self.case([6, 10], strides=[16, 1])
        source = """
            def kernel_fn(x):
                assert x.stride() == (16, 1)
                assert x.untyped_storage().nbytes() == 4 * (5 * 16 + 10)
                assert x.data_ptr() % 16 == 0
                # The padding between rows is poison.
                assert x.as_strided((5, 6), (16, 1), 10).isnan().all()
                return x * 2
        """
        self.ran(source, case)

    def test_overlapping_strides_are_refused(self) -> None:
        spec = tensor("x", [3, 4], strides=[2, 1])
        fields = {"definition": "double", "seed": 1, "inputs": [spec], "outputs": [output("y", [3, 4])]}
        case = self.worker.fresh("case")
        reply = self.worker.ask("prepare", case=case, wall_s=JUDGE_WALL_S, **fields)
        self.assertEqual(reply["failed"]["code"], "bad-request")
        # The case says why from then on.
        self.assertEqual(self.worker.compare(case)["failed"]["code"], "bad-request")

    def test_untouched_inputs_larger_than_memory(self) -> None:
        shape = [1 << 21, 1 << 17]
        inputs = [tensor("x", shape, "float16", fill="untouched")]
        case = self.worker.prepare("double", inputs, [output("y", shape, "float16")])
        source = "def kernel_fn(x):\n    assert x[-1, -1] == 0\n    return x"
        runner = self.opened(source, address_space_bytes=1 << 40)
        reply = self.worker.run_case(runner, case, interpreter=UNTOUCHED)
        (found,) = reply["done"]["outputs"]
        self.assertEqual((found["shape"], found.get("copied", False)), (shape, False))
        self.assertEqual(self.worker.compare(case)["failed"]["code"], "not-comparable")


class Requests(WorkerTest):
    def test_unknown_names(self) -> None:
        runner = self.opened("def kernel_fn(x):\n    return x * 2")
        case = self.case([2, 2])
        self.assertEqual(self.worker.run_case(runner, "nope")["failed"]["code"], "unknown-case")
        self.assertEqual(self.worker.run_case("nope", case)["failed"]["code"], "unknown-runner")
        self.assertEqual(self.worker.compare("nope")["failed"]["code"], "unknown-case")
        self.assertEqual(self.worker.ask("dance")["failed"]["code"], "bad-request")
        self.assertEqual(self.worker.ask("open")["failed"]["code"], "bad-request")
        fields = {"definition": "nope", "seed": 1, "inputs": [], "outputs": [], "wall_s": JUDGE_WALL_S}
        reply = self.worker.ask("prepare", case="c", **fields)
        self.assertEqual(reply["failed"]["code"], "unknown-definition")
        wrong = [{"parameter": "x", "input": "nope"}]
        self.assertEqual(self.worker.run_case(runner, case, arguments=wrong)["failed"]["code"], "bad-request")
        self.assertEqual(self.worker.ask("close", runner="nope")["done"], {})

    def test_garbage_lines_are_ignored(self) -> None:
        for line in (b"garbage\n", b"[1]\n", b'{"op":"run"}\n', b"\n", b"\xff\xfe\n"):
            self.worker.process.stdin.write(line)
        self.assertEqual(self.worker.ask("close", runner="nope")["done"], {})

    def test_prepare_is_not_awaited(self) -> None:
        runner = self.opened("def kernel_fn(x):\n    return x * 2")
        case = self.worker.fresh("case")
        prepared = self.worker.send(
            "prepare",
            case=case,
            definition="double",
            seed=1,
            inputs=[tensor("x", [64, 64])],
            outputs=[output("y", [64, 64])],
            wall_s=JUDGE_WALL_S,
        )
        ran = self.worker.send("run", **self.worker.run_fields(runner, case))
        self.assertEqual(self.worker.reply_to(prepared)["done"], {})
        self.assertTrue(self.worker.reply_to(ran)["done"]["outputs"][0]["copied"])
        self.assertEqual(self.compared(case)["outputs"][0]["violations"], 0)

    def test_release_while_prepared(self) -> None:
        case = self.worker.fresh("case")
        fields = {"definition": "double", "seed": 1, "inputs": [tensor("x", [8])], "outputs": []}
        fields["wall_s"] = JUDGE_WALL_S
        ids = [
            self.worker.send("prepare", case=case, **fields),
            self.worker.send("release", case=case),
            self.worker.send("prepare", case=case, **fields),
        ]
        self.assertEqual([self.worker.reply_to(at).get("done") for at in ids], [{}, {}, {}])

    def test_a_reference_that_raises_fails_the_case(self) -> None:
        self.assertEqual(self.worker.define("bad", "def run(x):\n    return x @ x")["done"], {})
        case = self.case([2, 3], definition="bad")
        self.ran("def kernel_fn(x):\n    return x", case)
        failed = self.worker.compare(case)["failed"]
        self.assertEqual(failed["code"], "reference-failed")
        self.assertIn("return x @ x", failed["message"])

    def test_a_reference_of_another_shape_fails_the_case(self) -> None:
        self.worker.define("narrow", "def run(x):\n    return x[0]")
        case = self.case([2, 3], definition="narrow")
        self.ran("def kernel_fn(x):\n    return x * 2", case)
        self.assertEqual(self.worker.compare(case)["failed"]["code"], "reference-failed")

    def test_a_reference_that_does_not_compile_is_raised(self) -> None:
        raised = self.worker.define("broken", "def run(x)\n    return x")["raised"]
        self.assertEqual((raised["exception"], raised["code"]), ("SyntaxError", "syntax-error"))
        self.assertEqual(raised["place"]["line"], 1)
        raised = self.worker.define("empty", "x = 1")["raised"]
        self.assertEqual(raised["exception"], "AttributeError")

    def test_seeds_are_kept_from_the_candidate(self) -> None:
        seed = 0x1234567890ABCDEF
        case = self.worker.prepare("double", [tensor("x", [4])], [output("y", [4])], seed=seed)
        source = f"""
            import gc, sys
            def kernel_fn(x):
                objects = (item for item in gc.get_objects() if type(item) is dict)
                found = [item for item in objects if item.get("seed") == {seed}]
                assert not found, found
                return x * 2
        """
        self.ran(source, case)


class Repeats(WorkerTest):
    """One case that is called several times."""

    def repeated(self, case: str) -> dict[str, Any]:
        reply = self.worker.ask("repeat", case=case)
        self.assertIn("done", reply)
        (found,) = reply["done"]["outputs"]
        return found

    def run_again(self, runner: str, case: str, **changes: Any) -> None:
        self.assertIn("done", self.worker.run_case(runner, case, **changes))

    def test_bits_are_compared_with_the_first_time(self) -> None:
        source = """
            calls = 0
            def kernel_fn(x):
                global calls
                calls += 1
                y = x * 2
                if calls == 3:
                    y[2, 1] += 2 ** -20
                return y
        """
        runner, case = self.opened(source), self.case([4, 4])
        found = []
        for _ in range(3):
            self.run_again(runner, case)
            found.append(self.repeated(case))
        self.assertEqual([item["differing"] for item in found], [0, 0, 1])
        self.assertEqual((found[2]["first"], found[2]["elements"]), ([2, 1], 16))

    def test_other_values_come_at_the_same_addresses(self) -> None:
        source = """
            seen = []
            def kernel_fn(x):
                seen.append((id(x), x.data_ptr(), x._version))
                assert all(key[:2] == seen[0][:2] for key in seen)
                assert len(set(seen)) == len(seen), "a write that PyTorch cannot see"
                return x * 2
        """
        runner, case = self.opened(source), self.case([4, 4])
        self.run_again(runner, case)
        self.assertEqual(self.repeated(case)["differing"], 0)
        self.assertEqual(self.compared(case)["outputs"][0]["violations"], 0)
        for seed, differing in ((8, 16), (7, 0)):
            self.assertEqual(self.worker.ask("redraw", case=case, seed=seed)["done"], {})
            self.run_again(runner, case)
            self.assertEqual(self.repeated(case)["differing"], differing)
            self.assertEqual(self.compared(case)["outputs"][0]["violations"], 0)

    def test_what_was_returned_is_read_again(self) -> None:
        source = """
            import torch
            buffer = torch.empty(4, 4, device="cuda")
            def kernel_fn(x):
                torch.mul(x, 2, out=buffer)
                return buffer if REUSES else buffer.clone()
        """
        for reuses, differing in ((True, 16), (False, 0)):
            runner = self.opened(f"REUSES = {reuses}\n" + textwrap.dedent(source))
            case = self.case([4, 4])
            self.run_again(runner, case, hold=True)
            self.repeated(case)
            self.worker.ask("redraw", case=case, seed=8)
            self.run_again(runner, case)
            reply = self.worker.ask("recopy", runner=runner, case=case, wall_s=10.0)
            self.assertEqual(reply["done"], {"copied": [True]})
            self.assertEqual(self.repeated(case)["differing"], differing)

    def test_fresh_memory_can_hold_another_pattern(self) -> None:
        source = "import torch\ndef kernel_fn(x):\n    return torch.nan_to_num(torch.empty_like(x)) + x * 2"
        runner, case = self.opened(source), self.case([4, 4])
        self.run_again(runner, case)
        self.assertEqual(self.repeated(case)["differing"], 0)
        options = {"max_programs": None, "compare_values": True, "other_poison": True}
        self.run_again(runner, case, interpreter=options)
        self.assertEqual(self.repeated(case)["differing"], 16)

    def test_a_tensor_that_begins_within_its_storage(self) -> None:
        source = """
            def kernel_fn(x):
                assert x.storage_offset() == 3 and x.is_contiguous()
                assert x.untyped_storage().nbytes() == 4 * (3 + 16)
                return x * 2
        """
        case = self.case([4, 4], offset=3)
        self.ran(source, case)
        found = self.compared(case)
        self.assertEqual((found["inputs_changed"], found["outputs"][0]["violations"]), ([], 0))

    def test_repeating_what_is_not_there(self) -> None:
        for op in ("repeat", "redraw"):
            self.assertEqual(self.worker.ask(op, case="none", seed=1)["failed"]["code"], "unknown-case")
        case = self.case([4])
        reply = self.worker.ask("recopy", runner="none", case=case, wall_s=1.0)
        self.assertEqual(reply["failed"]["code"], "unknown-runner")


if __name__ == "__main__":
    unittest.main()
