"""A worker on a pretended GPU: device memory is shared memory of the host, and torch computes on the CPU.

Started like the real `main.py`. It shows that everything around a GPU fits together: start, arenas, guards,
what is told. Nothing of CUDA itself is in it.
"""

import ctypes
import mmap
import os
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PYTHON = os.path.join(ROOT, "src", "runner", "python")
# What the test wants to go wrong, by name.
FAULT = os.environ.get("WARPSMITH_FAKE_GPU_FAULT", "")
TOTAL_BYTES = 1 << 30
sys.path.insert(0, PYTHON)


class FakeDriver:
    """The calls of `cuda_driver.Driver` on memory files."""

    def __init__(self):
        self.files = {}
        self.broken = None

    def allocate(self, size_bytes):
        if size_bytes + sum(size for _, size, _ in self.files.values()) > TOTAL_BYTES:
            raise MemoryError(f"the GPU has no {size_bytes} bytes left")
        descriptor = os.memfd_create("fake-gpu")
        os.ftruncate(descriptor, size_bytes)
        pointer, mapping = _map(descriptor, size_bytes)
        self.files[pointer] = descriptor, size_bytes, mapping
        return pointer

    def free(self, pointer):
        descriptor, _size, _mapping = self.files.pop(pointer)
        os.close(descriptor)

    def handle(self, pointer):
        descriptor, size_bytes, _mapping = self.files[pointer]
        return f"{os.getpid()}/{descriptor}/{size_bytes}".encode().ljust(64, b"\0")

    def open(self, handle):
        if FAULT == "ipc":
            raise RuntimeError("CUDA error: invalid device context")
        pid, descriptor, size_bytes = handle.rstrip(b"\0").decode().split("/")
        opened = os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDWR)
        pointer, mapping = _map(opened, int(size_bytes))
        os.close(opened)
        self.files[pointer] = -1, 0, mapping
        return pointer

    def close(self, pointer):
        self.files.pop(pointer)

    def synchronize(self):
        words = os.environ.get("WARPSMITH_FAKE_GPU_ERROR")
        if words:
            from warpsmith_worker.cuda_driver import DriverError

            raise DriverError("cuCtxSynchronize", 700, words)

    @staticmethod
    def tensor(pointer, size_bytes, owner=None):
        import torch

        block = (ctypes.c_ubyte * size_bytes).from_address(pointer)
        block.owner = owner
        return torch.frombuffer(block, dtype=torch.uint8)

    @staticmethod
    def make_room():
        pass


def _map(descriptor, size_bytes):
    mapping = mmap.mmap(descriptor, size_bytes)
    return ctypes.addressof(ctypes.c_ubyte.from_buffer(mapping)), mapping


def open_context():
    if FAULT == "unusable":
        from warpsmith_worker.cuda_driver import DeviceUnavailable

        raise DeviceUnavailable("device-unusable", "PyTorch cannot use the GPU: no kernel image. Get another")
    return FakeDriver()


def pretend():
    # As the zygote does it: with this variable there would be nothing to launch.
    os.environ.pop("TRITON_INTERPRET", None)
    import torch
    from warpsmith_worker import ceilings, cuda_driver, event_clock, place

    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import fake_launch
    from host_clock import HostClock

    fake_launch.pretend()
    # What a CPU can do in a moment.
    ceilings.CudaClock, ceilings.BANDWIDTH_BYTES, ceilings.MATRIX_SIDES = HostClock, (1 << 16, 1 << 18), (64,)
    ceilings.Ceilings.__init__.__defaults__ = ("cpu",)

    event_clock.CudaClock = HostClock
    state = {"on": False}
    place.use_gpu = lambda: state.update(on=True)
    place.is_gpu = lambda: state["on"]
    place.generator_state = torch.get_rng_state
    cuda_driver.open_context = open_context
    cuda_driver.describe_device = lambda name, visible: {
        "device": name,
        "name": "Fake",
        "uuid": visible,
        "capability": [9, 0],
        "torch_cuda": "13.0",
    }
    torch.cuda.mem_get_info = lambda _device: (TOTAL_BYTES // 2, TOTAL_BYTES)
    torch.cuda.set_per_process_memory_fraction = lambda _fraction, _device: None


def main(arguments):
    if arguments[0].isdigit():
        pretend()
        from warpsmith_worker import returned, zygote

        # Here everything is on the CPU: what says so is on the GPU.
        returned.memory_device = lambda tensor: "cpu" if tensor.device.type != "meta" else "meta"
        is_gpu = returned.place.is_gpu

        class Place:
            current = staticmethod(returned.place.current)
            is_gpu = staticmethod(lambda: False)

        returned.place = Place
        assert not is_gpu()
        zygote.main(int(arguments[0]), *arguments[1:2])
        return
    from warpsmith_worker import supervisor, zygote_link

    class Popen(subprocess.Popen):
        def __init__(self, command, **options):
            here = [os.path.abspath(__file__) if part.endswith("main.py") else part for part in command]
            super().__init__(here, **options)

    zygote_link.subprocess.Popen = Popen
    supervisor.main(arguments[1], arguments[3])


if __name__ == "__main__":
    main(sys.argv[1:])
