"""Sums by atomics, in whatever order programs come (a warning, and a pass).

Results differ from call to call, each within the tolerance.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y, tl.sum(tl.load(x + at, mask=at < n, other=0.0), axis=0))


# warpsmith: ref=torch.sum x=f32[N] N=1000,4001
def total(x):
    y = torch.zeros((), dtype=torch.float32, device=x.device)
    total_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
