"""D38: a plain number of the module inside a kernel, the other form that the compiler refuses."""

import torch
import triton
import triton.language as tl

# RIGHT: SHIFT = tl.constexpr(3.0)
SHIFT = 3.0


@triton.jit
def shift_kernel(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    values = tl.load(x + at, mask=inside, other=0.0)
    tl.store(y + at, values + SHIFT, mask=inside)  # BUG: compile-error


def truth(x):
    return x + 3.0


# warpsmith: ref=truth x=f32[N] N=1,1000
def shifted(x):
    y = torch.empty_like(x)
    shift_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
