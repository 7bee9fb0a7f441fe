"""Binds the arguments of a launch like Triton's launcher, and turns them into what a kernel sees."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock
from triton.runtime import jit
from triton.tools.tensor_descriptor import TensorDescriptor

from .checks import Base
from .errors import TritonCompileError
from .shadow import Region, UninitialisedStorage

_MAX_GRID = (2**31 - 1, 65_535, 65_535)
_LAUNCHER_WORDS = {"debug", "instrumentation_mode", "fpsan_homomorphic_casts", "warmup", "grid"}
_OPTIONS_WITHOUT_BACKEND = (
    "num_warps num_ctas num_stages warp_size maxnreg cluster_dims ptx_version ptx_options ir_override "
    "enable_fp_fusion launch_cooperative_grid launch_pdl supported_fp8_dtypes "
    "deprecated_fp8_dot_operand_dtypes default_dot_input_precision allowed_dot_input_precisions "
    "max_num_imprecise_acc_default extern_libs backend_name sanitize_overflow arch"
)


def _known_options() -> frozenset[str]:
    try:
        from triton.backends.nvidia.compiler import CUDAOptions

        return frozenset(item.name for item in fields(CUDAOptions)) | _LAUNCHER_WORDS
    except (ImportError, TypeError):
        return frozenset(_OPTIONS_WITHOUT_BACKEND.split()) | _LAUNCHER_WORDS


KNOWN_OPTIONS = _known_options()


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel."""

    name: str
    is_constexpr: bool
    annotated_type: str
    """Canonical type name (``i64``, ``fp32``) that overrides the value's own, or empty."""
    becomes_constant: bool
    """Whether Triton compiles the integer 1 into the kernel as a constant."""


