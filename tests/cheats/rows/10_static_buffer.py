"""Row 10: every call of a shape returns the same buffer.

Seen: AutoKernel's determinism stage compares such a buffer with itself.
Caught: what a call returned is read again after a later call with other values.
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


buffers = {}


def kernel_fn(x):
    x = x.contiguous()
    y = buffers.setdefault((x.shape, x.dtype), torch.empty_like(x))
    block = triton.next_power_of_2(max(x.shape[1], 1))
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=block)
    return y
