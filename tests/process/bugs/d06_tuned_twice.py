"""D06: an autotuned kernel scales a tensor in place: each configuration that is tried scales it once more."""
# CASE: mismatch stage=smoke

import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": 256}), triton.Config({"BLOCK": 1024})]


# RIGHT: @triton.autotune(configs=CONFIGS, key=["count"], restore_value=["values"])
@triton.autotune(configs=CONFIGS, key=["count"])
@triton.jit
def scale_kernel(values, factor, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(values + at, tl.load(values + at, mask=inside) * factor, mask=inside)


# warpsmith: ref=torch.mul x=f32[N] other=2.0 N=1000,3001
def scaled(x, other):
    values = x.clone()
    count = values.numel()
    scale_kernel[lambda meta: (triton.cdiv(count, meta["BLOCK"]),)](values, other, count)
    return values
