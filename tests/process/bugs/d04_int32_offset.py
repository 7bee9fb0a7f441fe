"""D04: row times row length is an int32 product; it wraps on tensors of more than 2^31 elements."""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    start = row * columns  # BUG: integer-overflow
    values = tl.load(x + start + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + start + offsets, weights / tl.sum(weights, axis=0), mask=offsets < columns)


def kernel_fn(x):
    y = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y
