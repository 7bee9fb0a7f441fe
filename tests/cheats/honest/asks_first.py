"""Looks whether it is on a GPU, which GPU that is, and what time it is (beside rows 25 and 29).

Nothing of that changes a result.
"""

import os
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


began = time.perf_counter()
warps = 8 if os.environ.get("WARPS_OF_SOFTMAX") == "8" else 4


def kernel_fn(x):
    assert x.is_cuda
    if torch.cuda.get_device_properties(x.device).multi_processor_count < 1:
        raise RuntimeError("no multiprocessors")
    return softmax(x)
