"""What a worker on a GPU is made of, as far as no GPU is needed for it."""

import ctypes
import itertools
import os
import subprocess
import sys
import unittest
from typing import Any

import torch
from warpsmith_worker import arenas, cuda_errors, device_draw, guards, inputs, integers, launches
from warpsmith_worker.arenas import GUARD_BYTES, ArenaPool, OpenedArenas, room_bytes, size_class
from warpsmith_worker.compile_places import place_of_compile_error
from warpsmith_worker.device_start import Device
from warpsmith_worker.dtypes import BY_NAME, by_name
from warpsmith_worker.errors import UserFiles
from warpsmith_worker.shared import OneArena
from warpsmith_worker.zygote_link import environment_of

from .client import ROOT, Worker, tensor

CPU = torch.device("cpu")


class HostMemory:
    """An allocator over host memory, for one process."""

    def __init__(self, most_bytes: int = 1 << 30) -> None:
        self.blocks: dict[int, Any] = {}
        self.most_bytes = most_bytes
        self.made_room = 0
        self.closed: list[int] = []

    def allocate(self, size_bytes: int) -> int:
        if size_bytes + sum(map(len, self.blocks.values())) > self.most_bytes:
            raise MemoryError("full")
        block = (ctypes.c_ubyte * (size_bytes + 512))()
        pointer = -(-ctypes.addressof(block) // 512) * 512
        self.blocks[pointer] = block
        return pointer

    def free(self, pointer: int) -> None:
        del self.blocks[pointer]

    def handle(self, pointer: int) -> bytes:
        return pointer.to_bytes(64, "little")

    def open(self, handle: bytes) -> int:
        return int.from_bytes(handle, "little")

    def close(self, pointer: int) -> None:
        self.closed.append(pointer)

    def tensor(self, pointer: int, size_bytes: int, owner: Any = None) -> torch.Tensor:
        block = (ctypes.c_ubyte * size_bytes).from_address(pointer)
        block.owner = owner
        return torch.frombuffer(block, dtype=torch.uint8)

    def make_room(self) -> None:
        self.made_room += 1


class Arenas(unittest.TestCase):
    def setUp(self) -> None:
        self.memory = HostMemory()
        self.pool = ArenaPool(self.memory, CPU)

    def test_storages_are_aligned_and_apart(self) -> None:
        arena = self.pool.arena(sum(map(room_bytes, (1, 300, 4096))))
        rooms = [arena.take(size) for size in (1, 300, 4096)]
        for room in rooms:
            self.assertEqual(room.offset_bytes % arenas.ALIGNMENT_BYTES, 0)
            self.assertEqual(room.before.numel(), GUARD_BYTES)
            self.assertGreaterEqual(room.after.numel(), GUARD_BYTES)
            self.assertEqual(room.after.data_ptr(), room.storage.data_ptr() + room.storage.numel())
        for one, other in itertools.pairwise(rooms):
            self.assertLessEqual(one.after.data_ptr() + one.after.numel(), other.before.data_ptr())
        self.assertEqual(len({room.storage.untyped_storage()._cdata for room in rooms}), 3)

    def test_nothing_is_taken_beyond_the_end(self) -> None:
        arena = self.pool.arena(room_bytes(8))
        arena.take(arena.size_bytes - 2 * GUARD_BYTES)
        with self.assertRaises(ValueError):
            arena.take(1)

    def test_one_byte_on_either_side_is_seen(self) -> None:
        room = self.pool.arena(room_bytes(100)).take(100)
        room.guard(self.pool.pattern)
        self.assertTrue(room.is_intact(self.pool.pattern))
        for side, at in ((room.before, -1), (room.before, 0), (room.after, 0), (room.after, -1)):
            kept = int(side[at])
            side[at] = (kept + 1) % 256
            self.assertFalse(room.is_intact(self.pool.pattern))
            side[at] = kept
        room.storage.fill_(7)
        self.assertTrue(room.is_intact(self.pool.pattern))

    def test_damage_is_named_once(self) -> None:
        memory = OneArena(self.pool, [64, 64])
        spec = {"dtype": "float32", "shape": [16]}
        items = [memory.make(name, {"name": name, **spec}, [1], mapped=True) for name in ("x", "y")]
        self.assertEqual(memory.damaged(items), [])
        items[1].room.after[3] += 1
        self.assertEqual(memory.damaged(items), ["y"])
        self.assertEqual(memory.damaged(items), [])

    def test_what_is_not_looked_at_is_not_written(self) -> None:
        memory = OneArena(self.pool, [64])
        item = memory.make("x", {"name": "x", "dtype": "float32", "shape": [16]}, [1], mapped=False)
        self.assertIsNone(item.shared)
        self.assertEqual(int(item.room.before.sum()), 0)
        self.assertEqual(item.record()["device_memory"]["arena_bytes"], 2 << 20)
        self.assertFalse(item.record()["has_memory"])

    def test_a_freed_arena_serves_the_next_case_of_its_size(self) -> None:
        first = self.pool.arena(3 << 20)
        self.pool.give_back(first)
        self.assertIs(self.pool.arena((3 << 20) + 5), first)
        self.assertIsNot(self.pool.arena(3 << 20), first)
        self.assertEqual(self.pool.kept_bytes, 0)

    def test_kept_arenas_make_room(self) -> None:
        self.memory.most_bytes = 5 << 20
        first = self.pool.arena(1 << 20)
        self.pool.give_back(first)
        self.pool.arena(4 << 20)
        self.assertEqual(self.memory.made_room, 1)
        with self.assertRaises(MemoryError):
            self.pool.arena(4 << 20)

    def test_sizes(self) -> None:
        self.assertEqual(size_class(1), 2 << 20)
        for size in ((2 << 20) + 1, 10 << 20, (1 << 30) + 1, 5 << 30):
            self.assertGreaterEqual(size_class(size), size)
            self.assertLessEqual(size_class(size), size + max(2 << 20, size // 4))

    def test_a_candidate_opens_an_arena_once(self) -> None:
        arena = self.pool.arena(room_bytes(64))
        room = arena.take(64)
        room.storage.fill_(9)
        opened = OpenedArenas(self.memory)
        seen = opened.storage(room.record(), 64)
        self.assertTrue(bool((seen == 9).all()))
        self.assertEqual(opened.storage(room.record(), 64).data_ptr(), seen.data_ptr())
        # Another arena at the same address: the old mapping ends, but not before its last tensor.
        opened.storage({**room.record(), "arena": "another"}, 64)
        self.assertEqual(self.memory.closed, [])
        del seen
        self.assertEqual(self.memory.closed, [arena.pointer])


class Draws(unittest.TestCase):
    FILLS = (
        {"normal": {"mean": 0.3, "std": 1.7}},
        {"uniform": {"low": -0.3, "high": 2.1}},
        {"integers": {"low": -5, "high": 9}},
        {"integers": {"low": -(2**31), "high": 2**31}},
    )

    def test_the_same_bits_as_on_the_host(self) -> None:
        for name, element in BY_NAME.items():
            for fill in self.FILLS:
                host, device = (torch.empty(10007, dtype=element.torch) for _ in range(2))
                inputs.fill_tensor(host, fill, 0xDEADBEEFCAFEBABE, 3)
                ((kind, parameters),) = fill.items()
                inputs.fill_in_place(device, kind, parameters, 0xDEADBEEFCAFEBABE, 3)
                self.assertTrue(torch.equal(host.view(element.bits), device.view(element.bits)), (name, fill))

    def test_the_same_roundings(self) -> None:
        values = torch.randn(101, 7, generator=torch.Generator().manual_seed(1))
        for draw in (0, 5, 31):
            signs = device_draw.signs(values.numel(), 7, 2, draw, CPU).reshape(values.shape)
            expected = inputs.perturbed(values, 2.0**-23, 7, 2, draw)
            self.assertTrue(torch.equal(expected, values.double() * (signs * 2.0**-23 + 1)))
        moves = device_draw.moves(values.numel(), 7, 2, CPU).reshape(values.shape)
        expected = integers.reordered(values, 2.0**-23, 7, 2, back=False)
        self.assertTrue(torch.equal(expected, values.double() * (moves * 2.0**-23 + 1) + 1e-300 * moves))


class Guards(unittest.TestCase):
    def setUp(self) -> None:
        self.place = {"file": "/w/k.py", "line": 3}
        memory = HostMemory()
        self.guards = guards.Guards(CPU, memory.tensor, lambda: None, lambda: self.place)

    def test_what_torch_empty_gives_keeps_its_form(self) -> None:
        like = torch.zeros(4, 6).t()
        with self.guards.active(other_pattern=False):
            made = [
                torch.empty(3, 5, dtype=torch.float16),
                torch.empty_like(like),
                torch.empty_strided((2, 3), (5, 1)),
                torch.empty_permuted((2, 3, 4), (0, 2, 1)),
                like.new_empty((7,), dtype=torch.int64),
                like.new_empty_strided((2, 2), (1, 2)),
                like.new(5),
                torch.empty(4, requires_grad=True),
                torch.empty((2, 3, 4, 4), memory_format=torch.channels_last),
            ]
            plain = [torch.zeros(3), torch.empty(0), torch.ones(2)]
            others = [torch.empty(3, dtype=torch.uint8), torch.empty(2, dtype=torch.complex64)]
        # Dtypes without a poison pattern are guarded all the same.
        self.assertEqual(len(self.guards._blocks), len(made) + len(others))
        strides = [tuple(tensor.stride()) for tensor in made]
        expected = [(5, 1), (1, 6), (5, 1), (12, 1, 3), (1,), (1, 2), (1,), (1,), (48, 1, 12, 3)]
        self.assertEqual(strides, expected)
        for tensor_made in made:
            element = by_name(str(tensor_made.dtype).removeprefix("torch."))
            bits = tensor_made.detach().view(element.bits)
            self.assertTrue(bool((bits == element.poison).all()), tensor_made.dtype)
            self.assertEqual(tensor_made.storage_offset(), 0)
            self.assertFalse(tensor_made._is_view())
        self.assertTrue(made[7].requires_grad)
        self.assertEqual([int(tensor_made.sum()) for tensor_made in plain], [0, 0, 2])
        self.assertEqual(self.guards.damages(), [])

    def test_a_store_beside_it_is_found(self) -> None:
        with self.guards.active(other_pattern=False):
            first, second = torch.empty(4), torch.empty(2, 3)
        for tensor_made, begin, end in ((first, 16, 19), (second, -8, 0)):
            beside = (ctypes.c_ubyte * (end - begin)).from_address(tensor_made.data_ptr() + begin)
            for at in range(end - begin):
                beside[at] = (beside[at] + 1) % 256
        one, other = self.guards.damages()
        self.assertEqual((one.before, one.after, one.block.shape), (0, 3, [4]))
        self.assertEqual((other.before, other.after, other.block.shape), (8, 0, [2, 3]))
        self.assertIn("wrote 3 bytes behind the memory of a tensor that `torch.empty` made", one.message)
        self.assertEqual(one.block.place, self.place)
        self.assertEqual(self.guards.damages(), [])

    def test_the_other_pattern(self) -> None:
        with self.guards.active(other_pattern=True):
            made = torch.empty(4)
        self.assertTrue(bool(made.isfinite().all()) and float(made[0]) > 1e30)

    def test_those_that_nobody_uses_are_let_go(self) -> None:
        with self.guards.active(other_pattern=False):
            kept = torch.empty(7)
            for _ in range(3):
                torch.empty(5)
            ctypes.c_ubyte.from_address(kept.data_ptr() + 28).value ^= 1
            del kept
            alive = torch.empty(9)
            self.guards._let_go_of_dead()
            self.assertEqual([block.shape for block in self.guards._blocks], [[9]])
            ctypes.c_ubyte.from_address(alive.data_ptr() - 1).value ^= 1
        self.assertEqual([damage.block.shape for damage in self.guards.damages()], [[7], [9]])

    def test_the_memory_lives_as_long_as_its_tensor(self) -> None:
        with self.guards.active(other_pattern=False):
            made = torch.empty(1000)
        self.guards.damages()
        others = [torch.zeros(3000) for _ in range(50)]
        self.assertTrue(bool(made.isnan().all()), len(others))


def error(name: str, text: str, *, base: type = RuntimeError, module: str = "torch") -> BaseException:
    return type(name, (base,), {"__module__": module})(text)


class Errors(unittest.TestCase):
    def test_codes(self) -> None:
        accelerator = "AcceleratorError"
        for kind, text, code in (
            (
                accelerator,
                "CUDA error: an illegal memory access was encountered\nSearch for",
                "illegal-access",
            ),
            (
                "RuntimeError",
                "Triton Error [CUDA]: an illegal memory access was encountered",
                "illegal-access",
            ),
            (accelerator, "CUDA error: misaligned address", "misaligned-access"),
            (accelerator, "CUDA error: an illegal instruction was encountered", "illegal-instruction"),
            (accelerator, "CUDA error: device-side assert triggered", "device-assert"),
            (accelerator, "CUDA error: the launch timed out and was terminated", "launch-timeout"),
            (accelerator, "CUDA error: unspecified launch failure", "launch-failed"),
            (accelerator, "CUDA error: uncorrectable ECC error encountered", "device-lost"),
            (accelerator, "CUDA error: invalid device ordinal", "cuda-error"),
            ("RuntimeError", "Triton Error [CUDA]: invalid argument", "cuda-error"),
            ("RuntimeError", "CUDA error: too many resources requested for launch", "out-of-resources"),
            ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 GiB.", "out-of-memory"),
            ("RuntimeError", "Triton Error [CUDA]: out of memory", "out-of-memory"),
            ("RuntimeError", "the size of tensor a must match", None),
            ("ValueError", "CUDA error: an illegal memory access was encountered", None),
        ):
            base = ValueError if kind == "ValueError" else RuntimeError
            self.assertEqual(cuda_errors.code_of(error(kind, text, base=base)), code, text)
            # torch adds advice to every error, which names a fault of its own.
            advised = f"{text}\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
            self.assertEqual(cuda_errors.code_of(error(kind, advised, base=base)), code, advised)

    def test_triton_classes(self) -> None:
        from triton.compiler.errors import CompilationError
        from triton.runtime.errors import OutOfResources

        self.assertEqual(
            cuda_errors.code_of(OutOfResources(300000, 232448, "shared memory")), "out-of-resources"
        )
        self.assertEqual(cuda_errors.code_of(CompilationError("def f(): pass", None, "no")), "compile-error")

    def test_which_end_a_context(self) -> None:
        self.assertTrue(cuda_errors.is_broken_context(RuntimeError("CUDA error: misaligned address")))
        self.assertFalse(cuda_errors.is_broken_context(RuntimeError("CUDA error: invalid argument")))

    def test_the_text_of_an_assertion(self) -> None:
        printed = (
            "hello\n/w/k.py:12: kernel: block: [0,0,0], thread: [5,0,0] Assertion `x > 0` failed.\n"
            "/w/k.py:12: kernel: block: [0,0,0], thread: [6,0,0] Assertion `x > 0` failed.\n"
        )
        line, file, number = cuda_errors.assertion_in(printed)
        self.assertEqual((file, number), ("/w/k.py", 12))
        self.assertTrue(line.endswith("thread: [5,0,0] Assertion `x > 0` failed."))
        self.assertIsNone(cuda_errors.assertion_in("nothing"))

    def test_advice_is_left_out(self) -> None:
        told = cuda_errors.sentence_of(RuntimeError("CUDA error: misaligned address\nCUDA_LAUNCH_BLOCKING=1"))
        self.assertEqual(told, "CUDA error: misaligned address")


def kernel_text(x: Any) -> None:
    return undefined(x)  # noqa: F821


class Kernel:
    """Stands for `JITFunction`."""

    def __init__(self, function: Any = kernel_text) -> None:
        import inspect

        self.fn = function
        self.__name__ = function.__name__
        self.raw_src, self.starting_line_number = inspect.getsourcelines(function)
        self.src = "".join(self.raw_src)
        self.__globals__ = function.__globals__
        self.ran: list[Any] = []
        self.only_compiled: list[bool] = []

    def run(self, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        self.only_compiled.append(warmup)
        self.ran.append(grid(named) if callable(grid) else grid)
        return arguments


class Config:
    def __init__(self, **values: Any) -> None:
        self.kwargs, self.num_warps, self.num_stages, self.pre_hook = values, 4, 2, None

    def all_kwargs(self) -> dict[str, Any]:
        return self.kwargs


class Tuner:
    """Stands for `Autotuner`."""

    def __init__(self, kernel: Any, configs: list[Config]) -> None:
        self.fn, self.configs, self.base_fn = kernel, configs, kernel.fn
        self.arg_names = ["x"]
        self.cache: dict[Any, Any] = {}
        self.nargs: Any = None
        self.tunings = 0

    def prune_configs(self, _kwargs: Any) -> list[Config]:
        return self.configs[1:]

    def run(self, *arguments: Any, **named: Any) -> Any:
        if "key" not in self.cache:
            self.tunings += 1
            self.cache["key"] = self.configs[1]
        return self.fn.run(*arguments, warmup=False, **named, **self.cache["key"].all_kwargs())


class Launches(unittest.TestCase):
    FILES = UserFiles(__file__, "/w/k.py")

    @classmethod
    def setUpClass(cls) -> None:
        true = Kernel.run, Tuner.run
        launches.record_launches(Kernel)
        launches.choose_configurations(Tuner)

        def restore() -> None:
            Kernel.run, Tuner.run = true

        cls.addClassCleanup(restore)

    def test_equal_ones_are_merged_and_a_grid_is_asked_once(self) -> None:
        kernel, asked = Kernel(), []

        def grid(constants: Any) -> Any:
            asked.append(constants)
            return (constants["BLOCK"], 2)

        with launches.DeviceSession(self.FILES) as session:
            for _ in range(3):
                kernel.run(1, grid=(5,), warmup=False)
            kernel.run(1, grid=grid, warmup=False, BLOCK=4)
            kernel.run(1, grid=(9,), warmup=True)
        kernel.run(1, grid=(7,), warmup=False)
        first, second = session.report()["launches"]
        self.assertEqual((first["grid"], first["programs"], first["programs_run"]), ([5, 1, 1], 5, 5))
        self.assertEqual((second["grid"], second["programs"]), ([4, 2, 1], 8))
        self.assertEqual((first["kernel"], first["file"]), ("kernel_text", "/w/k.py"))
        self.assertEqual(first["line"], kernel_text.__code__.co_firstlineno)
        self.assertEqual(asked, [{"BLOCK": 4}])
        self.assertEqual(kernel.ran[:4], [(5,), (5,), (5,), (4, 2)])
        self.assertEqual(session.told_kernels(), "`kernel_text`")

    def test_idle_kernels_are_compiled_and_told(self) -> None:
        kernel = Kernel()
        with launches.DeviceSession(self.FILES, idle_kernels=True) as session:
            kernel.run(1, grid=(5,), warmup=False)
            kernel.run(1, grid=lambda _constants: (3,), warmup=False)
        kernel.run(1, grid=(7,), warmup=False)
        self.assertEqual(kernel.only_compiled, [True, True, False])
        self.assertEqual([launch["programs"] for launch in session.report()["launches"]], [5, 1])

    def test_idle_kernels_are_not_tuned(self) -> None:
        kernel = Kernel()
        tuner = Tuner(kernel, [Config(BLOCK=at + 1) for at in range(3)])
        with launches.DeviceSession(self.FILES, idle_kernels=True):
            for _ in range(2):
                tuner.run(1, grid=(1,), warmup=False)
        self.assertEqual((tuner.tunings, kernel.only_compiled), (0, [True, True]))

    def test_a_number_of_records_is_enough(self) -> None:
        kernel = Kernel()
        with launches.DeviceSession(self.FILES) as session:
            for size in range(1, 5000):
                kernel.run(grid=(size,), warmup=False)
        self.assertEqual(len(session.report()["launches"]), 4096)

    def test_one_configuration_alone(self) -> None:
        for index, expected in ((0, 2), (1, 3), (7, 2)):
            kernel = Kernel()
            tuner = Tuner(kernel, [Config(BLOCK=at + 1) for at in range(3)])
            with launches.DeviceSession(self.FILES, {"only": index}) as session:
                tuner.run(1, grid=lambda constants: (constants["BLOCK"],), warmup=False)
            self.assertEqual(kernel.ran, [(expected,)])
            self.assertEqual(tuner.tunings, 0)
            (told,) = session.report()["autotuned"]
            self.assertEqual(told["configurations"][0], "BLOCK=2 num_warps=4 num_stages=2")
            self.assertEqual(len(told["configurations"]), 2)

    def test_a_trial_tunes_afresh_once(self) -> None:
        tuner = Tuner(Kernel(), [Config(BLOCK=at + 1) for at in range(3)])
        for autotune, tunings in (("drawn", 1), ("drawn", 1), ("trial", 2), ("trial", 3)):
            with launches.DeviceSession(self.FILES, autotune):
                for _ in range(2):
                    tuner.run(1, grid=(1,))
            self.assertEqual(tuner.tunings, tunings)

    def test_where_a_kernel_does_not_compile(self) -> None:
        from triton.compiler.errors import CompilationError

        kernel = Kernel()
        node = type("Node", (), {"lineno": 2, "col_offset": 4})()
        inner = CompilationError(kernel.src, node, "undefined is not defined")
        outer = CompilationError("def outer(): inner()", node)
        outer.__cause__ = inner
        found = place_of_compile_error(outer, [kernel], self.FILES)
        line = kernel_text.__code__.co_firstlineno + 1
        self.assertEqual(found, {"file": "/w/k.py", "line": line})
        self.assertIsNone(place_of_compile_error(outer, [], self.FILES))


class Starts(unittest.TestCase):
    def test_environment_of_the_zygote(self) -> None:
        inherited = {
            "TRITON_INTERPRET": "1",
            "CUDA_VISIBLE_DEVICES": "3",
            "CUDA_LAUNCH_BLOCKING": "1",
            "A": "b",
        }
        on_cpu = environment_of(None, inherited)
        self.assertEqual((on_cpu["TRITON_INTERPRET"], on_cpu["CUDA_VISIBLE_DEVICES"]), ("1", ""))
        on_gpu = environment_of(Device("cuda:3", "GPU-1"), inherited)
        self.assertNotIn("TRITON_INTERPRET", on_gpu)
        self.assertNotIn("CUDA_LAUNCH_BLOCKING", on_gpu)
        self.assertEqual((on_gpu["CUDA_VISIBLE_DEVICES"], on_gpu["A"]), ("GPU-1", "b"))
        self.assertEqual(on_gpu["CUDA_DEVICE_ORDER"], "PCI_BUS_ID")

    def test_the_zygote_of_a_gpu_never_initialises_cuda(self) -> None:
        # It would send `unavailable` otherwise, which names the reason; here the driver is what is missing.
        worker = Worker(device=("cuda:1", "GPU-that-is-not-there"))
        self.addCleanup(worker.close)
        self.assertEqual(worker.event("ready")["device"], "cuda:1")
        told = worker.event("unavailable")
        self.assertIn(told["code"], ("no-driver", "no-device"), told)
        for reply in (worker.ask("device-state"), worker.define("x", "def run(x):\n    return x")):
            self.assertEqual(reply["failed"]["code"], told["code"])
        case = worker.ask(
            "prepare", case="c", definition="x", seed=1, inputs=[tensor("x", [2])], outputs=[], wall_s=1.0
        )
        self.assertEqual(case["failed"]["code"], told["code"])

    def test_half_a_device_is_refused(self) -> None:
        main = os.path.join(ROOT, "src/runner/python/main.py")
        ended = subprocess.run(
            [sys.executable, "-I", main, "--device", "cuda:0"], capture_output=True, check=False, timeout=60
        )
        self.assertEqual(ended.returncode, 2)


if __name__ == "__main__":
    unittest.main()
