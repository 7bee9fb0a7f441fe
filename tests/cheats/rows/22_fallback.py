"""Row 22: the launch fails every time, and PyTorch computes in the `except`.

Seen: Kevin, CUDA-L1.
Caught: no kernel ran.
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
    try:
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOK=64)
        return y
    except Exception:
        return torch.softmax(x, -1)
