"""Bounds, races, duplicate stores, uninitialised reads, overflow, asserts: each bug with its good twin."""

from __future__ import annotations

import unittest
from typing import Any

from tests.worker.interp_support import (
    SHOWN_PATH,
    TensorDescriptor,
    interpreter,
    kinds,
    line_of,
    load,
    poisoned_empty,
    session,
    torch,
)


class MemoryTest(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(0)
        self.kernels = load("memory")

    def launch(self, kernel: str, grid: tuple[int, ...], *arguments: Any, **named: Any) -> dict[str, Any]:
        with session() as running:
            getattr(self.kernels, kernel)[grid](*arguments, **named)
        return running.report()

    def assert_clean(self, report: dict[str, Any]) -> None:
        self.assertEqual(report["findings"], [])
        self.assertIsNone(report["unsupported"])

    def assert_found(self, report: dict[str, Any], kind: str, marker: str, *words: str) -> dict[str, Any]:
        """Exactly one kind of finding, at the marked line, with these words in its message."""
        self.assertEqual(set(kinds(report)), {kind})
        found = [f for f in report["findings"] if f["place"]["line"] == line_of(self.kernels, marker)]
        self.assertTrue(found, report["findings"])
        for word in words:
            self.assertIn(word, found[0]["message"])
        return found[0]


class Bounds(MemoryTest):
    def test_load_past_the_end(self) -> None:
        x, y = torch.randn(10, 100), torch.zeros(1024)
        report = self.launch("unmasked_load", (16,), x, y, 1000, B=64)
        finding = self.assert_found(
            report,
            "out-of-bounds-load",
            "unmasked",
            "load of 24 of 64 active lanes past the end of `x` (element 1000 of 1000, shape (10, 100))",
            "program (15, 0, 0)",
        )
        self.assertEqual(finding["program"], [15, 0, 0])
        self.assertEqual(finding["kernel"], "unmasked_load")
        self.assert_clean(self.launch("masked_copy", (16,), x, y, 1000, B=64))

    def test_an_overrun_into_another_argument_is_found(self) -> None:
        memory = torch.zeros(128)
        x, y = memory.untyped_storage(), torch.zeros(64)
        apart = torch.zeros(64)
        shift = (apart.data_ptr() - y.data_ptr()) // 4
        self.assertNotEqual(shift, 0)
        del x
        report = self.launch("through_shapes", (1,), y, apart, B=4, SHIFT=shift)
        self.assert_found(report, "out-of-bounds-load", "shaped", "inside `y`")

    def test_load_before_the_beginning(self) -> None:
        report = self.launch("load_before", (1,), torch.zeros(4), torch.zeros(1))
        self.assert_found(report, "out-of-bounds-load", "before", "before the start of `x` (element -3 of 4")

    def test_a_far_address_does_not_crash(self) -> None:
        report = self.launch("far_load", (1,), torch.zeros(4), torch.zeros(1))
        self.assert_found(report, "out-of-bounds-load", "far", "element 1099511627776 of 4")

    def test_a_view_may_reach_its_whole_storage(self) -> None:
        whole = torch.randn(100)
        self.assert_clean(self.launch("masked_copy", (1,), whole[10:20], torch.zeros(64), 64, B=64))

    def test_atomic_past_the_end(self) -> None:
        counts = torch.zeros(12, dtype=torch.int32)
        report = self.launch("atomic_past_the_end", (1,), counts, 12, B=16)
        self.assert_found(report, "out-of-bounds-atomic", "atomic-oob", "4 of 16 active lanes")
        self.assertEqual(counts.tolist(), [1] * 12)

    def test_bases_travel_through_shapes(self) -> None:
        x, y = torch.randn(16), torch.zeros(16)
        self.assert_clean(self.launch("through_shapes", (1,), x, y, B=4, SHIFT=0))
        self.assertTrue(torch.equal(y.view(4, 4), x.view(4, 4).t()))
        report = self.launch("through_shapes", (1,), x, y, B=4, SHIFT=2)
        self.assert_found(report, "out-of-bounds-load", "shaped", "2 of 16 active lanes past the end of `x`")

    def test_a_pointer_chosen_from_two_tensors(self) -> None:
        x, z, y = torch.randn(4), torch.randn(16), torch.zeros(16)
        self.assert_clean(self.launch("chosen_pointer", (1,), x, z, y, 4, B=16))
        self.assertTrue(torch.equal(y, torch.cat([x, z[4:]])))
        report = self.launch("chosen_pointer", (1,), x, z[:8].clone(), y, 4, B=16)
        self.assert_found(report, "out-of-bounds-load", "chosen", "8 of 16 active lanes")

    def test_a_pointer_of_another_type(self) -> None:
        x, y = torch.randn(16).half(), torch.zeros(16, dtype=torch.int32)
        report = self.launch("reinterpreted", (1,), x, y, B=16)
        self.assert_found(report, "out-of-bounds-load", "bits", "8 of 16 active lanes")
        self.assert_clean(self.launch("reinterpreted", (1,), x, y, B=8))

    def test_a_pointer_read_from_a_table_may_reach_any_live_tensor(self) -> None:
        x, y = torch.randn(16), torch.zeros(32)
        table = torch.tensor([x.data_ptr()])
        self.assert_clean(self.launch("by_address", (1,), table, y, B=16))
        self.assertTrue(torch.equal(y[:16], x))
        report = self.launch("by_address", (1,), torch.tensor([12345 * 4]), y, B=16)
        self.assert_found(report, "out-of-bounds-load", "by-address")

    def test_descriptors_mask_by_their_shape_but_not_beyond_the_storage(self) -> None:
        x, y = torch.randn(6, 16), torch.zeros(6, 16)
        self.assert_clean(self.launch("through_descriptor", (2,), x, y, 6, 16, 6, TM=4, TN=8))
        self.assertTrue(torch.equal(x, y))
        report = self.launch("through_descriptor", (2,), x, y, 6, 16, 8, TM=4, TN=8)
        self.assert_found(report, "out-of-bounds-load", "descriptor", "past the end of `x`")

    def test_descriptors_made_by_the_host(self) -> None:
        x, y = torch.randn(8, 16), torch.zeros(8, 16)
        source = TensorDescriptor(x, [8, 16], [16, 1], [4, 8])
        target = TensorDescriptor(y, [8, 16], [16, 1], [4, 8])
        self.assert_clean(self.launch("through_host_descriptor", (2,), source, target, COLUMNS=16))
        self.assertTrue(torch.equal(x, y))
        source = TensorDescriptor(x[:4].clone(), [8, 16], [16, 1], [4, 8])
        report = self.launch("through_host_descriptor", (2,), source, target, COLUMNS=16)
        self.assert_found(report, "out-of-bounds-load", "host-descriptor", "past the end of `source`")

    def test_block_pointers_where_triton_has_them(self) -> None:
        x, y = torch.randn(6, 12), torch.zeros(6, 12)
        with session() as running:
            try:
                self.kernels.through_block_pointer[(1,)](x, y, 6, 12, TR=8, TC=16, CHECK=True)
            except interpreter.TritonCompileError as error:
                self.assertIn("have been removed", str(error))
                return
        self.assert_clean(running.report())
        self.assertTrue(torch.equal(x, y))
        report = self.launch("through_block_pointer", (1,), x, y, 6, 12, TR=8, TC=16, CHECK=False)
        self.assert_found(report, "out-of-bounds-load", "block-pointer", "past the end of `x`")

    def test_d02_transpose_without_masks(self) -> None:
        x, y = torch.randn(40, 56), torch.zeros(56, 40)
        report = self.launch("transpose_without_mask", (2, 2), x, y, 40, 56, B=32)
        self.assertIn("out-of-bounds-load", kinds(report))
        self.assertIn("out-of-bounds-store", kinds(report))
        x, y = torch.randn(64, 32), torch.zeros(32, 64)
        self.assert_clean(self.launch("transpose_without_mask", (2, 1), x, y, 64, 32, B=32))
        self.assertTrue(torch.equal(y, x.t()))

    def test_d01_tail_of_the_inner_dimension(self) -> None:
        for k, is_right in ((48, True), (50, False)):
            a, b, c = torch.randn(16, k), torch.randn(k, 16), torch.zeros(16, 16)
            report = self.launch("gemm_without_k_mask", (1, 1), a, b, c, 16, 16, k, B=16)
            if is_right:
                self.assert_clean(report)
                torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-4)
            else:
                self.assertEqual(set(kinds(report)), {"out-of-bounds-load"})
                self.assertEqual(report["findings"][0]["place"]["line"], line_of(self.kernels, "k-tail"))

    def test_the_run_copy_is_named_as_the_users_file(self) -> None:
        places = load("places")
        with session() as running:
            places.past_the_end[(1,)](torch.zeros(4))
        finding = running.report()["findings"][0]
        self.assertEqual(finding["place"], {"file": SHOWN_PATH, "line": line_of(places, "past")})
        self.assertEqual(running.report()["launches"][0]["file"], SHOWN_PATH)


