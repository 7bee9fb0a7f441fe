"""Lets user code that says "cuda" run on CPU tensors, and hands out memory that is visibly uninitialised.

`x.is_cuda` is true, `device="cuda"`, `.cuda()` and `.to("cuda")` mean the CPU, `torch.cuda.*` answers like
one device of compute capability 9.0. Code in the user's own files reads `cuda:0` from `x.device`: otherwise
`assert x.device.type == "cuda"` would fail, and worse, `if x.device.type != "cuda": return torch_version(x)`
would pass without the kernel. Everybody else (torch, Triton, our interpreter) reads the truth, `cpu`.
Tensors that were made on the CPU (`torch.empty(n)` without a device) stay CPU tensors for user code.

Installed once in a candidate's process, which serves one file and ends; nothing is ever undone.
"""

import contextlib
import functools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import library, poison
from .host_memory import HostMemory

_CAPABILITY = (9, 0)
# Filling more would cost seconds, and memory that the machine may not have.
_LARGEST_POISONED_BYTES = 1 << 30
_true_device = torch._C.TensorBase.device.__get__
_true_new = torch._C.TensorBase.__new__


class Shim:
    """The replacements, and what they depend on."""

    def __init__(self) -> None:
        self.is_users_file: Callable[[str], bool] = lambda _filename: False
        self.on_uninitialised: Callable[[torch.Tensor], None] = lambda _tensor: None
        self.host = HostMemory()
        self._poisons = True
        self._other_pattern = False
        self._active = False

    def install(self) -> None:
        """Replace what says "cuda". Once a process."""
        _replace_tensor_methods(self)
        _replace_torch_functions(self)
        _replace_torch_cuda()

    @contextlib.contextmanager
    def active(self, *, poisons: bool, other_pattern: bool = False) -> Iterator[None]:
        """While user code runs. `poisons`: fill and register what `torch.empty` and its kin return."""
        self._poisons, self._active = poisons, True
        self._other_pattern = other_pattern
        try:
            with _CudaIsCpu(self):
                yield
        finally:
            self._active = False

    def in_thread(self) -> TorchFunctionMode:
        """What a thread of the user's runs in: modes hold for one thread only."""
        return _CudaIsCpu(self)

    def uninitialised(self, tensor: Any) -> None:
        """Poison fresh memory and tell the interpreter."""
        if not (self._active and self._poisons and isinstance(tensor, torch.Tensor)):
            return
        if tensor.layout != torch.strided or _true_device(tensor).type != "cpu":
            return
        if not 0 < tensor.untyped_storage().nbytes() <= _LARGEST_POISONED_BYTES:
            return
        if poison.fill_storage(tensor, other=self._other_pattern):
            self.on_uninitialised(tensor)

    def device_of(self, tensor: torch.Tensor) -> torch.device:
        """`tensor.device` as the calling frame's caller should see it."""
        device = _true_device(tensor)
        if device.type == "cpu" and self.is_users_file(sys._getframe(2).f_code.co_filename):
            return device if self.host.holds(tensor) else torch.device("cuda", 0)
        return device


