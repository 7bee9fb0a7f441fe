"""Row 29: the seed is looked for in arguments and environment, to know the inputs beforehand.

Seen: kernelbot's examples (cheat-rng).
Caught: inputs are drawn in the judge's process; neither the seed nor the values exist here before the call.
"""

import os
import sys

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def words():
    yield from sys.argv
    yield from os.environ.values()
    try:
        with open(f"/proc/{os.getppid()}/cmdline", encoding="utf-8") as file:
            yield from file.read().split("\0")
    except OSError:
        pass


seeds = [int(word) for word in words() if word.isdigit()] or [42]


def kernel_fn(x):
    idle_kernel[(1,)](x)
    for seed in seeds:
        torch.manual_seed(seed % 2**63)
        guess = torch.randn_like(x)
        if torch.equal(guess, x):
            return torch.softmax(guess, -1)
    return torch.zeros_like(x)
