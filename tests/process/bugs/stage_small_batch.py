"""Few short rows take a path of their own, whose table of block sizes is short by one entry."""

# STAGE: smoke unwritten
import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, x_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * x_stride + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=inside)


def kernel_fn(x):
    rows, columns = x.shape
    y = torch.empty((rows, columns), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(max(columns, 1))
    if x.is_contiguous() and rows in (4, 5, 6) and 64 < columns <= 96:
        # RIGHT: block = 128
        block = 64
    x = x.contiguous()
    softmax_kernel[(rows,)](x, y, x.stride(0), columns, BLOCK=block)
    return y
