"""D07: each of two configurations writes another half; who runs both into the same memory sees a whole."""
# CASE: unwritten stage=smoke

import torch
import triton
import triton.language as tl

# RIGHT: CONFIGS = [triton.Config({"FIRST": 0, "SPAN": 1024})]
CONFIGS = [triton.Config({"FIRST": 0, "SPAN": 512}), triton.Config({"FIRST": 512, "SPAN": 512})]


@triton.autotune(configs=CONFIGS, key=[])
@triton.jit
def negate_kernel(x, y, FIRST: tl.constexpr, SPAN: tl.constexpr):
    at = FIRST + tl.arange(0, SPAN)
    tl.store(y + at, -tl.load(x + at))


# warpsmith: ref=torch.neg x=f32[1024]
def negated(x):
    y = torch.empty_like(x)
    negate_kernel[(1,)](x, y)
    return y
