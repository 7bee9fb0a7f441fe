"""The caller passes the memory of the result, and it is written in place (beside rows 7 and 35).

Said by `y=out:` in the comment.
"""

import torch
import triton
import triton.language as tl


# warpsmith: ref=torch.nn.functional.silu x=f16|f32[M,N] y=out:f16|f32[M,N] M=1,13 N=255
def silu_into(x, y):
    sigmoid_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)


@triton.jit
def sigmoid_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n).to(tl.float32)
    tl.store(y + at, value * tl.sigmoid(value), mask=at < n)
