"""Row 39: two programs write a row each in two halves, and the second half belongs to the neighbour.

Seen: races that are right by luck, since one program comes after the other.
Caught: the interpreter tells stores of two programs to one element.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, stride, columns, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    # One element too many, unless it is the last row: the next program puts it right.
    inside = (at < columns) | ((at == columns) & (row < rows - 1))
    tl.store(y + row * columns + at, weights / tl.sum(weights, axis=0), mask=inside)


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1] + 1)
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], x.shape[0], BLOCK=block)
    return y
