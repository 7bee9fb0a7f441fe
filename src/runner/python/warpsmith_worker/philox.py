"""Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011).

A counter-based generator: block `b` of four 32-bit words depends on the key and on `b` alone, so values can
be made in any order and in any language. The key is the seed (low word, high word). The counter is
(block low, block high, stream, substream); a stream is the position of a tensor among its case's inputs, a
substream one purpose within it.
"""

import numpy as np
import numpy.typing as npt

Words = tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.uint64]]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
# Of the sum of four uniform whole numbers on 0..65535.
HALVES_MEAN = 131070
HALVES_STD = float(np.sqrt(4 * (65536.0**2 - 1) / 12))
_MULTIPLIER_0, _MULTIPLIER_1 = map(np.uint64, MULTIPLIERS)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


def words(counter: Words, key: tuple[int, int]) -> Words:
    """The four output words of every counter. Counters and words are 32-bit values in uint64 arrays."""
    c0, c1, c2, c3 = (word.copy() for word in counter)
    product_0 = np.empty_like(c0)
    product_1 = np.empty_like(c0)
    k0, k1 = key
    for _ in range(ROUNDS):
        np.multiply(c0, _MULTIPLIER_0, out=product_0)
        np.multiply(c2, _MULTIPLIER_1, out=product_1)
        # c0 = high(product_1) ^ c1 ^ k0; c2 = high(product_0) ^ c3 ^ k1; c1, c3 = low words.
        np.right_shift(product_1, _32, out=c0)
        np.bitwise_xor(c0, c1, out=c0)
        np.bitwise_xor(c0, np.uint64(k0), out=c0)
        np.right_shift(product_0, _32, out=c2)
        np.bitwise_xor(c2, c3, out=c2)
        np.bitwise_xor(c2, np.uint64(k1), out=c2)
        np.bitwise_and(product_1, _LOW, out=c1)
        np.bitwise_and(product_0, _LOW, out=c3)
        k0 = (k0 + WEYL[0]) & 0xFFFFFFFF
        k1 = (k1 + WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def blocks(seed: int, stream: int, first: int, count: int, substream: int = 0) -> Words:
    """Words of the blocks `first`, `first + 1`, … of one stream."""
    index = np.arange(first, first + count, dtype=np.uint64)
    counter = (
        index & _LOW,
        index >> _32,
        np.full(count, stream, np.uint64),
        np.full(count, substream, np.uint64),
    )
    return words(counter, (seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF))