class Races(MemoryTest):
    def test_programs_that_add_without_atomics(self) -> None:
        x, y = torch.randn(8), torch.zeros(1)
        report = self.launch("sum_without_atomics", (8,), x, y)
        self.assert_found(
            report, "race", "racy-load", "program (1, 0, 0) reads element 0 of `y`", "program (0, 0, 0)"
        )
        self.assert_found(report, "race", "racy-store")
        self.assert_clean(self.launch("sum_with_atomics", (8,), x, y))

    def test_programs_that_store_to_one_element(self) -> None:
        y = torch.zeros(1, dtype=torch.int32)
        self.assert_found(self.launch("everyone_stores", (4,), y, VALUE=None), "race", "everyone")
        report = self.launch("everyone_stores", (4,), y, VALUE=7)
        self.assert_found(report, "benign-race", "everyone-same", "the same bytes")

    def test_shifting_in_place_races_with_the_next_program(self) -> None:
        report = self.launch("shift_in_place", (4,), torch.randn(256), 256, B=64)
        self.assert_found(report, "race", "shift", "which program")

    def test_work_in_place_and_rereading_own_stores_is_clean(self) -> None:
        x = torch.ones(250)
        self.assert_clean(self.launch("scale_in_place", (4,), x, 250, B=64))
        self.assertTrue(torch.equal(x, torch.full((250,), 3.0)))

    def test_a_store_before_everyones_atomics_is_not_ordered(self) -> None:
        report = self.launch("zero_then_add", (4,), torch.zeros(1))
        self.assert_found(report, "race", "zero-then-add", "updates atomically")

    def test_a_lock_orders_what_it_guards(self) -> None:
        x, y = torch.randn(8), torch.zeros(1)
        self.assert_clean(self.launch("with_a_lock", (8,), x, y, torch.zeros(1, dtype=torch.int32)))
        torch.testing.assert_close(y[0], x.sum())

    def test_a_counter_orders_partial_results(self) -> None:
        x, y, counter = torch.randn(8), torch.zeros(8), torch.zeros(1, dtype=torch.int32)
        report = self.launch("last_program_adds_up", (8,), x, torch.zeros(8), counter, y, n=8)
        self.assert_clean(report)
        torch.testing.assert_close(y[0], 2 * x.sum())
        report = self.launch("reads_partials_without_counter", (8,), x, torch.zeros(8), y, n=8)
        self.assertEqual(set(kinds(report)), {"race"})

    def test_waiting_for_a_later_program_cannot_be_judged(self) -> None:
        with session() as running, self.assertRaises(interpreter.InterpreterUnsupported):
            flags = torch.zeros(4, dtype=torch.int32)
            self.kernels.waits_for_the_next_program[(2,)](flags, torch.zeros(2))
        self.assertEqual(running.report()["unsupported"]["code"], "interpreter")
        self.assertEqual(kinds(running.report()), [])

    def test_duplicate_addresses_in_one_store(self) -> None:
        x, y = torch.randn(32), torch.zeros(32)
        report = self.launch("duplicate_addresses", (1,), x, y, B=32)
        self.assert_found(report, "duplicate-store", "duplicates", "element 0 of `y` in 2 lanes")
        self.assert_clean(self.launch("duplicate_addresses", (1,), torch.ones(32), y, B=32))


