"""What goes wrong in a user's file, and what it is called."""

import textwrap
import unittest
from typing import Any

from .client import output, tensor
from .test_cases import WorkerTest


class Imports(WorkerTest):
    def raised(self, source: str, **changes: Any) -> dict[str, Any]:
        reply = self.worker.open_source(source, self.worker.fresh("runner"), **changes)
        self.assertIn("raised", reply)
        return reply["raised"]

    def test_missing_package(self) -> None:
        raised = self.raised("import os\nimport pydantic_of_mars.types\n")
        self.assertEqual((raised["code"], raised["missing"]), ("import-error", "pydantic_of_mars"))
        self.assertEqual(raised["exception"], "ModuleNotFoundError")
        self.assertEqual(raised["place"]["line"], 2)

    def test_missing_name(self) -> None:
        raised = self.raised("from torch import no_such_name\n")
        self.assertEqual((raised["code"], raised["missing"]), ("import-error", None))

    def test_syntax_error(self) -> None:
        path = self.worker.write("import torch\ndef kernel_fn(x):\n    return (x +* 2)\n")
        raised = self.worker.open_file(path)["raised"]
        self.assertEqual((raised["code"], raised["exception"]), ("syntax-error", "SyntaxError"))
        self.assertEqual(raised["place"], {"file": str(path), "line": 3})
        self.assertEqual(raised["column"], 16)
        self.assertNotIn("copy", raised["traceback"])

    def test_other_texts_that_are_no_python(self) -> None:
        raised = self.raised("def kernel_fn(x):\n  return x\n   + 1\n")
        self.assertEqual((raised["code"], raised["exception"]), ("syntax-error", "IndentationError"))
        path = self.worker.write("")
        for text in (b"x = 1\nname = '\xff'\n", b"x = 1\0\n"):
            path.write_bytes(text)
            raised = self.worker.open_file(path)["raised"]
            self.assertEqual((raised["code"], raised["place"]["file"]), ("syntax-error", str(path)))
        # Text that running code compiles is not the file.
        raised = self.raised("x = 1\ncompile('a\\0b', 'made', 'exec')\n")
        self.assertEqual(raised["code"], "raised")

    def test_everything_else_is_raised(self) -> None:
        for statement, exception in (
            ("raise SystemExit(0)", "SystemExit"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
            ("import unittest; raise unittest.SkipTest('later')", "SkipTest"),
            ("import torch; raise torch.cuda.OutOfMemoryError('CUDA out of memory')", "OutOfMemoryError"),
            ("raise MemoryError", "MemoryError"),
            ("raise RuntimeError('DefaultCPUAllocator: can\\'t allocate memory')", "RuntimeError"),
            ("raise GeneratorExit", "GeneratorExit"),
            ("class Odd(BaseException): pass\nraise Odd", "Odd"),
            ("1 / 0", "ZeroDivisionError"),
        ):
            raised = self.raised(statement)
            self.assertEqual((raised["code"], raised["exception"]), ("raised", exception), statement)

    def test_entry_is_missing(self) -> None:
        raised = self.raised("def other(x):\n    return x\n")
        self.assertEqual((raised["code"], raised["exception"]), ("raised", "AttributeError"))
        self.assertIn("kernel_fn", raised["message"])
        raised = self.raised("kernel_fn = 3\n")
        self.assertEqual((raised["code"], raised["exception"]), ("raised", "TypeError"))

    def test_unprintable_exception(self) -> None:
        source = "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd()\n"
        self.assertIn("ValueError", self.raised(source)["message"])

    def test_text_that_json_cannot_hold(self) -> None:
        self.assertEqual(self.raised("raise ValueError('\\ud800')")["message"], "\\ud800")

    def test_long_messages_are_cut(self) -> None:
        raised = self.raised("raise ValueError('x' * 10_000_000)")
        self.assertLessEqual(len(raised["message"]), 4096)
        self.assertLessEqual(len(raised["traceback"]), 8192)


class Modules(WorkerTest):
    def test_sibling_modules_and_packages(self) -> None:
        path = self.worker.write("import helper_of_mine\nkernel_fn = helper_of_mine.kernel_fn\n")
        (path.parent / "helper_of_mine.py").write_text("def kernel_fn(x):\n    return x\n")
        self.assertIn("done", self.worker.open_file(path))

    def test_relative_imports_in_a_package(self) -> None:
        path = self.worker.write(
            """
            from . import shared
            from ..deeper import OTHER
            assert __name__ == "my_package.inner.kernel", __name__
            assert __package__ == "my_package.inner"
            kernel_fn = shared.kernel_fn
            """,
            "my_package/inner/kernel.py",
        )
        package = path.parents[1]
        (package / "__init__.py").touch()
        (package / "deeper.py").write_text("OTHER = 1\n")
        (package / "inner/__init__.py").touch()
        (package / "inner/shared.py").write_text("def kernel_fn(x):\n    return x\n")
        reply = self.worker.open_file(path)
        self.assertIn("done", reply)
        self.assertFalse(list(package.rglob("__pycache__")), "nothing is written beside the user's files")

    def test_the_copy_is_what_runs(self) -> None:
        path = self.worker.write("import inspect, sys\ndef kernel_fn(new_name):\n    return 1\n")
        source = path.read_text()
        copy = self.worker.folder / "pinned" / path.name
        copy.parent.mkdir()
        copy.write_text(source)
        path.write_text("def kernel_fn(old_name):\n    return 1\n")
        reply = self.worker.open_file(path, text_path=str(copy))
        self.assertEqual(reply["done"]["parameters"][0]["name"], "new_name")

    def test_standard_library_is_not_shadowed(self) -> None:
        path = self.worker.write(
            "import json, colorsys\njson.dumps\ndef kernel_fn(x):\n    pass\n", "json.py"
        )
        (path.parent / "colorsys.py").write_text("raise AssertionError('shadows the standard library')")
        self.assertIn("done", self.worker.open_file(path))

    def test_source_can_be_inspected(self) -> None:
        source = (
            "import inspect\ndef kernel_fn(x):\n    pass\nassert 'pass' in inspect.getsource(kernel_fn)\n"
        )
        self.assertIn("done", self.worker.open_source(source, self.worker.fresh("runner")))

    def test_environment_and_search_paths(self) -> None:
        folder = self.worker.folder / "elsewhere"
        folder.mkdir()
        (folder / "module_elsewhere.py").write_text("VALUE = 1\n")
        source = (
            "import os, module_elsewhere\nassert os.environ['FROM_TEST'] == 'yes'\ndef kernel_fn(x): pass\n"
        )
        fields = {"search_paths": [str(folder)], "environment": {"FROM_TEST": "yes"}}
        self.assertIn("done", self.worker.open_source(source, self.worker.fresh("runner"), **fields))


class Calls(WorkerTest):
    def raised(self, source: str, **changes: Any) -> dict[str, Any]:
        reply = self.worker.run_case(self.opened(source, **changes), self.case([4, 4]))
        self.assertIn("raised", reply)
        return reply["raised"]

    def test_places_lead_through_the_users_files(self) -> None:
        path = self.worker.write(
            """\
            import torch
            from helper_of_places import inner

            def kernel_fn(x):
                return inner(x)
            """
        )
        helper = path.parent / "helper_of_places.py"
        helper.write_text("import torch\ndef inner(x):\n    return torch.nn.functional.linear(x, x[:, 1:])\n")
        runner = self.worker.fresh("runner")
        self.assertIn("done", self.worker.open_file(path, runner))
        raised = self.worker.run_case(runner, self.case([4, 4]))["raised"]
        self.assertEqual((raised["code"], raised["exception"]), ("raised", "RuntimeError"))
        self.assertEqual(raised["place"], {"file": str(helper), "line": 3})
        self.assertEqual(raised["called_from"], [{"file": str(path), "line": 5}])
        self.assertEqual((raised["launches"], raised["findings"]), ([], []))
        self.assertIn(f'"{path}"', raised["traceback"])

    def test_nothing_is_a_skip(self) -> None:
        for statement, exception in (
            ("import unittest; raise unittest.SkipTest", "SkipTest"),
            ("raise SystemExit(0)", "SystemExit"),
            ("import torch; raise torch.cuda.OutOfMemoryError('fake')", "OutOfMemoryError"),
            ("raise MemoryError('fake')", "MemoryError"),
            ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ):
            raised = self.raised(f"def kernel_fn(x):\n    {statement}\n")
            self.assertEqual((raised["code"], raised["exception"]), ("raised", exception))

    def test_the_runner_survives_an_exception(self) -> None:
        source = """
            calls = []
            def kernel_fn(x):
                calls.append(1)
                if len(calls) == 1:
                    raise ValueError
                return x * 2
        """
        runner = self.opened(source)
        case = self.case([4, 4])
        self.assertIn("raised", self.worker.run_case(runner, case))
        self.assertIn("done", self.worker.run_case(runner, case))
        self.assertEqual(self.compared(case)["outputs"][0]["violations"], 0)

    def test_real_want_of_memory(self) -> None:
        for statement in (
            "import torch; y = torch.empty(1 << 42, dtype=torch.uint8)",
            "import numpy; y = numpy.ones(1 << 40)",
            "y = bytearray(1 << 40)",
            "y = [bytearray(1 << 26) for _ in range(100)]",
        ):
            raised = self.raised(
                f"def kernel_fn(x):\n    {statement}\n", address_space_bytes=2 << 30, resident_bytes=32 << 30
            )
            expected = "raised" if statement == "y = bytearray(1 << 40)" else "out-of-memory"
            self.assertEqual(raised["code"], expected, (statement, raised["message"]))

    def test_code_that_needs_a_gpu_is_not_wrong(self) -> None:
        raised = self.raised("import torch\ndef kernel_fn(x):\n    torch._C._cuda_init()\n")
        self.assertEqual(raised["code"], "unsupported")

    def test_a_failing_import_in_the_call(self) -> None:
        raised = self.raised("def kernel_fn(x):\n    import flash_attn_of_mars\n")
        self.assertEqual((raised["code"], raised["missing"]), ("import-error", "flash_attn_of_mars"))

    def test_wrong_arguments(self) -> None:
        raised = self.raised("def kernel_fn(y):\n    return y\n")
        self.assertEqual((raised["code"], raised["exception"]), ("raised", "TypeError"))

    def test_no_room_for_the_tensors(self) -> None:
        runner = self.opened("def kernel_fn(x):\n    return x", address_space_bytes=4 << 30)
        inputs = [tensor("x", [1 << 33], fill="untouched")]
        case = self.worker.prepare("double", inputs, [output("y", [1 << 33])])
        raised = self.worker.run_case(runner, case, interpreter={"max_programs": 4, "compare_values": False})[
            "raised"
        ]
        self.assertEqual(raised["code"], "out-of-memory")


class CudaShim(WorkerTest):
    def test_code_written_for_a_gpu(self) -> None:
        source = """
            import torch
            DEVICE = torch.device("cuda")
            GENERATOR = torch.Generator(device="cuda")
            BUFFER = torch.zeros(4, device="cuda:0")

            @torch.compile
            def doubled(x):
                return x * 2

            def kernel_fn(x):
                assert x.is_cuda and x.device.type == "cuda" and x.device == torch.device("cuda", 0)
                assert x.device == BUFFER.device and x.get_device() == 0 and x.device.index == 0
                y = torch.empty(x.shape, device=x.device, dtype=x.dtype)
                z = x.cuda().to("cuda").to(DEVICE).to(0).to(x.device, torch.float32).contiguous()
                assert torch.cuda.is_available() and torch.cuda.device_count() == 1
                properties = torch.cuda.get_device_properties(x.device)
                assert properties.multi_processor_count > 0 and properties.major == 9
                assert torch.cuda.get_device_capability() >= (8, 0)
                torch.manual_seed(0)
                noise = torch.randn(x.shape, device="cuda", generator=GENERATOR.manual_seed(3))
                stream = torch.cuda.Stream()
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                with torch.cuda.device(x.device), torch.cuda.stream(stream), torch.device("cuda"):
                    begin.record()
                    ones = torch.ones(2)
                    end.record()
                torch.cuda.current_stream().wait_stream(stream)
                torch.cuda.synchronize()
                assert begin.elapsed_time(end) >= 0
                layer = torch.nn.Linear(4, 4, device="cuda").to("cuda").cuda()
                layer(ones.new_zeros(4, device="cuda"))
                pinned = torch.empty(3, pin_memory=True).pin_memory().to("cuda", non_blocking=True)
                torch.set_default_device("cuda")
                assert torch.ones(3).sum().item() == 3
                with torch.autocast(x.device.type, dtype=torch.bfloat16):
                    y.copy_(doubled(z) + 0 * noise)
                return y
        """
        case = self.case([4, 4])
        self.ran(textwrap.dedent(source), case)
        (errors,) = self.compared(case)["outputs"]
        self.assertEqual((errors["violations"], errors["elements_compared"]), (0, 16))

    def test_tensors_made_on_the_cpu_say_so(self) -> None:
        source = """
            import torch
            def kernel_fn(x):
                host, device = torch.zeros(3), torch.zeros(3, device=x.device)
                for tensor, is_cuda in (
                    (host, False), (host[1:], False), (host + host, False), (x.cpu(), False),
                    (torch.tensor([1]), False), (x.new_zeros(3), True), (host.cuda(), True),
                    (host.to(device), True), (torch.empty_like(x), True), (device.view(3, 1), True),
                ):
                    assert tensor.is_cuda is is_cuda and (tensor.device.type == "cuda") is is_cuda
                with torch.device("cuda"):
                    assert torch.zeros(3).is_cuda
                return x * 2
        """
        self.ran(textwrap.dedent(source), self.case([2]))

    def test_torch_can_be_imported_to_its_ends(self) -> None:
        source = """
            import torch, torch._dynamo, torch.distributed, torch.nn.functional
            from torch.distributed.tensor import DTensor
            @torch.compiler.disable
            def doubled(x):
                return x * 2
            def kernel_fn(x):
                return doubled(x)
        """
        self.ran(textwrap.dedent(source), self.case([2]))

    def test_a_kernel_cannot_reach_a_cpu_tensor(self) -> None:
        source = """
            import torch, triton, triton.language as tl
            @triton.jit
            def doubled(x, y, B: tl.constexpr):
                o = tl.arange(0, B)
                tl.store(y + o, tl.load(x + o) * 2)
            def kernel_fn(x):
                y = torch.empty(x.shape, dtype=x.dtype)
                doubled[(1,)](x, y, B=4)
                return y
        """
        raised = self.worker.run_case(self.opened(textwrap.dedent(source)), self.case([4]))["raised"]
        self.assertEqual((raised["code"], raised["place"]["line"]), ("compile-error", 9))
        self.assertIn("`y`", raised["message"])

    def test_runners_draw_different_numbers(self) -> None:
        source = """
            import random, numpy, torch
            def kernel_fn(x):
                raise ValueError(f"{random.random()} {numpy.random.rand()} {torch.rand(1).item()}")
        """
        drawn = [
            self.worker.run_case(self.opened(source), self.case([2]))["raised"]["message"].split()
            for _ in range(2)
        ]
        for first, second in zip(*drawn, strict=True):
            self.assertNotEqual(first, second)

    def test_poison_of_every_dtype(self) -> None:
        source = """
            import torch
            def kernel_fn(x):
                for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                    assert torch.empty(100, dtype=dtype).isnan().all(), dtype
                for dtype in (torch.int64, torch.int32, torch.int16, torch.int8):
                    assert (torch.empty(100, dtype=dtype) != 0).all(), dtype
                assert set(torch.empty(100, dtype=torch.bool).tolist()) <= {True, False}
                assert torch.empty(0).shape == (0,)
                assert torch.empty(2, 3, requires_grad=True).isnan().all()
                return x * 2
        """
        self.ran(textwrap.dedent(source), self.case([2]))


if __name__ == "__main__":
    unittest.main()
