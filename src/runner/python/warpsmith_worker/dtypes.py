"""Element types by the protocol's names, and the facts about each that the worker needs."""

import math
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class ElementType:
    """One dtype of the protocol."""

    name: str
    torch: torch.dtype
    bits: torch.dtype
    """The integer type of the same size, for looking at bytes."""
    poison: int | None
    """The bit pattern (signed, as `bits` reads it) of memory that nobody wrote; None when every pattern is
    an ordinary value (bool)."""
    coarse_mantissa_bits: int | None
    """Mantissa bits of the coarser type that stands for too little precision; None for integers."""
    max_finite: float | None
    """Largest finite magnitude of a float type."""
    overflow_at: float | None
    """Magnitude from which rounding to nearest gives infinity (or NaN where the type has no infinity)."""

    smallest_step: float | None = None
    """Distance between neighbours next to zero (the smallest subnormal) of a float type."""

    @property
    def is_float(self) -> bool:
        return self.max_finite is not None

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.torch.itemsize

    @property
    def has_infinity(self) -> bool:
        return self.is_float and self.torch != torch.float8_e4m3fn

    @property
    def poison_is_distinctive(self) -> bool:
        """Whether no computation produces the poison pattern, so that it proves that nothing was written."""
        return self.is_float and self.torch != torch.float8_e4m3fn


def _signed(pattern: int, bits: int) -> int:
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern


def _float(
    name: str, dtype: torch.dtype, bits: torch.dtype, pattern: int, mantissa_bits: int, coarse: int
) -> ElementType:
    largest = torch.finfo(dtype).max
    _fraction, exponent = math.frexp(largest)
    # Half a step beyond the largest value: `mantissa_bits` explicit bits make steps of 2^(exponent-1-bits).
    overflow_at = largest + 2.0 ** (exponent - 1 - mantissa_bits) / 2
    smallest_step = torch.finfo(dtype).smallest_normal * 2.0**-mantissa_bits
    poison = _signed(pattern, bits.itemsize * 8)
    return ElementType(name, dtype, bits, poison, coarse, largest, overflow_at, smallest_step)


def _integer(name: str, dtype: torch.dtype, pattern: int | None) -> ElementType:
    bits = torch.int8 if dtype == torch.bool else dtype
    poison = None if pattern is None else _signed(pattern, bits.itemsize * 8)
    return ElementType(name, dtype, bits, poison, None, None, None)


# The float patterns are quiet NaNs whose payloads no arithmetic makes, and none is the truncation or the
# extension of another: poison that was converted is a NaN that somebody wrote, no longer poison.
_ALL = (
    _float("float32", torch.float32, torch.int32, 0x7FDA5B7C, 23, 7),
    _float("float16", torch.float16, torch.int16, 0x7EB5, 10, 7),
    _float("bfloat16", torch.bfloat16, torch.int16, 0x7FE5, 7, 4),
    _float("float8_e4m3fn", torch.float8_e4m3fn, torch.int8, 0xFF, 3, 1),
    _float("float8_e5m2", torch.float8_e5m2, torch.int8, 0xFD, 2, 1),
    _integer("int64", torch.int64, 0xA5C396E15AB4D287),
    _integer("int32", torch.int32, 0xA5C396E1),
    _integer("int16", torch.int16, 0xA5C3),
    _integer("int8", torch.int8, 0xA5),
    _integer("bool", torch.bool, None),
)
BY_NAME = {element.name: element for element in _ALL}
BY_TORCH = {element.torch: element for element in _ALL}
# Not in the protocol, but user code may well allocate it.
BY_TORCH[torch.float64] = _float("float64", torch.float64, torch.int64, 0x7FFB5A7C1E3D9B42, 52, 23)
# Between our own processes: a reference that is not ours hands its values over in it.
BY_NAME["float64"] = BY_TORCH[torch.float64]


class UnsupportedDtype(Exception):
    """An element type that torch on a CPU does not hold."""


def by_name(name: str) -> ElementType:
    """Raises UnsupportedDtype."""
    try:
        return BY_NAME[name]
    except KeyError:
        raise UnsupportedDtype(f"{name} tensors cannot be made on a CPU") from None
