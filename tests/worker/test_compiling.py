"""Calls that only compile, with stand-ins for Triton's classes."""

import unittest
from typing import Any

import torch
from warpsmith_worker import compiling, launches, place

from .client import output, tensor
from .test_device_parts import Config, Kernel, Tuner


class CompiledKernel:
    """Stands for what `kernel.warmup` gives."""

    def __init__(self) -> None:
        self.launched = 0

    def __getitem__(self, grid: Any) -> Any:
        def launch(*_arguments: Any) -> None:
            self.launched += 1

        return launch


class Recorded(Kernel):
    """Remembers whether it was to be launched, and with which constants."""

    def run(self, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        self.ran.append((warmup, named))
        if named.get("BLOCK") == 2:
            raise RuntimeError("this one does not compile")
        return arguments


class CallsThatOnlyCompile(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        true = Recorded.run, Tuner.run, CompiledKernel.__getitem__
        launches.record_launches(Recorded, CompiledKernel)
        launches.choose_configurations(Tuner)

        def restore() -> None:
            Recorded.run, Tuner.run, CompiledKernel.__getitem__ = true

        cls.addClassCleanup(restore)

    def test_launches_end_after_the_compiler(self) -> None:
        kernel, compiled = Recorded(), CompiledKernel()
        counted = launches.unrecorded_launches()
        with compiling.active():
            kernel.run(1, grid=(5,), warmup=False)
            compiled[(1,)](1)
        kernel.run(1, grid=(5,), warmup=False)
        compiled[(1,)](1)
        self.assertEqual([warmup for warmup, _ in kernel.ran], [True, False])
        self.assertEqual(compiled.launched, 1)
        self.assertEqual(launches.unrecorded_launches(), counted + 2)

    def test_it_ends_with_an_exception_too(self) -> None:
        with self.assertRaises(ValueError), compiling.active():
            raise ValueError
        self.assertFalse(compiling.is_active())

    def test_every_configuration_is_compiled_and_none_is_timed(self) -> None:
        kernel, hooked = Recorded(), []
        configs = [Config(BLOCK=at) for at in range(5)]
        configs[3].pre_hook = hooked.append
        tuner = Tuner(kernel, configs)
        with compiling.active():
            tuner.run("x", grid=(1,), warmup=False)
        self.assertEqual([named["BLOCK"] for _, named in kernel.ran], [1, 2, 3, 4])
        self.assertTrue(all(warmup for warmup, _ in kernel.ran))
        self.assertEqual(tuner.tunings, 0)
        self.assertEqual([(values["x"], values["BLOCK"]) for values in hooked], [("x", 3)])

    def test_arguments_have_the_form_of_the_case(self) -> None:
        seen = {}

        def entry(x: Any, weight: Any, y: Any, /, eps: Any, causal: Any, none: Any) -> None:
            seen.update(locals())
            self.assertTrue(compiling.is_active())

        request = {
            "inputs": [
                tensor("x", [4, 6], "float16", strides=[12, 1], offset=3),
                tensor("weight", [0, 7], "int64"),
                {"kind": "scalar", "name": "eps", "value": 1e-5},
                {"kind": "scalar", "name": "none", "value": None},
            ],
            "outputs": [output("y", [2, 3], "bfloat16")],
            "arguments": [
                {"parameter": "x", "input": "x"},
                {"parameter": "weight", "input": "weight"},
                {"parameter": "y", "output": "y"},
                {"parameter": "eps", "input": "eps"},
                {"parameter": "causal", "value": True},
                {"parameter": "none", "input": "none"},
            ],
        }
        compiling.call_on_zeros(entry, ["x", "weight", "y"], request)
        x, weight, y = (seen[name] for name in ("x", "weight", "y"))
        self.assertEqual((x.shape, x.stride(), x.storage_offset()), ((4, 6), (12, 1), 3))
        self.assertEqual((x.dtype, weight.dtype, y.dtype), (torch.float16, torch.int64, torch.bfloat16))
        self.assertEqual((weight.shape, y.stride(), x.device), ((0, 7), (3, 1), place.current()))
        self.assertEqual(float(x.abs().sum()), 0.0)
        self.assertEqual((seen["eps"], seen["causal"], seen["none"]), (1e-5, True, None))

    def test_an_entry_without_tensors(self) -> None:
        called = []
        compiling.call_on_zeros(lambda: called.append(1), [], {"inputs": [], "outputs": [], "arguments": []})
        self.assertEqual(called, [1])
