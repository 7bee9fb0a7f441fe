"""Stands for the run copy of the user's file: findings name another path."""

import triton
import triton.language as tl


@triton.jit
def past_the_end(x):
    tl.store(x + 4, 1.0)  # past