def forward(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call torch; an exception from here is torch's, not ours."""
    return func(*args, **kwargs)


UNINITIALISED = {
    torch.empty,
    torch.empty_like,
    torch.empty_strided,
    torch.empty_permuted,
    torch.Tensor.new_empty,
    torch.Tensor.new_empty_strided,
}
"""Functions that hand out memory as they find it."""


class _CudaIsCpu(TorchFunctionMode):
    def __init__(self, shim: Shim) -> None:
        super().__init__()
        self.shim = shim

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        library.note(func)
        if func is torch.device:
            # Saying "cuda" is fine; only using it is not.
            return forward(func, args, kwargs)
        to_host = self._asked_for(func, args, kwargs)
        if is_cuda_device(kwargs.get("device"), or_index=True):
            kwargs["device"] = "cpu"
        if kwargs.get("pin_memory"):
            # The GPU reaches pinned memory.
            kwargs["pin_memory"], to_host = False, False
        if func is torch.Tensor.to and len(args) > 1 and is_cuda_device(args[1], or_index=True):
            args = (args[0], "cpu", *args[2:])
        result = forward(func, args, kwargs)
        if func in _MOVES and to_host is not None:
            return self.shim.host.moved(args[0], result, to_host)
        self.shim.host.place(result, (*args, *kwargs.values()), to_host)
        if func in UNINITIALISED or (func is torch.Tensor.new and is_size(args[1:])):
            self.shim.uninitialised(result)
        return result

    def _asked_for(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool | None:
        """Whether a call names host memory (true) or the GPU (false) for its result; None: neither."""
        if func is torch.Tensor.cpu:
            return True
        asked = [kwargs.get("device"), kwargs.get("other")]
        if func in (torch.Tensor.to, torch.Tensor.type_as):
            asked += args[1:2]
        for value in asked:
            if func in _MOVES and isinstance(value, torch.Tensor):
                return self.shim.host.holds(value)
            if is_cuda_device(value, or_index=value is kwargs.get("device") or func is torch.Tensor.to):
                return False
            if isinstance(value, str | torch.device) and str(value).partition(":")[0] == "cpu":
                return True
        return None


_MOVES = {torch.Tensor.to, torch.Tensor.cpu, torch.Tensor.type_as}


def is_cuda_device(device: Any, *, or_index: bool = False) -> bool:
    """Whether something names a CUDA device; a bare number does where torch reads it as one."""
    if isinstance(device, str):
        return device == "cuda" or device.startswith("cuda:")
    if isinstance(device, torch.device):
        return device.type == "cuda"
    return or_index and isinstance(device, int) and not isinstance(device, bool)


def is_size(args: tuple[Any, ...]) -> bool:
    """Whether the arguments of a legacy constructor are a size, so that it makes uninitialised memory."""
    if len(args) == 1 and isinstance(args[0], torch.Size):
        return True
    return bool(args) and all(isinstance(value, int) and not isinstance(value, bool) for value in args)


def _replace_tensor_methods(shim: Shim) -> None:
    tensor = torch.Tensor

    # Its signature says nothing, like that of the original: TorchDynamo compares them when it is imported.
    def new(*args: Any, **kwargs: Any) -> Any:
        made = forward(_true_new, args, kwargs)
        if args[0] is torch.Tensor and is_size(args[1:]):
            shim.uninitialised(made)
        return made

    tensor.__new__ = staticmethod(new)

    def on_gpu(self: torch.Tensor, *_args: Any, **_kwargs: Any) -> torch.Tensor:
        return shim.host.moved(self, self, to_host=False)

    tensor.is_cuda = property(lambda self: not shim.host.holds(self))
    # A frame of its own: `device_of` looks at the caller two frames up.
    tensor.device = property(lambda self: shim.device_of(self))  # noqa: PLW0108
    tensor.cuda = on_gpu
    # The GPU reaches pinned memory.
    tensor.pin_memory = on_gpu
    tensor.get_device = lambda self: -1 if shim.host.holds(self) else 0
    tensor.record_stream = lambda self, stream: None


def _replace_torch_functions(shim: Shim) -> None:
    set_default_device = torch.set_default_device

    def set_default_device_to_cpu(device: Any) -> None:
        shim.host.is_default = not is_cuda_device(device, or_index=True)
        forward(set_default_device, ("cpu" if is_cuda_device(device, or_index=True) else device,), {})

    torch.set_default_device = set_default_device_to_cpu

    class Generator(torch.Generator):
        """A generator asked for on a GPU lives on the CPU."""

        def __new__(cls, device: Any = "cpu") -> Any:
            place = "cpu" if is_cuda_device(device, or_index=True) else device
            return forward(super().__new__, (cls, place), {})

    torch.Generator = Generator

    def compile_nothing(model: Any = None, **_options: Any) -> Any:
        # The same values, without a compiler that would look for a GPU.
        return model if model is not None else (lambda function: function)

    torch.compile = compile_nothing


class DeviceProperties:
    """Of the pretended device, the same as the interpreter's driver answers."""

    name = "warpsmith interpreter"
    major, minor = _CAPABILITY
    multi_processor_count = 132
    warp_size = 32
    total_memory = 80 << 30
    max_threads_per_block = 1024
    max_threads_per_multi_processor = 2048
    shared_memory_per_block = 48 << 10
    shared_memory_per_block_optin = 232448
    shared_memory_per_multiprocessor = 233472
    regs_per_multiprocessor = 65536
    L2_cache_size = 50 << 20
    is_integrated = False
    is_multi_gpu_board = False
    gcnArchName = ""


class Event:
    """A point in time of the wall clock."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self._recorded_s = time.perf_counter()

    def record(self, *_args: Any) -> None:
        self._recorded_s = time.perf_counter()

    def synchronize(self) -> None:
        """Everything is done already."""

    def wait(self, *_args: Any) -> None:
        """Everything is done already."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: "Event") -> float:
        """Milliseconds of interpretation; says nothing about a GPU."""
        return (other._recorded_s - self._recorded_s) * 1e3


class Stream:
    """Everything runs in order at once."""

    cuda_stream = 0
    stream_id = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.device = torch.device("cuda", 0)

    def synchronize(self) -> None:
        """Nothing is ever pending."""

    def wait_stream(self, *_args: Any) -> None:
        """Nothing is ever pending."""

    def wait_event(self, *_args: Any) -> None:
        """Nothing is ever pending."""

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Nothing was pending."""


class _Nothing(contextlib.nullcontext):
    """A context manager and decorator that takes any arguments and does nothing."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        super().__init__()


def name_device_alike() -> None:
    """Let Triton's driver name the device as user code sees it, so that `x.device == DEVICE` holds."""
    from triton.runtime.driver import driver

    # Asking for `driver.active` would look for a real GPU if the interpreter had not set one.
    active = getattr(driver, "_active", None)
    if hasattr(active, "get_active_torch_device"):
        active.get_active_torch_device = _answer(torch.device("cuda", 0))


def _answer(value: Any) -> Callable[..., Any]:
    return lambda *_args, **_kwargs: value


def _replace_torch_cuda() -> None:
    cuda = torch.cuda
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "is_tf32_supported": True,
        "is_current_stream_capturing": False,
        "init": None,
        "device_count": 1,
        "current_device": 0,
        "set_device": None,
        "synchronize": None,
        "get_device_properties": DeviceProperties(),
        "get_device_capability": _CAPABILITY,
        "get_device_name": DeviceProperties.name,
        "get_arch_list": ["sm_90"],
        "empty_cache": None,
        "ipc_collect": None,
        "mem_get_info": (DeviceProperties.total_memory // 2, DeviceProperties.total_memory),
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "reset_peak_memory_stats": None,
        "reset_max_memory_allocated": None,
        # `torch.manual_seed` calls these: they must not seed the CPU again, which would recurse.
        "manual_seed": None,
        "manual_seed_all": None,
        "seed": None,
        "seed_all": None,
        "set_stream": None,
    }
    for name, value in answers.items():
        setattr(cuda, name, _answer(value))
    cuda.current_stream = cuda.default_stream = lambda *_args, **_kwargs: Stream()
    cuda.Stream, cuda.Event = Stream, Event
    cuda.ExternalStream = Stream
    cuda.stream = cuda.device = cuda.device_of = cuda.StreamContext = _Nothing
    cuda.get_rng_state = lambda *_args, **_kwargs: torch.get_rng_state()
    cuda.set_rng_state = _answer(None)
    for name in ("range_push", "range_pop", "mark"):
        setattr(cuda.nvtx, name, _answer(None))
    cuda.nvtx.range = _Nothing
    for name in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte", "Bool"):
        setattr(cuda, f"{name}Tensor", getattr(torch, f"{name}Tensor"))
    current_accelerator = functools.partial(torch.device, "cuda", 0)
    torch.accelerator.current_accelerator = lambda *_args, **_kwargs: current_accelerator()
    torch.accelerator.is_available = _answer(True)
    torch.accelerator.synchronize = _answer(None)
