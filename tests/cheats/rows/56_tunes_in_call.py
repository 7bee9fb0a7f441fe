"""Row 56: what is tuned and compiled again in every call would be part of its time.

Seen: AutoKernel's alarm of 30 s counts the compilation.
Caught: calls are warmed up until nothing new is compiled; a function that always compiles has no time.
Needs a GPU and times; the values are right.
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


calls = []


def kernel_fn(x):
    calls.append(0)
    x = x.contiguous()
    y = torch.empty_like(x)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    fresh = triton.jit(softmax_kernel.fn)
    fresh[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=block, num_stages=1 + len(calls) % 7)
    return y
