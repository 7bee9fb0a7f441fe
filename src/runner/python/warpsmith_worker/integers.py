"""Integer results of float inputs: where the order of close values or a rounding decides, several are right.

The place of a maximum is any of two where values are equal: torch promises no order, nor need a kernel.
"""

import numpy as np
import torch

from . import device_draw, philox, profiles
from .compare import Truth
from .dtypes import ElementType
from .reference import ReferenceFailed

# Beyond this share of the elements a case says nothing.
_LARGEST_SHARE = 0.5
# Values between which a single element may be chance: nearly every other value is still wrong.
_SMALLEST_CHOICE = 2
# Next to zero a relative change is none; no value that is compared is as small.
_SMALLEST_CHANGE = 1e-300


def may_be_indices(element: ElementType) -> bool:
    """Whether values may be places of something; narrower integers are quantities."""
    return element.torch in (torch.int32, torch.int64)


def reordered(values: torch.Tensor, relative: float, seed: int, position: int, *, back: bool) -> torch.Tensor:
    """The values in float64, each moved by less than a factor of `relative`, every one by another.

    `back` moves all by as much the other way: of two equal values each is the larger one once.
    """
    count = values.numel()
    if values.is_cuda:
        moves = device_draw.moves(count, seed, position, values.device).reshape(values.shape)
    else:
        blocks = philox.blocks(seed, position, 0, -(-count // 4), profiles.ORDER_SUBSTREAM)
        words = np.concatenate(blocks)[:count]
        moves = torch.from_numpy(words.astype(np.float64) / 2.0**31 - 1).reshape(values.shape)
    moves = -moves if back else moves
    return values.to(torch.float64) * (1 + relative * moves) + _SMALLEST_CHANGE * moves


def check(name: str, truth: Truth) -> None:
    """Raises ReferenceFailed when what the reference says is chance for most elements."""
    total = truth.expected.numel()
    differing = int((truth.in_dtype.to(torch.int64) != truth.expected).sum())
    if differing > max(1.0, _LARGEST_SHARE * total):
        raise ReferenceFailed(
            f"{differing} of {total} elements of `{name}` are others in the case's dtype than in float64: "
            "the reference cannot say what is right in this dtype"
        )
    undecided = truth.undecided()
    chance = 0 if undecided is None else int(undecided.sum())
    # Of few elements most may be chance, but then only between two values.
    if chance > _LARGEST_SHARE * total and (chance > 1 or truth.largest_choice() > _SMALLEST_CHOICE):
        raise ReferenceFailed(
            f"{chance} of {total} elements of `{name}` depend on the order of equal values, which nobody "
            "promises: the reference cannot say what is right; return the values instead of their places"
        )
