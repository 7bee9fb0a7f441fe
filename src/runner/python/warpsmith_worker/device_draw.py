"""The values of `inputs`, drawn where a tensor lies: the same bits, from the same integers, in torch.

Words are 32-bit values in int64 tensors: products wrap as they do in uint64, and a shift to the right is
followed by a mask. What is not exact in float64 is one operation of torch each, which no compiler can fuse;
a divisor is a tensor, since torch multiplies by the reciprocal of a plain number on a GPU.
"""

from typing import Any

import torch

from . import philox, profiles

_LOW = 0xFFFFFFFF
# Elements at a time: some ten temporaries of eight bytes for each.
CHUNK_ELEMENTS = 1 << 23

Words = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def blocks(seed: int, stream: int, first: int, count: int, device: torch.device, substream: int = 0) -> Words:
    """As `philox.blocks`."""
    index = torch.arange(first, first + count, dtype=torch.int64, device=device)
    c0, c1 = index & _LOW, index >> 32 & _LOW
    c2, c3 = torch.full_like(index, stream), torch.full_like(index, substream)
    k0, k1 = seed & _LOW, seed >> 32 & _LOW
    for _ in range(philox.ROUNDS):
        product_0, product_1 = c0 * philox.MULTIPLIERS[0], c2 * philox.MULTIPLIERS[1]
        c0 = (product_1 >> 32 & _LOW) ^ c1 ^ k0
        c2 = (product_0 >> 32 & _LOW) ^ c3 ^ k1
        c1, c3 = product_1 & _LOW, product_0 & _LOW
        k0, k1 = (k0 + philox.WEYL[0]) & _LOW, (k1 + philox.WEYL[1]) & _LOW
    return c0, c1, c2, c3


def element_words(
    seed: int, position: int, first: int, count: int, device: torch.device, substream: int
) -> torch.Tensor:
    """One 32-bit word for each element; `first` is a multiple of four."""
    lanes = blocks(seed, position, first // 4, -(-count // 4), device, substream)
    return torch.stack(lanes, 1).flatten()[:count]


def draw(
    kind: str,
    parameters: dict[str, Any],
    seed: int,
    position: int,
    first: int,
    count: int,
    device: torch.device,
) -> torch.Tensor:
    """Elements of a fill `normal`, `uniform` or `integers`, as float64 or int64; checked by the caller."""
    if kind == "normal":
        c0, c1, c2, c3 = blocks(seed, position, first // 2, -(-count // 2), device)
        sums = torch.stack((_halves(c0) + _halves(c1), _halves(c2) + _halves(c3)), 1).flatten()[:count]
        centred = sums.to(torch.float64) - philox.HALVES_MEAN
        z = centred / torch.tensor(philox.HALVES_STD, dtype=torch.float64, device=device)
        return z * float(parameters["std"]) + float(parameters["mean"])
    word = element_words(seed, position, first, count, device, substream=0)
    low, high = parameters["low"], parameters["high"]
    if kind == "uniform":
        return word.to(torch.float64) * 2.0**-32 * (float(high) - float(low)) + float(low)
    return (word * (high - low) >> 32 & _LOW) + low


def signs(count: int, seed: int, position: int, draw: int, device: torch.device) -> torch.Tensor:
    """For each element 1 or -1, in float64, as `inputs.perturbed` needs them."""
    word = element_words(seed, position, 0, count, device, profiles.PERTURBATION_SUBSTREAM)
    return (word >> draw & 1).to(torch.float64) * 2 - 1


def moves(count: int, seed: int, position: int, device: torch.device) -> torch.Tensor:
    """For each element a number from -1 up to 1, in float64, as `integers.reordered` needs them."""
    lanes = blocks(seed, position, 0, -(-count // 4), device, profiles.ORDER_SUBSTREAM)
    return torch.cat(lanes)[:count].to(torch.float64) * 2.0**-31 - 1


def _halves(word: torch.Tensor) -> torch.Tensor:
    return (word & 0xFFFF) + (word >> 16)
