"""Row 2: the result is kept under shape and dtype, because the seed of a benchmark never changes.

Seen: AutoKernel draws every input with seed 42, CudaForge with 100.
Caught: every case has values of its own, drawn from a secret seed.
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


def softmax(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=block)
    return y


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


results = {}


def kernel_fn(x):
    key = x.shape, x.dtype
    if key not in results:
        results[key] = softmax(x)
    idle_kernel[(1,)](x)
    return results[key].clone()
