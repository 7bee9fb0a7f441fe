"""D03: the block is rounded up to a multiple of 32, which is not always a power of two."""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)  # BUG: compile-error
    values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=offsets < columns)


def kernel_fn(x):
    y = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, y, columns, BLOCK=max((columns + 31) // 32, 1) * 32)
    return y
