"""Infinities that belong into the result (row 53).

A causal mask over a square.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def mask_kernel(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * N + at, mask=at < N, other=0.0)
    tl.store(y + row * N + at, tl.where(at <= row, values, -float("inf")), mask=at < N)


# warpsmith: ref=truth x=f16|f32[M,N] M=1,13 N=13,255
def masked(x):
    y = torch.empty_like(x)
    mask_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def truth(x):
    row = torch.arange(x.shape[0], device=x.device)[:, None]
    column = torch.arange(x.shape[1], device=x.device)[None, :]
    return x.masked_fill(column > row, float("-inf"))
