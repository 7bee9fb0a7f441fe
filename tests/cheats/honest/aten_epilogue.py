"""The kernel makes weights and their sums; PyTorch divides (beside row 21).

The judged operation itself is never called.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def weights_kernel(x, y, total, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, weights, mask=at < columns)
    tl.store(total + row, tl.sum(weights, axis=0))


def kernel_fn(x):
    x = x.contiguous()
    rows, columns = x.shape
    weights = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    total = torch.empty((rows, 1), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(max(columns, 1))
    weights_kernel[(rows,)](x, weights, total, x.stride(0), columns, BLOCK=block)
    return (weights / total).to(x.dtype)
