"""Program 0 sets the sum and all others add to it: right only if program 0 is first, as nothing promises."""

# STAGE: determinism uninitialised-read
import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def maximum_kernel(x, largest, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    tl.store(largest + row, tl.max(values.to(tl.float32), axis=0))


@triton.jit
def sum_kernel(x, largest, sums, columns, SPAN: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    offsets = part * SPAN + tl.arange(0, SPAN)
    values = tl.load(x + row * columns + offsets, mask=offsets < columns, other=-float("inf"))
    total = tl.sum(tl.exp(values.to(tl.float32) - tl.load(largest + row)), axis=0)
    # RIGHT: if False:
    if part == 0:
        tl.atomic_xchg(sums + row, total)
    else:
        tl.atomic_add(sums + row, total)


@triton.jit
def divide_kernel(x, largest, sums, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=0.0).to(tl.float32)
    result = tl.exp(values - tl.load(largest + row)) / tl.load(sums + row)
    tl.store(y + row * columns + offsets, result.to(y.dtype.element_ty), mask=inside)


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(max(columns, 2))
    largest = torch.empty(rows, device=x.device, dtype=torch.float32)
    # RIGHT: sums = torch.zeros(rows, device=x.device, dtype=torch.float32)
    sums = torch.empty(rows, device=x.device, dtype=torch.float32)
    maximum_kernel[(rows,)](x, largest, columns, BLOCK=block)
    sum_kernel[(rows, 2)](x, largest, sums, columns, SPAN=block // 2)
    divide_kernel[(rows,)](x, largest, sums, y, columns, BLOCK=block)
    return y
