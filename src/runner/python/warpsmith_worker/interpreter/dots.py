"""`tl.dot` as tensor cores compute it."""

from __future__ import annotations

from typing import Any

import numpy as np
from triton._C.libtriton import ir as _ir

from .numerics import bfloat16_to_float32, float8, round_to_bfloat16, round_to_tf32

_HALF_STEP = 16
"""Products of one float16 tensor-core instruction that are summed before the accumulator is rounded."""


def dot(a: Any, b: Any, d: Any, input_precision: Any) -> np.ndarray:
    """``a @ b + d`` in the accumulator's dtype; all three are tensor handles."""
    name = a.dtype.scalar.name
    if name in ("int8", "uint8"):
        # Sums of products of bytes are exact in float64, and BLAS has no integers.
        product = np.matmul(a.data.astype(np.float64), b.data.astype(np.float64))
        return (product.astype(np.int64) + d.data).astype(d.data.dtype)
    if name == "fp64":
        return np.matmul(a.data, b.data) + d.data
    left, right = _operand(a), _operand(b)
    if d.dtype.scalar.name == "fp16":
        return _half_accumulated(left, right, d.data)
    if name == "fp32":
        return _float32_product(left, right, input_precision) + d.data
    return np.matmul(left, right) + d.data


def _operand(handle: Any) -> np.ndarray:
    name = handle.dtype.scalar.name
    if name == "bf16":
        return bfloat16_to_float32(handle.data)
    if name.startswith("fp8"):
        return float8(name).to_float32(handle.data)
    return handle.data.astype(np.float32, copy=False)


def _half_accumulated(left: np.ndarray, right: np.ndarray, acc: np.ndarray) -> np.ndarray:
    result = acc.astype(np.float32)
    for start in range(0, left.shape[-1], _HALF_STEP):
        part = np.matmul(left[..., start : start + _HALF_STEP], right[..., start : start + _HALF_STEP, :])
        result = (result + part).astype(np.float16).astype(np.float32)
    return result.astype(np.float16)


def _float32_product(left: np.ndarray, right: np.ndarray, input_precision: Any) -> np.ndarray:
    name = getattr(input_precision, "name", str(input_precision))
    if input_precision == _ir.INPUT_PRECISION.TF32:
        return np.matmul(round_to_tf32(left), round_to_tf32(right))
    if name == "TF32x3":
        return _split_product(left, right, round_to_tf32, 2)
    if name == "BF16x3":
        return _split_product(left, right, round_to_bfloat16, 2)
    if name == "BF16x6":
        return _split_product(left, right, round_to_bfloat16, 3)
    return np.matmul(left, right)


def _split_product(left: np.ndarray, right: np.ndarray, round_to: Any, pieces: int) -> np.ndarray:
    """Each operand as a sum of narrower numbers; the products of the smallest pieces are left out."""
    lefts, rights = _pieces(left, round_to, pieces), _pieces(right, round_to, pieces)
    total = np.zeros((), np.float32)
    # Smallest products first, as the hardware sequence adds them.
    for order in reversed(range(pieces)):
        for i in range(order + 1):
            total = total + np.matmul(lefts[i], rights[order - i])
    # A non-finite operand leaves NaN in the remainders; the plain product is what the GPU gives then.
    leading = np.matmul(lefts[0], rights[0])
    return np.where(np.isfinite(total), total, leading)


def _pieces(values: np.ndarray, round_to: Any, count: int) -> list[np.ndarray]:
    pieces = []
    rest = values
    for _ in range(count):
        piece = round_to(rest)
        pieces.append(piece)
        rest = rest - piece
    return pieces
