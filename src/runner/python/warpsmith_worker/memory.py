"""Tensors in memory files that two processes map, between guard pages.

The storage of a tensor ends as close to the end of its last page as 16-byte alignment allows, and the pages
around it may not be touched: running past the end by more than 15 bytes is a crash, never a silent read.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import weakref
from collections.abc import Sequence

import torch

from . import place

_PAGE = mmap.PAGESIZE
_ALIGNMENT_BYTES = 16
_PROT_NONE = 0
_MAP_FIXED = 0x10
_MAP_NORESERVE = 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


def storage_elements(shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> int:
    """Elements of the smallest storage that holds every element the strides reach from the offset on."""
    if 0 in shape:
        return 0
    return offset + 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def contiguous_strides(shape: Sequence[int]) -> list[int]:
    """Row-major strides in elements, as torch computes them."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return strides


def create_file(name: str, storage_bytes: int) -> int:
    """A memory file for a storage of that many bytes (at least one); its size can never change again."""
    descriptor = os.memfd_create(f"warpsmith-{name}"[:200], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, _whole_pages(storage_bytes))
        # Whoever else maps it can otherwise cut it, and our next access would be a bus error.
        fcntl.fcntl(
            descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        )
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def map_storage(descriptor: int, storage_bytes: int) -> torch.Tensor:
    """Map a memory file between guard pages: a uint8 tensor over exactly the storage.

    The mapping lives as long as a tensor uses it. Raises MemoryError when there is no room.
    """
    data_bytes = _whole_pages(storage_bytes)
    whole_bytes = data_bytes + 2 * _PAGE
    reserve = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    base = _mmap(None, whole_bytes, _PROT_NONE, reserve, -1)
    try:
        writable = mmap.PROT_READ | mmap.PROT_WRITE
        _mmap(base + _PAGE, data_bytes, writable, mmap.MAP_SHARED | _MAP_FIXED, descriptor)
    except (OSError, MemoryError):
        _libc.munmap(base, whole_bytes)
        raise
    slack = (data_bytes - storage_bytes) // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES
    block = (ctypes.c_ubyte * storage_bytes).from_address(base + _PAGE + slack)
    weakref.finalize(block, _libc.munmap, base, whole_bytes).atexit = False
    return torch.frombuffer(block, dtype=torch.uint8)


def view_storage(
    storage: torch.Tensor,
    dtype: torch.dtype,
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int = 0,
) -> torch.Tensor:
    """A tensor over a storage from `map_storage` (or any uint8 tensor of the right size).

    It begins with element `offset`.
    """
    return storage.view(dtype).as_strided(tuple(shape), tuple(strides), offset)


def empty_view(dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
    """A tensor without elements."""
    return torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype, device=place.current())


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // _PAGE) * _PAGE


def _mmap(address: int | None, size_bytes: int, protection: int, flags: int, descriptor: int) -> int:
    result = _libc.mmap(address, size_bytes, protection, flags, descriptor, 0)
    if result is None or result == _MAP_FAILED:
        error = ctypes.get_errno()
        if error == errno.ENOMEM:
            raise MemoryError(f"cannot allocate {size_bytes} bytes of address space")
        raise OSError(error, f"cannot map {size_bytes} bytes: {os.strerror(error)}")
    return result
