"""Shared storages: guard pages, alignment, sizes that cannot change, lifetime."""

import ctypes
import os
import signal
import unittest
from collections.abc import Callable

import torch
from warpsmith_worker import memory


def signal_in_child(action: Callable[[], object]) -> int | None:
    """The signal that ends a forked copy of this process which does it."""
    pid = os.fork()
    if pid == 0:
        action()
        os._exit(0)
    _pid, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else None


def mapped(storage_bytes: int) -> torch.Tensor:
    descriptor = memory.create_file("test", storage_bytes)
    try:
        return memory.map_storage(descriptor, storage_bytes)
    finally:
        os.close(descriptor)


class GuardPages(unittest.TestCase):
    def test_the_storage_is_exact_and_aligned(self) -> None:
        for size in (1, 15, 16, 17, 4096, 4097, 100_000):
            storage = mapped(size)
            self.assertEqual(storage.untyped_storage().nbytes(), size)
            self.assertEqual(storage.data_ptr() % 16, 0)
            storage.fill_(7)
            self.assertEqual(int(storage.sum()), 7 * size)

    def test_past_the_end_is_a_crash(self) -> None:
        for size in (16, 4096, 4096 + 48):
            storage = mapped(size)
            end = storage.data_ptr() + size
            self.assertEqual(signal_in_child(lambda end=end: ctypes.string_at(end, 1)), signal.SIGSEGV)
            self.assertIsNone(signal_in_child(lambda end=end: ctypes.string_at(end - 1, 1)))

    def test_before_the_first_page_is_a_crash(self) -> None:
        storage = mapped(4096)
        start = storage.data_ptr()
        self.assertEqual(signal_in_child(lambda: ctypes.string_at(start - 1, 1)), signal.SIGSEGV)

    def test_unmapped_with_the_last_tensor(self) -> None:
        storage = mapped(4096)
        view = storage.view(torch.float32)[3:5]
        address = storage.data_ptr()
        del storage
        self.assertEqual(view.tolist(), [0.0, 0.0])
        del view
        self.assertEqual(signal_in_child(lambda: ctypes.string_at(address, 1)), signal.SIGSEGV)


class Files(unittest.TestCase):
    def test_two_mappings_share(self) -> None:
        descriptor = memory.create_file("test", 40)
        first, second = memory.map_storage(descriptor, 40), memory.map_storage(descriptor, 40)
        os.close(descriptor)
        memory.view_storage(first, torch.float32, [10], [1]).copy_(torch.arange(10.0))
        self.assertEqual(memory.view_storage(second, torch.float32, [10], [1]).tolist(), list(range(10)))

    def test_nobody_can_cut_or_grow_it(self) -> None:
        descriptor = memory.create_file("test", 100)
        for size in (0, 1 << 20):
            with self.assertRaises(PermissionError):
                os.ftruncate(descriptor, size)
        os.close(descriptor)

    def test_untouched_memory_costs_nothing(self) -> None:
        descriptor = memory.create_file("huge", 1 << 40)
        self.assertEqual(os.fstat(descriptor).st_blocks, 0)
        storage = memory.map_storage(descriptor, 1 << 40)
        self.assertEqual(int(storage[-1]), 0)
        self.assertLess(os.fstat(descriptor).st_blocks * 512, 1 << 23)
        os.close(descriptor)

    def test_no_room_is_a_memory_error(self) -> None:
        descriptor = memory.create_file("test", 100)
        with self.assertRaises(MemoryError):
            memory.map_storage(descriptor, 1 << 47)
        os.close(descriptor)


class Strides(unittest.TestCase):
    def test_storage_holds_what_the_strides_reach(self) -> None:
        for shape, strides in (
            ([2, 3], [3, 1]),
            ([2, 3], [8, 2]),
            ([4, 1], [0, 1]),
            ([], []),
            ([0, 9], [9, 1]),
        ):
            expected = torch.empty_strided(shape, strides, device="meta").untyped_storage().nbytes() // 4
            self.assertEqual(memory.storage_elements(shape, strides), expected)

    def test_contiguous_strides_are_those_of_torch(self) -> None:
        for shape in ([], [5], [2, 3, 4], [2, 0, 4], [0], [3, 1, 1]):
            strides = memory.contiguous_strides(shape)
            self.assertEqual(strides, list(torch.empty(shape).stride()), shape)


if __name__ == "__main__":
    unittest.main()
