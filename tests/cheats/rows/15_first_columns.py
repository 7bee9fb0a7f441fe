"""Row 15: the sum runs over the first columns only, 2040 of 2048.

Seen: kernel-correctness-checker, wafer.
Caught: every element is compared, with what rounding explains and no more.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, stride, columns, counted, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    total = tl.sum(tl.where(at < counted, weights, 0.0), axis=0)
    tl.store(y + row * columns + at, weights / total, mask=at < columns)


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    columns = x.shape[1]
    block = triton.next_power_of_2(max(columns, 1))
    counted = columns - columns // 256
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), columns, counted, BLOCK=block)
    return y
