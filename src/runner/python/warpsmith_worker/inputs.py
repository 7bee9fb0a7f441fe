"""Draws the values of input tensors. Element `i` (row-major) depends on seed, position and `i` alone.

Values are computed in float64, rounded to float32, then to the tensor's dtype. Value profiles, which change
what a plain fill draws, are in `profiles`.
"""

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from . import device_draw, philox, profiles

# Blocks at a time: the arrays of one step stay in the second-level cache.
_CHUNK_BLOCKS = 8192
_WIDEST_INTEGER_RANGE = 1 << 32
_DRAWN_FOR_ONE = 64


class BadFill(Exception):
    """A fill that cannot be drawn, or strides that overlap."""


def is_untouched(fill: Any) -> bool:
    """Whether nothing of the tensor is written."""
    return fill == "untouched"


def draw(fill: Any, seed: int, position: int, first: int, count: int) -> npt.NDArray[Any]:
    """Elements `first` … `first + count - 1` of a tensor, as float64 or int64.

    `first` must be a multiple of four; `position` is the tensor's place among its case's inputs (scalars
    count). Raises BadFill.
    """
    kind, parameters = _kind_of(fill)
    if kind == "profiled":
        return _draw_profiled(parameters, seed, position, first, count)
    if kind == "normal":
        first_block, block_count = first // 2, -(-count // 2)
        c0, c1, c2, c3 = philox.blocks(seed, position, first_block, block_count)
        sums = np.empty(2 * block_count)
        sums[0::2] = _halves(c0) + _halves(c1)
        sums[1::2] = _halves(c2) + _halves(c3)
        z = (sums[:count] - philox.HALVES_MEAN) / philox.HALVES_STD
        return float(parameters["mean"]) + float(parameters["std"]) * z
    word = _element_words(seed, position, first, count, substream=0)
    low, high = parameters["low"], parameters["high"]
    if kind == "uniform":
        return float(low) + (float(high) - float(low)) * (word / 2.0**32)
    _check_range(low, high)
    return np.int64(low) + (word * np.uint64(high - low) >> np.uint64(32)).astype(np.int64)


def perturbed(values: torch.Tensor, relative: float, seed: int, position: int, draw: int) -> torch.Tensor:
    """The values in float64, each larger or smaller by a factor of `relative`, as chance will have it.

    There are 32 draws.
    """
    count = values.numel()
    if values.is_cuda:
        of_gpu = device_draw.signs(count, seed, position, draw, values.device).reshape(values.shape)
        return values.to(torch.float64) * (of_gpu * relative + 1)
    word = _element_words(seed, position, 0, count, substream=profiles.PERTURBATION_SUBSTREAM)
    signs = torch.from_numpy(np.where(word >> np.uint64(draw) & np.uint64(1), 1.0, -1.0)).reshape(
        values.shape
    )
    return values.to(torch.float64) * (1 + relative * signs)


def fill_tensor(target: torch.Tensor, fill: Any, seed: int, position: int) -> None:
    """Draw every element of a tensor, whatever its strides. Raises BadFill.

    Along a dimension of stride 0 the elements share memory: they all get the value of index 0.
    """
    if target.numel() == 0:
        return
    if target.is_contiguous():
        _fill_flat(target.view(-1), fill, seed, position)
        return
    _refuse_overlap(target.shape, target.stride())
    values = torch.empty(target.shape, dtype=target.dtype, device=target.device)
    _fill_flat(values.view(-1), fill, seed, position)
    for dim, stride in enumerate(target.stride()):
        if stride == 0:
            target, values = target.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
    target.copy_(values)


def change_one(values: torch.Tensor, fill: Any, seed: int, position: int) -> None:
    """Give one element, which the seed draws, a value that the fill may give and that is far from its own."""
    if values.numel() == 0:
        return
    chance = random.Random(f"{seed}/{position}")
    index = tuple(chance.randrange(length) for length in values.shape)
    drawn = torch.empty(_DRAWN_FOR_ONE, dtype=values.dtype, device=values.device)
    _fill_flat(drawn, fill, chance.getrandbits(63), position)
    # Not every dtype can be compared.
    distance = (drawn.to(torch.float64) - values[index].to(torch.float64)).abs().nan_to_num(nan=0.0)
    values[index] = drawn[int(distance.argmax())]


