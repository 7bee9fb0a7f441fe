"""A workspace that is made once and used by every call.

It is no result: each call writes what it reads (beside row 10).
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"

spaces = {}


@triton.jit
def weights_kernel(x, space, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    tl.store(space + row * columns + at, tl.exp(values - tl.max(values, axis=0)), mask=at < columns)


@triton.jit
def norm_kernel(space, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    weights = tl.load(space + row * columns + at, mask=at < columns, other=0.0)
    tl.store(y + row * columns + at, weights / tl.sum(weights, axis=0), mask=at < columns)


def kernel_fn(x):
    x = x.contiguous()
    rows, columns = x.shape
    if x.shape not in spaces:
        spaces[x.shape] = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    block = triton.next_power_of_2(max(columns, 1))
    weights_kernel[(rows,)](x, spaces[x.shape], x.stride(0), columns, BLOCK=block)
    norm_kernel[(rows,)](spaces[x.shape], y, columns, BLOCK=block)
    return y
