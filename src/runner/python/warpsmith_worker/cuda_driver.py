"""The CUDA driver through ctypes: memory that another process may open, and a context that torch shares.

torch's own allocator cuts its blocks into pieces that cannot be exported one by one. What crosses between
processes is therefore allocated with the driver, in the primary context that torch uses as well.
"""

import ctypes
import sys
from typing import Any

import torch

_LIBRARY = "libcuda.so.1"
_HANDLE_BYTES = 64
_LAZY_PEER_ACCESS = 1
_OUT_OF_MEMORY = 2
_NO_DEVICE = 100


class DeviceUnavailable(Exception):
    """The GPU cannot be used; `code` is that of the event `unavailable`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class DriverError(Exception):
    """A call of the driver failed; `number` is its CUresult."""

    def __init__(self, call: str, number: int, words: str) -> None:
        super().__init__(f"CUDA error: {words} ({call} returned {number})")
        self.number = number


class _Handle(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_char * _HANDLE_BYTES),)


class Driver:
    """Calls of libcuda. Bound before any user code is imported, so that nobody can replace them."""

    def __init__(self, library: Any) -> None:
        self._library = library
        library.cuIpcOpenMemHandle_v2.argtypes = (ctypes.POINTER(ctypes.c_uint64), _Handle, ctypes.c_uint)
        library.cuIpcGetMemHandle.argtypes = (ctypes.POINTER(_Handle), ctypes.c_uint64)
        library.cuIpcCloseMemHandle.argtypes = (ctypes.c_uint64,)
        library.cuMemAlloc_v2.argtypes = (ctypes.POINTER(ctypes.c_uint64), ctypes.c_size_t)
        library.cuMemFree_v2.argtypes = (ctypes.c_uint64,)
        library.cuGetErrorString.argtypes = (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p))
        self._synchronize = library.cuCtxSynchronize

    def allocate(self, size_bytes: int) -> int:
        """A block of device memory. Raises MemoryError when there is none."""
        pointer = ctypes.c_uint64()
        status = self._library.cuMemAlloc_v2(ctypes.byref(pointer), size_bytes)
        if status == _OUT_OF_MEMORY:
            raise MemoryError(f"the GPU has no {size_bytes} bytes left")
        self._check("cuMemAlloc", status)
        return pointer.value

    def free(self, pointer: int) -> None:
        self._check("cuMemFree", self._library.cuMemFree_v2(pointer))

    def handle(self, pointer: int) -> bytes:
        """What another process opens the block with."""
        handle = _Handle()
        self._check("cuIpcGetMemHandle", self._library.cuIpcGetMemHandle(ctypes.byref(handle), pointer))
        return bytes(handle)

    def open(self, handle: bytes) -> int:
        """Map a block of another process."""
        pointer = ctypes.c_uint64()
        opened = self._library.cuIpcOpenMemHandle_v2(
            ctypes.byref(pointer), _Handle.from_buffer_copy(handle), _LAZY_PEER_ACCESS
        )
        self._check("cuIpcOpenMemHandle", opened)
        return pointer.value

    def close(self, pointer: int) -> None:
        self._check("cuIpcCloseMemHandle", self._library.cuIpcCloseMemHandle(pointer))

    def synchronize(self) -> None:
        """Wait for everything that was launched in this context. Raises DriverError when something failed."""
        self._check("cuCtxSynchronize", self._synchronize())

    @staticmethod
    def tensor(pointer: int, size_bytes: int, owner: Any = None) -> torch.Tensor:
        """A uint8 tensor over device memory, with a storage of its own that keeps `owner` alive."""
        return torch.as_tensor(_Memory(pointer, size_bytes, owner), device="cuda:0")

    @staticmethod
    def make_room() -> None:
        """Give back what torch's allocator keeps for later."""
        torch.cuda.empty_cache()

    def _check(self, call: str, status: int) -> None:
        if status:
            words = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(words))
            raise DriverError(call, status, (words.value or b"unknown error").decode("utf-8", "replace"))


class _Memory:
    """Device memory in the form in which torch takes it without a copy."""

    def __init__(self, pointer: int, size_bytes: int, owner: Any) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (size_bytes,),
            "strides": None,
            "data": (pointer, False),
        }


def open_context() -> Driver:
    """Open torch's context on the only visible GPU and run one small kernel. Raises DeviceUnavailable."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        told = f"there is no NVIDIA driver on this machine ({error}): install one, or check without a GPU"
        raise DeviceUnavailable("no-driver", told) from None
    driver = Driver(library)
    status = library.cuInit(0)
    count = ctypes.c_int()
    if status == 0:
        status = library.cuDeviceGetCount(ctypes.byref(count))
    if status == _NO_DEVICE or (status == 0 and count.value == 0):
        raise DeviceUnavailable("no-device", "the driver shows this process no GPU of the name it was given")
    try:
        driver._check("cuInit", status)
    except DriverError as error:
        raise DeviceUnavailable("device-unusable", f"the driver does not start: {error}") from None
    if torch.version.cuda is None:
        raise DeviceUnavailable("device-unusable", _advice("this PyTorch was built without CUDA"))
    try:
        torch.cuda.init()
        if int((torch.zeros(1, device="cuda:0") + 1).item()) != 1:
            raise RuntimeError("the GPU cannot add")
        driver.synchronize()
    except Exception as error:
        told = f"PyTorch cannot use the GPU: {type(error).__name__}: {error}"
        raise DeviceUnavailable("device-unusable", _advice(told)) from None
    return driver


def _advice(told: str) -> str:
    built_for = f" (it was built for CUDA {torch.version.cuda})" if torch.version.cuda else ""
    return (
        f"{told.strip()}. Install a PyTorch for the CUDA version of this machine's driver into "
        f"{sys.executable}, or a newer driver{built_for}"
    )


def describe_device(name: str, visible: str) -> dict[str, Any]:
    """What `WarmDevice` says of the GPU: `name` is `cuda:N`, `visible` what it was chosen by."""
    properties = torch.cuda.get_device_properties(0)
    uuid = visible if visible.startswith(("GPU-", "MIG-")) else ""
    if not uuid and getattr(properties, "uuid", None) is not None:
        uuid = f"GPU-{properties.uuid}"
    return {
        "device": name,
        "name": properties.name,
        "uuid": uuid,
        "capability": [properties.major, properties.minor],
        "torch_cuda": str(torch.version.cuda),
    }
