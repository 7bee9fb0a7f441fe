"""Row 11: the kernel is launched over an empty grid, and PyTorch computes.

Seen: as 11_no_launch, where launches are counted only.
Caught: a launch without programs is none.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, weights / tl.sum(weights, axis=0), mask=at < columns)


def kernel_fn(x):
    softmax_kernel[(0,)](x, x, x.stride(0), x.shape[1], BLOCK=64)
    return torch.softmax(x, -1)
