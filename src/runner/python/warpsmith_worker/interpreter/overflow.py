"""int32 arithmetic that wrapped around, followed until it decides an address or a branch.

A wrapped value alone proves nothing: lanes that a mask turns off and hash functions wrap on purpose. So
the lanes are marked, the mark travels with the values, and only a marked lane that is used as an address
or as a condition becomes a finding, at the line of the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .errors import Place


@dataclass(frozen=True)
class Origin:
    """Where a value wrapped for the first time."""

    place: Place | None
    called_from: tuple[tuple[str, int], ...]
    message: str


@dataclass(frozen=True)
class Overflow:
    """The mark on a value."""

    lanes: np.ndarray
    """bool, of the value's shape (or one that broadcasts to it): which lanes come from a wrapped one."""
    origin: Origin

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> Overflow:
        """The mark after the value changed shape."""
        return Overflow(change(self.lanes), self.origin)

    def touches(self, shape: tuple[int, ...], mask: np.ndarray | None) -> bool:
        """Whether an active lane is marked."""
        lanes = np.broadcast_to(self.lanes, shape)
        return bool(lanes.any() if mask is None else (lanes & mask).any())


def union(first: Overflow | None, second: Overflow | None) -> Overflow | None:
    """The mark of a value made from two."""
    if first is None:
        return second
    if second is None:
        return first
    return Overflow(first.lanes | second.lanes, first.origin)


_SYMBOLS = {"add": "+", "sub": "-", "mul": "*"}
_WIDE = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


def wrapped_lanes(operation: str, left: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Which lanes of an int32 operation wrap; ``None`` for none."""
    # The extremes settle nearly every case: four reductions instead of a wide copy.
    low_l, high_l, low_r, high_r = int(left.min()), int(left.max()), int(right.min()), int(right.max())
    if operation == "add":
        low, high = low_l + low_r, high_l + high_r
    elif operation == "sub":
        low, high = low_l - high_r, high_l - low_r
    else:
        corners = (low_l * low_r, low_l * high_r, high_l * low_r, high_l * high_r)
        low, high = min(corners), max(corners)
    if low >= -(2**31) and high < 2**31:
        return None
    wide = _WIDE[operation](left.astype(np.int64), right.astype(np.int64))
    lanes = (wide < -(2**31)) | (wide >= 2**31)
    return lanes if lanes.any() else None


def describe(
    operation: str, left: np.ndarray, right: np.ndarray, lanes: np.ndarray, program: tuple[int, int, int]
) -> str:
    """One sentence with the operands of the first lane that wrapped."""
    first = np.unravel_index(int(np.flatnonzero(lanes)[0]), lanes.shape)
    a = int(np.broadcast_to(left, lanes.shape)[first])
    b = int(np.broadcast_to(right, lanes.shape)[first])
    exact = {"add": a + b, "sub": a - b, "mul": a * b}[operation]
    return (
        f"{a} {_SYMBOLS[operation]} {b} = {exact} does not fit int32 and wraps around in program {program}; "
        "make one operand 64-bit before with `.to(tl.int64)`"
    )