def _fill_flat(target: torch.Tensor, fill: Any, seed: int, position: int) -> None:
    if target.is_cuda:
        kind, parameters = _kind_of(fill)
        if kind != "profiled":
            fill_in_place(target, kind, parameters, seed, position)
            return
        # Some profiles take functions of which no two libraries make the same bits.
        on_host = torch.empty(target.shape, dtype=target.dtype, device="cpu")
        _fill_flat(on_host, fill, seed, position)
        target.copy_(on_host)
        return
    step = 4 * _CHUNK_BLOCKS
    for first in range(0, target.numel(), step):
        count = min(step, target.numel() - first)
        values = draw(fill, seed, position, first, count)
        if values.dtype == np.float64:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                values = values.astype(np.float32)
        target[first : first + count].copy_(torch.from_numpy(values))


def fill_in_place(
    target: torch.Tensor, kind: str, parameters: dict[str, Any], seed: int, position: int
) -> None:
    """Draw a flat tensor where it lies. The bits are those that the host would draw."""
    if kind == "integers":
        _check_range(parameters["low"], parameters["high"])
    step = device_draw.CHUNK_ELEMENTS
    for first in range(0, target.numel(), step):
        count = min(step, target.numel() - first)
        values = device_draw.draw(kind, parameters, seed, position, first, count, target.device)
        if values.dtype == torch.float64:
            values = values.to(torch.float32)
        if target.is_floating_point() and target.element_size() == 1:
            # Hardware and host need not round alike to eight bits, or beyond the largest value.
            values = values.cpu().to(target.dtype)
        target[first : first + count].copy_(values)


def _check_range(low: int, high: int) -> None:
    if not 0 < high - low <= _WIDEST_INTEGER_RANGE:
        raise BadFill(f"integers from {low} up to {high}: the range must hold 1 to 2^32 values")


def _draw_profiled(
    parameters: dict[str, Any], seed: int, position: int, first: int, count: int
) -> npt.NDArray[np.float64]:
    base = parameters["base"]
    values = draw(base, seed, position, first, count).astype(np.float64)
    mean, std = _moments(base)
    word = _element_words(seed, position, first, count, substream=profiles.ELEMENT_SUBSTREAM)
    index = np.arange(first, first + count, dtype=np.int64)
    length = max(1, int(parameters["row_length"]))
    row, column = index // length, index % length
    first_row = first // length
    rows = int(row[-1]) - first_row + 1
    row_words = philox.blocks(seed, position, first_row, rows, substream=profiles.ROW_SUBSTREAM)[0]
    hot = (row_words * np.uint64(length) >> np.uint64(32)).astype(np.int64)[row - first_row]
    elements = profiles.Elements(values, mean, std, word, row, column == hot)
    try:
        return profiles.apply(parameters["profile"], elements)
    except profiles.UnknownProfile as error:
        raise BadFill(str(error)) from None


def _moments(fill: Any) -> tuple[float, float]:
    """Mean and a typical deviation of a fill."""
    kind, parameters = _kind_of(fill)
    if kind == "normal":
        return float(parameters["mean"]), float(parameters["std"])
    if kind == "profiled":
        raise BadFill("a profile of a profile")
    low, high = float(parameters["low"]), float(parameters["high"])
    return (low + high) / 2, (high - low) / 2


def _element_words(
    seed: int, position: int, first: int, count: int, substream: int
) -> npt.NDArray[np.uint64]:
    """One 32-bit word for each element; `first` is a multiple of four."""
    block_count = -(-count // 4)
    word = np.empty(4 * block_count, np.uint64)
    for lane, values in enumerate(philox.blocks(seed, position, first // 4, block_count, substream)):
        word[lane::4] = values
    return word[:count]


def _halves(word: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return (word & np.uint64(0xFFFF)) + (word >> np.uint64(16))


def _kind_of(fill: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(fill, dict) and len(fill) == 1:
        (kind, parameters), *_ = fill.items()
        if kind in ("normal", "uniform", "integers", "profiled"):
            return kind, parameters
    raise BadFill(f"unknown fill {fill!r}")


def _refuse_overlap(shape: Sequence[int], strides: Sequence[int]) -> None:
    reach = 0
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride > 0:
            if stride <= reach:
                raise BadFill(f"elements of strides {tuple(strides)} share memory")
            reach += stride * (size - 1)
