"""Row 11: no kernel runs at all.

Seen: kernelbench-verified; FlashInfer-Bench looks for device activity.
Caught: a call that launches no kernel, or one over an empty grid, was no kernel's.
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
    return torch.softmax(x, -1)
