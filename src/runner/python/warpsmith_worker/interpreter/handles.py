"""Tensor handles of Triton's interpreter: the marks that travel with them, and their values as floats."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as stock

from .numerics import bfloat16_to_float32, float8, float32_to_bfloat16, float32_to_float16_toward_zero

Handle = stock.TensorHandle

# Marks that travel with a handle; class attributes so that handles made by stock code have them too.
Handle.bases = None  # type: ignore[attr-defined]
Handle.overflow = None  # type: ignore[attr-defined]


def np_dtype(dtype: tl.dtype) -> np.dtype:
    """How NumPy holds a Triton element type."""
    return stock._get_np_dtype(dtype)


def element_bytes(handle: Any) -> int:
    """Bytes of one element behind a pointer handle."""
    return max(1, handle.get_element_ty().primitive_bitwidth // 8)


def to_float32(handle: Any) -> np.ndarray:
    """The values of a float handle; exact for everything narrower than float64."""
    name = handle.dtype.scalar.name
    if name == "bf16":
        return bfloat16_to_float32(handle.data)
    if name.startswith("fp8"):
        return float8(name).to_float32(handle.data)
    return handle.data.astype(np.float32, copy=False)


def from_float(values: np.ndarray, dtype: tl.dtype, toward_zero: bool = False) -> np.ndarray:
    """Rounds float32 or float64 values to a Triton float type."""
    name = dtype.scalar.name
    if name == "bf16":
        return float32_to_bfloat16(values, toward_zero)
    if name.startswith("fp8"):
        return float8(name).from_float(values, toward_zero)
    if name == "fp16" and toward_zero:
        return float32_to_float16_toward_zero(values)
    return values.astype(np_dtype(dtype), copy=False)
