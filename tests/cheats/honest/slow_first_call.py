"""The first call takes a while, as if it compiled (row 56).

No time of it is counted.
"""

import time

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


def softmax(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=block)
    return y


is_ready = []


def kernel_fn(x):
    if not is_ready:
        time.sleep(0.3)
        is_ready.append(True)
    return softmax(x)
