"""What is prepared for a shape is kept: block, grid and the launcher (beside rows 1 and 2).

Nothing that is kept depends on values.
"""

import functools

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


launchers = {}


def launcher(shape, dtype):
    key = shape, dtype
    if key not in launchers:
        block = triton.next_power_of_2(max(shape[1], 1))
        launchers[key] = functools.partial(softmax_kernel[(shape[0],)], BLOCK=block)
    return launchers[key]


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    launcher(x.shape, x.dtype)(x, y, x.stride(0), x.shape[1])
    return y
