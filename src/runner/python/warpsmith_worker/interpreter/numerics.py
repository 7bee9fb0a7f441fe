"""Rounding as GPUs do it, on NumPy arrays: bfloat16, float8 and TF32.

bfloat16 and float8 values are held as raw bits (``uint16``, ``uint8``), like in Triton's own interpreter.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

_BFLOAT16_NAN = np.uint16(0x7FFF)


def bfloat16_to_float32(bits: np.ndarray) -> np.ndarray:
    """Exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def float32_to_bfloat16(values: np.ndarray, toward_zero: bool = False) -> np.ndarray:
    """Rounds to nearest even, or toward zero; NaN becomes the canonical NaN of PTX."""
    values = np.asarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    if toward_zero:
        rounded = (bits >> np.uint32(16)).astype(np.uint16)
    else:
        odd = (bits >> np.uint32(16)) & np.uint32(1)
        rounded = ((bits + (odd + np.uint32(0x7FFF))) >> np.uint32(16)).astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        rounded = np.where(nan, _BFLOAT16_NAN, rounded)
    return np.asarray(rounded)


def round_to_bfloat16(values: np.ndarray) -> np.ndarray:
    """float32 values, each rounded to the nearest bfloat16."""
    return bfloat16_to_float32(float32_to_bfloat16(values))


def round_to_tf32(values: np.ndarray) -> np.ndarray:
    """float32 values, each rounded to 10 mantissa bits, nearest even; NaN and infinity unchanged."""
    values = np.asarray(values, dtype=np.float32)
    bits = values.view(np.uint32)
    odd = (bits >> np.uint32(13)) & np.uint32(1)
    rounded = ((bits + (odd + np.uint32(0xFFF))) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)


def float32_to_float16_toward_zero(values: np.ndarray) -> np.ndarray:
    """float16, truncated: the largest magnitude that does not exceed the value's."""
    nearest = values.astype(np.float16)
    too_large = np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64))
    return np.where(too_large, np.nextafter(nearest, np.float16(0)), nearest)


class Float8:
    """One 8-bit floating-point format, converted by table."""

    def __init__(self, exponent_bits: int, bias: int, special: str) -> None:
        """``special``: ``ieee`` (inf and NaN on top), ``fn`` (only NaN), ``fnuz`` (NaN is -0), ``none``."""
        self.special = special
        self.values = _float8_values(exponent_bits, bias, special)
        codes = np.arange(128)
        finite = np.isfinite(self.values[:128])
        self._magnitudes = self.values[:128][finite].astype(np.float64)
        self._codes = codes[finite].astype(np.uint8)
        self._midpoints = (self._magnitudes[1:] + self._magnitudes[:-1]) / 2
        self._nan = {"ieee": 0x7F, "fn": 0x7F, "fnuz": 0x80, "none": 0x7F}[special]

    def to_float32(self, bits: np.ndarray) -> np.ndarray:
        """Exact."""
        return self.values[bits.view(np.uint8)]

    def from_float(self, values: np.ndarray, toward_zero: bool = False) -> np.ndarray:
        """Nearest even (or toward zero), saturating to the largest finite value like PTX's ``satfinite``."""
        values = np.asarray(values, dtype=np.float64)
        magnitude = np.abs(values)
        if toward_zero:
            position = np.searchsorted(self._magnitudes, magnitude, side="right") - 1
        else:
            position = np.searchsorted(self._midpoints, magnitude, side="left")
            tie = (position < len(self._midpoints)) & (
                magnitude == self._midpoints[np.minimum(position, len(self._midpoints) - 1)]
            )
            # A tie goes to the even code; `position` names the lower neighbour.
            position = position + (tie & ((self._codes[position] & 1) == 1))
        bits = self._codes[np.clip(position, 0, len(self._codes) - 1)]
        negative = np.signbit(values)
        if self.special == "fnuz":
            negative = negative & (bits != 0)
        bits = bits | (negative.astype(np.uint8) << np.uint8(7))
        return np.where(np.isnan(values), np.uint8(self._nan), bits)


def _float8_values(exponent_bits: int, bias: int, special: str) -> np.ndarray:
    mantissa_bits = 7 - exponent_bits
    codes = np.arange(256)
    mantissa = (codes & ((1 << mantissa_bits) - 1)).astype(np.float64)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    scale = 2.0**-mantissa_bits
    subnormal = mantissa * scale * 2.0 ** (1 - bias)
    normal = (1 + mantissa * scale) * np.exp2(exponent.astype(np.float64) - bias)
    values = np.where(exponent == 0, subnormal, normal)
    values = np.where(codes >= 128, -values, values)
    if special == "ieee":
        top = exponent == (1 << exponent_bits) - 1
        values = np.where(top, np.where(mantissa == 0, np.copysign(np.inf, values), np.nan), values)
    elif special == "fn":
        values = np.where((codes & 0x7F) == 0x7F, np.nan, values)
    elif special == "fnuz":
        values = np.where(codes == 0x80, np.nan, values)
    return values.astype(np.float32)


@cache
def float8(name: str) -> Float8:
    """The format of a Triton type name: ``fp8e4nv``, ``fp8e5``, ``fp8e4b8``, ``fp8e5b16``, ``fp8e4b15``."""
    return {
        "fp8e4nv": lambda: Float8(4, 7, "fn"),
        "fp8e5": lambda: Float8(5, 15, "ieee"),
        "fp8e4b8": lambda: Float8(4, 8, "fnuz"),
        "fp8e5b16": lambda: Float8(5, 16, "fnuz"),
        "fp8e4b15": lambda: Float8(4, 15, "none"),
    }[name]()


def saturating_float_to_int(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Truncates toward zero; NaN becomes 0 and what does not fit the nearest limit, like PTX's ``cvt``."""
    limits = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        plain = values.astype(dtype)
        wide = values.astype(np.float64)
    plain = np.where(wide >= float(limits.max), limits.max, plain)
    plain = np.where(wide <= float(limits.min), limits.min, plain)
    return np.where(np.isnan(wide), 0, plain).astype(dtype)


def tree_reduce(data: np.ndarray, axis: int, combine: Callable[..., np.ndarray]) -> np.ndarray:
    """Combines neighbours in rounds, as the threads of a block do; ``data.shape[axis]`` is a power of two."""
    moved = np.moveaxis(data, axis, 0)
    while moved.shape[0] > 1:
        moved = combine(moved[0::2], moved[1::2])
    return moved[0]
