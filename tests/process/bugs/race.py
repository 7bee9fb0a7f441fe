"""Two programs of one launch read and write the same row sum without atomics."""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def partial_sums_kernel(x, sums, columns, HALF: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.program_id(1) * HALF + tl.arange(0, HALF)
    weights = tl.exp(
        tl.load(x + row * columns + offsets, mask=offsets < columns, other=-float("inf")).to(tl.float32)
    )
    before = tl.load(sums + row)  # BUG: race
    tl.store(sums + row, before + tl.sum(weights, axis=0))


@triton.jit
def divide_kernel(x, sums, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    weights = tl.exp(tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32))
    tl.store(y + row * columns + offsets, (weights / tl.load(sums + row)).to(y.dtype.element_ty), mask=inside)


def kernel_fn(x):
    y = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(max(columns, 2))
    sums = torch.zeros(rows, device=x.device, dtype=torch.float32)
    partial_sums_kernel[(rows, 2)](x, sums, columns, HALF=block // 2)
    divide_kernel[(rows,)](x, sums, y, columns, BLOCK=block)
    return y
