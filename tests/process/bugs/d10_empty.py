"""D10: the wrapper divides by the number of rows: it raises on an empty tensor."""
# CASE: raised M=0

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "rmsnorm"


@triton.jit
def rmsnorm_kernel(x, weight, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / columns + eps)
    factor = tl.load(weight + offsets, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * columns + offsets, (values * scale * factor).to(y.dtype.element_ty), mask=inside)


def kernel_fn(x, weight, eps=1e-6):
    y = torch.empty_like(x)
    rows, columns = x.shape
    waves = -(-132 // rows)
    assert waves > 0
    rmsnorm_kernel[(rows,)](x, weight, y, columns, eps, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y
