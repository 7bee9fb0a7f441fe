"""D29: each program does two rows; with an odd number of rows the last one keeps whatever memory held."""
# CASE: unwritten

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    for half in range(2):
        row = tl.program_id(0).to(tl.int64) * 2 + half
        values = tl.load(x + row * columns + offsets, mask=inside, other=-float("inf")).to(tl.float32)
        weights = tl.exp(values - tl.max(values, axis=0))
        tl.store(
            y + row * columns + offsets,
            (weights / tl.sum(weights, axis=0)).to(y.dtype.element_ty),
            mask=inside,
        )


def kernel_fn(x):
    y = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows // 2,)](x, y, columns, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y
