"""D30: squares are added up in the input's dtype; in bfloat16 a long sum stops growing."""
# CASE: mismatch dtype=bfloat16

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "rmsnorm"


@triton.jit
def rmsnorm_kernel(x, weight, y, columns, eps, STEP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((1,), dtype=x.dtype.element_ty)
    for start in range(0, columns, STEP):
        offsets = start + tl.arange(0, STEP)
        values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=0.0)
        total += tl.sum(values * values, axis=0).to(x.dtype.element_ty)
    scale = tl.rsqrt(total.to(tl.float32) / columns + eps)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        inside = offsets < columns
        values = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
        factor = tl.load(weight + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + row * columns + offsets, (values * scale * factor).to(y.dtype.element_ty), mask=inside)


def kernel_fn(x, weight, eps=1e-6):
    y = torch.empty_like(x)
    rows, columns = x.shape
    rmsnorm_kernel[(rows,)](x, weight, y, columns, eps, STEP=16, BLOCK=1024)
    return y
