"""Where this process computes: on the CPU, or on the one GPU that it sees."""

import contextlib
from collections.abc import Iterator

import torch

_CPU = torch.device("cpu")
_GPU = torch.device("cuda", 0)
_device = _CPU

_TEXTS_OF_LACKING_MEMORY = (
    "can't allocate memory",
    "CUDA out of memory",
    "CUDA error: out of memory",
    "[CUDA]: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def current() -> torch.device:
    """The device on which tensors are made and compared."""
    return _device


def is_gpu() -> bool:
    """Whether this process works on a GPU."""
    return _device.type == "cuda"


def use_gpu() -> None:
    """From now on everything is made on the GPU. Once a process, after the fork."""
    global _device
    _device = _GPU


@contextlib.contextmanager
def near(*, is_near: bool) -> Iterator[None]:
    """In here everything is made and computed on the CPU, if `is_near` says so.

    A GPU takes longer to be asked for a few thousand elements than a CPU takes to compute them.
    """
    global _device
    before = _device
    if not is_near or before == _CPU:
        yield
        return
    _device = _CPU
    torch.set_default_device(None)
    try:
        yield
    finally:
        _device = before
        torch.set_default_device(before)


def generator_state() -> torch.Tensor:
    """The states of all generators from which code may draw, as bytes on the CPU."""
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state(0)]) if is_gpu() else state


def lacks_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the host or on the GPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _TEXTS_OF_LACKING_MEMORY)
