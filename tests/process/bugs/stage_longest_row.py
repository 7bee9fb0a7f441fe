"""Blocks end at 4096 elements; what a longer row has behind them is left alone."""

# STAGE: sweep unwritten
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
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    # RIGHT: block = triton.next_power_of_2(max(columns, 1))
    block = min(triton.next_power_of_2(max(columns, 1)), 4096)
    softmax_kernel[(rows,)](x, y, x.stride(0), columns, BLOCK=block)
    return y
