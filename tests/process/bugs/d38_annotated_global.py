"""D38: a global that is annotated as a constant but is a plain number; Triton's compiler refuses it."""

import torch
import triton
import triton.language as tl

# RIGHT: UNROLL = tl.constexpr(4)
UNROLL: tl.constexpr = 4


@triton.jit
def square_kernel(x, y, count, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK * UNROLL  # BUG: compile-error
    for part in tl.static_range(UNROLL):
        at = first + part * BLOCK + tl.arange(0, BLOCK)
        inside = at < count
        values = tl.load(x + at, mask=inside, other=0.0)
        tl.store(y + at, values * values, mask=inside)


# warpsmith: ref=torch.square x=f32|f16[N] N=1,1000,5001
def squared(x):
    y = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=256)
    return y