class Signature:
    """How a kernel is called."""

    def __init__(self, function: Any, decoration: dict[str, Any]) -> None:
        """``decoration``: what was given to ``@triton.jit(...)``."""
        self._signature = inspect.signature(function)
        unspecialised = decoration.get("do_not_specialize") or ()
        self.parameters: dict[str, Parameter] = {}
        for number, (name, parameter) in enumerate(self._signature.parameters.items()):
            described = jit.KernelParam(number, parameter, False, False)
            fixed = number in unspecialised or name in unspecialised
            annotated = str(described.annotation_type)
            self.parameters[name] = Parameter(
                name, bool(described.is_constexpr), annotated, not fixed and not annotated
            )

    def bind(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Values by parameter, defaults included. Raises `TritonCompileError` for what Triton refuses."""
        options = {name: value for name, value in named.items() if name not in self.parameters}
        for name in options:
            if name in ("device", "device_type", "stream"):
                raise TritonCompileError(f"the launch option `{name}` is no longer supported by Triton")
            if name not in KNOWN_OPTIONS:
                raise TritonCompileError(f"the keyword argument `{name}` was given but is not recognised")
        _check_warps(options.get("num_warps"))
        own = {name: value for name, value in named.items() if name in self.parameters}
        try:
            bound = self._signature.bind(*arguments, **own)
        except TypeError as error:
            raise TritonCompileError(str(error)) from error
        bound.apply_defaults()
        return dict(bound.arguments)


def _check_warps(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, int) or value <= 0 or value & (value - 1):
        raise TritonCompileError(f"num_warps must be a power of 2, got {value}")
    if value > 32:
        raise TritonCompileError(f"num_warps={value} makes more than the 1024 threads that a block may have")


def resolved_grid(grid: Any, meta: dict[str, Any]) -> tuple[int, int, int]:
    """The grid as three numbers. A grid with a zero is returned whatever its other sizes."""
    if callable(grid):
        grid = grid(meta)
    try:
        sizes = [operator.index(size) for size in grid]
    except TypeError as error:
        raise TritonCompileError(f"the grid must be a tuple of integers, got {grid!r}") from error
    if not 1 <= len(sizes) <= 3:
        raise TritonCompileError(f"the grid must have one to three dimensions, got {grid!r}")
    x, y, z = (*sizes, 1, 1)[:3]
    for axis, (size, limit) in enumerate(zip((x, y, z), _MAX_GRID, strict=False)):
        if size < 0 or (size > limit and 0 not in (x, y, z)):
            raise TritonCompileError(
                f"the grid {(x, y, z)} has {size} programs on axis {axis}; CUDA allows 0 to {limit}"
            )
    return x, y, z


class Arguments:
    """What the programs of one launch are called with, and the storages behind it."""

    def __init__(
        self,
        find_uninitialised: Callable[[Any], UninitialisedStorage | None],
        is_in_host_memory: Callable[[Any], bool],
    ) -> None:
        self.bases: list[Base] = []
        self.tensors: list[tuple[Any, Region]] = []
        self._find_uninitialised = find_uninitialised
        self._is_in_host_memory = is_in_host_memory
        self._regions: dict[tuple[int, int], Region] = {}

    def convert(self, parameter: Parameter, value: Any) -> Any:
        """One argument as the kernel's Python function receives it."""
        if parameter.is_constexpr:
            return value.value if isinstance(value, tl.constexpr) else value
        return self._value(value, parameter.name, parameter.annotated_type, parameter.becomes_constant)

    def _value(self, value: Any, name: str, annotated: str, becomes_constant: bool) -> Any:
        if isinstance(value, tl.constexpr):
            return value.value
        if isinstance(value, TensorDescriptor):
            return self._descriptor(value, name)
        if hasattr(value, "data_ptr"):
            return self._pointer(value, name)
        if isinstance(value, (bool, int, float)):
            if type(value) is int and value == 1 and becomes_constant:
                return value
            return _scalar(value, annotated)
        if isinstance(value, tuple):
            parts = [
                self._value(part, f"{name}[{position}]", "", becomes_constant)
                for position, part in enumerate(value)
            ]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if value is None or callable(value) or isinstance(value, tl.dtype):
            return value
        try:
            jit.mangle_type(value)
        except TypeError as error:
            raise TritonCompileError(
                f"the argument `{name}` has the type {type(value).__name__}, which a kernel cannot take"
            ) from error
        return value

    def _pointer(self, tensor: Any, name: str) -> Any:
        pointer = stock._implicit_cvt(tensor)
        pointer.handle.bases = (self._base(tensor, name),)
        return pointer

    def _descriptor(self, descriptor: Any, name: str) -> Any:
        converted = stock._implicit_cvt(descriptor)
        converted.handle.base.bases = (self._base(descriptor.base, name),)
        return converted

    def _base(self, tensor: Any, name: str) -> Base:
        plain = stock._unwrap_tensor(tensor)
        if self._is_in_host_memory(plain):
            raise TritonCompileError(
                f"the pointer argument `{name}` cannot be accessed from Triton: it is a CPU tensor; make it "
                "with `device=` of the inputs"
            )
        base = base_of(plain, name, self._regions, self._find_uninitialised)
        self.bases.append(base)
        self.tensors.append((plain, base.region))
        return base


def base_of(
    tensor: Any,
    name: str,
    regions: dict[tuple[int, int], Region],
    find_uninitialised: Callable[[Any], UninitialisedStorage | None],
) -> Base:
    """The tensor's storage as a region (shared by all tensors on it) and where in it the tensor begins."""
    storage = tensor.untyped_storage()
    size = tensor.element_size()
    key = (storage.data_ptr(), storage.nbytes())
    region = regions.get(key)
    if region is None:
        region = regions[key] = Region(key[0], key[1], size)
        region.uninitialised = find_uninitialised(storage)
    elif size < region.granule:
        region.granule = size
    return Base(name, region, tensor.data_ptr(), tuple(tensor.shape), size)


_SCALAR_TYPES = {
    "u1": tl.int1,
    "i8": tl.int8,
    "i16": tl.int16,
    "i32": tl.int32,
    "i64": tl.int64,
    "u8": tl.uint8,
    "u16": tl.uint16,
    "u32": tl.uint32,
    "u64": tl.uint64,
    "fp16": tl.float16,
    "bf16": tl.float32,
    "fp32": tl.float32,
    "fp64": tl.float64,
}


def _scalar(value: bool | float, annotated: str) -> Any:
    dtype = _SCALAR_TYPES.get(annotated)
    if dtype is None:
        dtype = _type_of(value)
    held = stock._get_np_dtype(dtype)
    data = np.array([value]).astype(held) if not isinstance(value, int) else _integer(value, held)
    return tl.tensor(stock.TensorHandle(data, dtype), dtype)


def _integer(value: int, held: np.dtype) -> np.ndarray:
    if held.kind in "iu":
        bits = held.itemsize * 8
        wrapped = value & ((1 << bits) - 1)
        return np.array([wrapped], dtype=f"u{held.itemsize}").view(held)
    return np.array([value]).astype(held)


def _type_of(value: bool | float) -> Any:
    if isinstance(value, bool):
        return tl.int1
    if isinstance(value, float):
        return tl.float32
    if -(2**31) <= value < 2**31:
        return tl.int32
    if -(2**63) <= value < 2**63:
        return tl.int64
    if 0 <= value < 2**64:
        return tl.uint64
    raise TritonCompileError(f"the integer argument {value} does not fit 64 bits")
