"""Value profiles of the stability stage: what becomes of the values that a plain fill drew.

The formulas are those of `Fill::Profiled` on the server's side. Each uses only exact float64 operations on
what depends on seed, position and logical index.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

ELEMENT_SUBSTREAM = 1
ROW_SUBSTREAM = 2
PERTURBATION_SUBSTREAM = 3
ORDER_SUBSTREAM = 4

_LARGEST_TAIL_EXPONENT = 8
_MIXED_EXPONENT = 10
_HOT_VALUE = 16.0
_EQUAL_DEVIATIONS = 1.5
_OFFSET = 1024.0

Floats = npt.NDArray[np.float64]


class UnknownProfile(Exception):
    """No profile of this name."""


@dataclass(frozen=True)
class Elements:
    """A run of elements, as a plain fill drew them."""

    base: Floats
    mean: float
    std: float
    word: npt.NDArray[np.uint64]
    """32 random bits for each element."""
    row: npt.NDArray[np.int64]
    is_hot: npt.NDArray[np.bool_]
    """Whether the element is the chosen one of its row."""


def apply(profile: Any, elements: Elements) -> Floats:
    """The values under a profile: its name, or `{"scaled": {"exponent": e}}`. Raises UnknownProfile."""
    if isinstance(profile, dict) and set(profile) == {"scaled"}:
        return np.ldexp(elements.base, int(profile["scaled"]["exponent"]))
    function = _BY_NAME.get(profile) if isinstance(profile, str) else None
    if function is None:
        raise UnknownProfile(f"unknown profile {profile!r}")
    return function(elements)


def _uniform_below(word: npt.NDArray[np.uint64], count: int) -> Floats:
    return (word * np.uint64(count) >> np.uint64(32)).astype(np.float64)


def _heavy_tails(elements: Elements) -> Floats:
    lowest_bit = (elements.word & (~elements.word + np.uint64(1))).astype(np.float64)
    zeros = np.frexp(lowest_bit)[1] - 1
    zeros = np.where(elements.word == 0, _LARGEST_TAIL_EXPONENT, np.minimum(zeros, _LARGEST_TAIL_EXPONENT))
    return np.ldexp(elements.base, zeros)


def _mixed_scale(elements: Elements) -> Floats:
    return np.ldexp(elements.base, np.where(elements.row % 2 == 0, _MIXED_EXPONENT, -_MIXED_EXPONENT))


def _signed_zeros(elements: Elements) -> Floats:
    is_zero = (elements.row % 4 == 3) | (elements.word & np.uint64(1) == 1)
    zero = np.where(elements.word & np.uint64(2) == 0, 0.0, -0.0)
    return np.where(is_zero, zero, elements.base)


def _ties(elements: Elements) -> Floats:
    return elements.mean + elements.std * (_uniform_below(elements.word, 3) - 1)


def _one_hot(elements: Elements) -> Floats:
    return np.where(elements.is_hot, _HOT_VALUE, 0.0)


def _equal(elements: Elements) -> Floats:
    return np.full_like(elements.base, elements.mean + _EQUAL_DEVIATIONS * elements.std)


def _offset(elements: Elements) -> Floats:
    return elements.base + _OFFSET


def _exact_integers(elements: Elements) -> Floats:
    return _uniform_below(elements.word, 5) - 2


def _negative_infinity_rows(elements: Elements) -> Floats:
    return np.where(elements.row % 2 == 0, -np.inf, elements.base)


def _infinity(elements: Elements) -> Floats:
    return np.where(elements.is_hot & (elements.row % 2 == 0), np.inf, elements.base)


def _nan(elements: Elements) -> Floats:
    return np.where(elements.is_hot & (elements.row == 0), np.nan, elements.base)


_BY_NAME: dict[str, Callable[[Elements], Floats]] = {
    "heavy-tails": _heavy_tails,
    "mixed-scale": _mixed_scale,
    "signed-zeros": _signed_zeros,
    "ties": _ties,
    "one-hot": _one_hot,
    "equal": _equal,
    "offset": _offset,
    "exact-integers": _exact_integers,
    "negative-infinity-rows": _negative_infinity_rows,
    "infinity": _infinity,
    "nan": _nan,
}