class Uninitialised(MemoryTest):
    def test_reading_what_nothing_wrote(self) -> None:
        report = self.launch("read_modify_write", (4,), poisoned_empty(250), 250, B=64)
        finding = self.assert_found(report, "uninitialised-read", "read-unset", "element 0 of `y`")
        self.assertEqual(finding["occurrences"], 4)

    def test_memory_written_by_torch_or_an_earlier_launch_is_initialised(self) -> None:
        y = poisoned_empty(250)
        y.zero_()
        self.assert_clean(self.launch("read_modify_write", (4,), y, 250, B=64))
        y = poisoned_empty(250)
        self.assert_clean(self.launch("masked_copy", (4,), torch.zeros(250), y, 250, B=64))
        self.assert_clean(self.launch("read_modify_write", (4,), y, 250, B=64))

    def test_a_freed_storage_is_forgotten(self) -> None:
        for _ in range(20):
            poisoned_empty(250)
            self.assert_clean(self.launch("read_modify_write", (4,), torch.zeros(250), 250, B=64))

    def test_d08_atomics_on_empty_memory(self) -> None:
        x = torch.randn(256)
        report = self.launch("split_sum", (4,), x, poisoned_empty(1), 256, B=64)
        self.assert_found(report, "uninitialised-read", "split", "atomic of element 0")
        y = torch.zeros(1)
        self.assert_clean(self.launch("split_sum", (4,), x, y, 256, B=64))

    def test_d29_rows_that_no_program_writes_keep_their_poison(self) -> None:
        starts, lengths = torch.tensor([0, 4, 4]), torch.tensor([4, 0, 3])
        y = poisoned_empty(3, 8)
        self.assert_clean(self.launch("ragged_rows", (3,), torch.randn(7), y, starts, lengths, B=8))
        self.assertEqual(y.isnan().any(1).tolist(), [False, True, False])


