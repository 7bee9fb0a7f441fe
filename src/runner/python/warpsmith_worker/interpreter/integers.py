"""Integer operations that NumPy lacks or that some Triton versions compute wrongly."""

from __future__ import annotations

import numpy as np


def high_half_of_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``umulhi``: the upper half of the unsigned product, for 8 to 64 bits of either signedness."""
    bits = left.dtype.itemsize * 8
    unsigned = np.dtype(f"u{left.dtype.itemsize}")
    a, b = left.view(unsigned), right.view(unsigned)
    if bits < 64:
        wide = np.dtype(f"u{left.dtype.itemsize * 2}")
        product = a.astype(wide) * b.astype(wide)
        return (product >> wide.type(bits)).astype(unsigned).view(left.dtype)
    low_mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a_low, a_high, b_low, b_high = a & low_mask, a >> half, b & low_mask, b >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    carry = (middle & low_mask) + a_low * b_high
    return (a_high * b_high + (middle >> half) + (carry >> half)).view(left.dtype)


def arithmetic_shift_right(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``>>`` that keeps the sign, whatever the arrays' own signedness."""
    signed = left.view(f"i{left.dtype.itemsize}") if left.dtype.kind == "u" else left
    distance = right.view(f"i{right.dtype.itemsize}") if right.dtype.kind == "u" else right
    return np.right_shift(signed, distance).view(left.dtype)


def histogram(values: np.ndarray, bins: int, mask: np.ndarray | None) -> np.ndarray:
    """int32 counts of 0 to bins - 1; other values and masked lanes are dropped, as on a GPU."""
    counted = (values >= 0) & (values < bins)
    if mask is not None:
        counted &= mask
    return np.bincount(values[counted].astype(np.int64), minlength=bins).astype(np.int32)


def all_ones(dtype: np.dtype) -> np.ndarray:
    """One element with every bit set."""
    if dtype == np.bool_:
        return np.ones(1, np.bool_)
    return np.full(1, -1, f"i{dtype.itemsize}").view(dtype)
