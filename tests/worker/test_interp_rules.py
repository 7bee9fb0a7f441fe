"""What Triton's compiler and launcher refuse is refused here, at the user's line."""

from __future__ import annotations

import unittest
from typing import Any

from tests.worker.interp_support import interpreter, line_of, load, session, torch


class Rules(unittest.TestCase):
    def setUp(self) -> None:
        self.kernels = load("rules")
        self.x = torch.zeros(64)

    def refused(self, kernel: str, *arguments: Any, grid: Any = (1,), **named: Any) -> dict[str, Any]:
        with session() as running, self.assertRaises(interpreter.TritonCompileError) as raised:
            getattr(self.kernels, kernel)[grid](*arguments, **named)
        findings = running.report()["findings"]
        self.assertEqual([finding["kind"] for finding in findings], ["compile-error"])
        self.assertEqual(findings[0]["place"], raised.exception.place)
        self.assertEqual(findings[0]["message"], str(raised.exception))
        return findings[0]

    def assert_refused(self, kernel: str, marker: str, word: str, *arguments: Any, **named: Any) -> None:
        finding = self.refused(kernel, *(arguments or (self.x,)), **named)
        self.assertEqual(finding["place"]["line"], line_of(self.kernels, marker))
        self.assertIn(word, finding["message"])

    def accepted(self, kernel: str, *arguments: Any, grid: Any = (1,), **named: Any) -> None:
        with session() as running:
            getattr(self.kernels, kernel)[grid](*arguments, **named)
        self.assertEqual(running.report()["findings"], [])

    def test_d03_range_that_is_no_power_of_two(self) -> None:
        self.assert_refused("row_sum", "arange", "power of 2", self.x, torch.zeros(1), 33, B=64 + 32)
        self.accepted("row_sum", self.x, torch.zeros(1), 33, B=64)

    def test_python_functions_compute_with_constants_only(self) -> None:
        self.assert_refused("float_of_a_tensor", "float", "only known when the kernel runs", self.x, 7)
        self.assert_refused("math_of_a_tensor", "math", "math.ceil", self.x, 7)
        self.assert_refused("cdiv_of_a_tensor", "cdiv", "triton.cdiv", self.x, 7)
        self.assert_refused("python_max_of_a_block", "max", "tl.max", B=16)
        self.assert_refused("membership", "in", "not supported", B=16)
        self.assert_refused("list_of_a_range", "comprehension", "tuples")
        self.accepted("host_functions_of_constants", self.x, B=16)

    def test_a_promise_of_multiples_is_kept(self) -> None:
        self.accepted("promised_scalar", self.x, 32, B=16)
        # Of consecutive values the promise is about the first one: 48 … 63, and 0 after the end.
        self.accepted("promised_block", self.x, 48, 64, B=16)
        self.accepted("promised_block", self.x, 48, 56, B=16)
        for kernel, arguments in (("promised_scalar", (7,)), ("promised_block", (40, 64))):
            with session() as running:
                getattr(self.kernels, kernel)[(1,)](self.x, *arguments, B=16)
            (finding,) = running.report()["findings"]
            self.assertEqual(finding["kind"], "device-assert")
            self.assertIn(f"multiple of 16, but the value is {arguments[0]}", finding["message"])

    def test_undefined_name(self) -> None:
        self.assert_refused("undefined_name", "undefined", "missing")

    def test_shapes(self) -> None:
        self.assert_refused("inner_dimensions", "k-mismatch", "reduction dimensions")
        self.assert_refused("incompatible_shapes", "shapes", "incompatible")
        self.assert_refused("large_block", "large", "exceeds triton maximum tensor numel")
        self.assert_refused("odd_block", "odd", "power of 2")
        self.assert_refused("thin_dot", "thin", "K >= 16")
        self.assert_refused("vector_dot", "vector", "input")

    def test_d38_globals_that_are_not_constexpr(self) -> None:
        self.assert_refused("annotated_global", "annotated", "UNROLL")
        self.assert_refused("plain_global", "plain", "PLAIN")
        self.assert_refused("calls_python", "python-function", "python_function")
        self.assert_refused("python_builtin", "builtin", "round")
        self.accepted("constexpr_global", self.x)
        self.assertEqual(self.x[0], 5)

    def test_the_chain_of_calls_is_told(self) -> None:
        finding = self.refused("calls_helper", self.x, self.x)
        self.assertEqual(finding["place"]["line"], line_of(self.kernels, "helper"))
        callers = [place["line"] for place in finding["called_from"]]
        self.assertEqual(callers, [line_of(self.kernels, "middle"), line_of(self.kernels, "outer")])

    def test_static_assert(self) -> None:
        self.assert_refused("asserts_statically", "static-assert", "B is too small", self.x, B=16)
        self.accepted("asserts_statically", self.x, B=32)

    def test_control_flow_that_triton_lacks(self) -> None:
        self.assert_refused("breaks", "break", "break", self.x, 2)
        self.assert_refused("returns_in_loop", "return", "return", self.x, 2)
        self.assert_refused("ambiguous", "ambiguous", "ambiguous", self.x)

    def test_types_must_stay(self) -> None:
        self.assert_refused("changes_type_in_loop", "carried", "total has initial type int32", self.x, 2)
        self.assert_refused("changes_shape_in_loop", "carried-shape", "total has initial type", self.x, 2)
        self.assert_refused("changes_type_in_branch", "branch-type", "redefines", self.x, 2)

    def test_names_of_a_loop_end_with_it(self) -> None:
        self.assert_refused("forgets_loop_names", "forgotten", "v is not defined", self.x, 2)

    def test_the_argument_one_is_a_constant(self) -> None:
        self.assert_refused("one_is_constant", "one", "no attribute 'to'", self.x, 1)
        self.accepted("one_is_constant", self.x, 2)

    def test_calls_must_fit_the_callee(self) -> None:
        self.assert_refused("unknown_keyword", "keyword", "maks")
        self.assert_refused("missing_argument", "missing-argument", "'n'")

    def test_subscripts_cannot_be_assigned(self) -> None:
        self.assert_refused("stores_to_subscript", "subscript", "item assignment")

    def test_launches_that_are_refused(self) -> None:
        here = __file__
        for named, word in (
            ({"B": 64, "num_warps": 3}, "power of 2"),
            ({"B": 64, "num_warps": 64}, "1024 threads"),
            ({"B": 64, "block_size": 3}, "block_size"),
            ({}, "missing a required argument: 'B'"),
        ):
            with self.subTest(word=word):
                finding = self.refused("fill", self.x, 64, **named)
                self.assertIn(word, finding["message"])
        self.assertTrue(finding["place"]["file"].endswith("rules.py"), here)

    def test_grids(self) -> None:
        for grid, word in (((1, 70_000), "65535"), ((1, 1, 1, 1), "dimensions"), ((1.5,), "integers")):
            finding = self.refused("fill", self.x, 64, grid=grid, B=64)
            self.assertIn(word, finding["message"])
        for grid in ((0,), (4, 0), (0, 70_000)):
            self.accepted("fill", self.x, 64, grid=grid, B=64)
        seen = {}

        def grid_of(meta: dict[str, Any]) -> tuple[int]:
            seen.update(meta)
            return (1,)

        self.accepted("fill", self.x, 64, grid=grid_of, B=64, num_warps=4)
        self.assertEqual((seen["n"], seen["B"]), (64, 64))

    def test_kernels_of_a_factory_keep_their_closure(self) -> None:
        kernel = self.kernels.make_kernel(16)
        with session() as running:
            kernel[(1,)](self.x)
        self.assertEqual(running.report()["findings"], [])
        self.assertEqual(self.x.sum(), 32)

    def test_inline_assembly_could_not_run(self) -> None:
        with session() as running, self.assertRaises(interpreter.InterpreterUnsupported) as raised:
            self.kernels.assembly[(1,)](self.x.int(), self.x.int())
        self.assertEqual(raised.exception.code, "inline-asm")
        unsupported = running.report()["unsupported"]
        self.assertEqual(unsupported["code"], "inline-asm")
        self.assertEqual(unsupported["place"]["line"], line_of(self.kernels, "assembly"))

    def test_a_jit_function_is_not_called_from_the_host(self) -> None:
        with self.assertRaises(interpreter.TritonCompileError):
            self.kernels.fill(self.x, 64, 64)

    def test_nothing_is_left_in_the_users_module(self) -> None:
        self.accepted("fill", self.x, 64, B=64)
        self.assertFalse({"np", "ast", "GridExecutor", "inspect"} & set(vars(self.kernels)))


if __name__ == "__main__":
    unittest.main()
