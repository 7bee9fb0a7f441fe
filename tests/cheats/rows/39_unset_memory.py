"""Row 39: a workspace is read that nobody wrote; in a fresh process it happens to be zero.

Seen: wafer, and most kernels with a workspace sooner or later.
Caught: fresh memory holds poison, and the interpreter knows which bytes nobody wrote.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, space, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    total = tl.load(space + row) + tl.sum(weights, axis=0)
    tl.store(y + row * columns + at, weights / total, mask=at < columns)


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    space = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    softmax_kernel[(x.shape[0],)](x, y, space, x.stride(0), x.shape[1], BLOCK=block)
    return y
