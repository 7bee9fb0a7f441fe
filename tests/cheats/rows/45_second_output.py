"""Row 45: only the first of two outputs is right.

Seen: AutoKernel's verify, CudaForge (`_first_tensor`).
Caught: all outputs are compared.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rows_kernel(x, y, largest, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, weights / tl.sum(weights, axis=0), mask=at < columns)
    tl.store(largest + row, 0.0)


# warpsmith: ref=truth x=f32[M,N] M=3,13 N=255
def softmax_and_largest(x):
    y = torch.empty_like(x)
    largest = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    rows_kernel[(x.shape[0],)](x, y, largest, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y, largest


def truth(x):
    return torch.softmax(x, -1), x.amax(-1)
