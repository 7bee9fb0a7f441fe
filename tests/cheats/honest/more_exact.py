"""More exact than PyTorch in bfloat16 (row 52).

The reference is float64; what PyTorch gets wrong is no error of the kernel.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def chain_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + at, value * value * value + value, mask=at < n)


# warpsmith: ref=truth x=bf16[M,N] M=1,13 N=255
def chain(x):
    y = torch.empty_like(x)
    chain_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y


def truth(x):
    return x * x * x + x
