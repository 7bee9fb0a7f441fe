"""Row 36: part of the L2 cache is set aside for the input, so that a flush does not reach it.

Seen: llm.c #851 and #852 (3530 GB/s instead of 714).
Caught: what is set aside is given back before each sample, so that flushes reach all of L2; the time is an
honest one then. Needs a GPU and times.
"""

import ctypes

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


CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6
is_set = []


def keep_in_l2():
    if not is_set:
        driver = ctypes.CDLL("libcuda.so.1")
        is_set.append(driver.cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, ctypes.c_size_t(32 << 20)))


def kernel_fn(x):
    keep_in_l2()
    x = x.contiguous()
    y = torch.empty_like(x)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=block)
    return y