class Overflow(MemoryTest):
    COLUMNS = 4096

    def test_d04_row_offset_beyond_32_bits(self) -> None:
        rows = torch.tensor([0, 524_288, 600_000], dtype=torch.int32)
        x = torch.empty(600_001, self.COLUMNS, dtype=torch.float16)
        y = torch.zeros(3, 16, dtype=torch.float16)
        report = self.launch("row_copy", (3,), rows, x, y, self.COLUMNS, B=16)
        finding = self.assert_found(
            report, "integer-overflow", "overflow", "524288 * 4096 = 2147483648", ".to(tl.int64)"
        )
        self.assertEqual(finding["occurrences"], 2)
        self.assert_clean(self.launch("row_copy_in_64_bits", (3,), rows, x, y, self.COLUMNS, B=16))

    def test_an_annotated_argument_has_its_own_width(self) -> None:
        x, y = torch.empty(2**31 + 8, dtype=torch.int8), torch.zeros(1, dtype=torch.int8)
        self.assert_clean(self.launch("by_annotated_index", (1,), x, y, 2**15, 2**16))

    def test_loop_variables_are_32_bits_wide(self) -> None:
        x, y = torch.empty(2**31 + 2**27, dtype=torch.int8), torch.zeros(3, dtype=torch.int8)
        report = self.launch("loop_variable_overflows", (1,), x, y, 3, STEP=2**30)
        self.assertIn("integer-overflow", kinds(report))

    def test_masked_lanes_may_wrap(self) -> None:
        x, y = torch.empty(2147483000 + 64 * 4, dtype=torch.int8), torch.zeros(64, dtype=torch.int8)
        self.assert_clean(self.launch("masked_lanes_overflow", (1,), x, y, 4, B=64))

    def test_hashes_may_wrap(self) -> None:
        self.assert_clean(self.launch("hashes", (1,), torch.zeros(128, dtype=torch.int32), B=64))


class Asserts(MemoryTest):
    def test_device_assert(self) -> None:
        report = self.launch("asserts", (3,), torch.tensor([1.0, -1.0]), B=2)
        self.assert_found(report, "device-assert", "device-assert", "values must not be negative")
        self.assertEqual(report["launches"][0]["programs_run"], 1)
        self.assert_clean(self.launch("asserts", (1,), torch.ones(2), B=2))


if __name__ == "__main__":
    unittest.main()
