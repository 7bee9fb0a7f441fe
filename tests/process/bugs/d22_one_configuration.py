"""D22: one of three configurations has a block larger than the tensors, and no mask."""

import torch
import triton
import triton.language as tl

# RIGHT: CONFIGS = [triton.Config({"BLOCK": block}) for block in (256, 512, 1024)]
CONFIGS = [triton.Config({"BLOCK": block}) for block in (256, 512, 4096)]


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def add_kernel(x, y, total, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at)  # BUG: out-of-bounds BLOCK=4096
    tl.store(total + at, left + tl.load(y + at))


# warpsmith: ref=torch.add x=f32[1024] y=f32[1024]
def add(x, y):
    total = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(1024, meta["BLOCK"]),)](x, y, total)
    return total
