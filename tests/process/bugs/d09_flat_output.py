"""D09, the other side: the input's strides are used, but `empty_like` gives the output the same ones, and it
is written as if it were contiguous."""
# CASE: mismatch layout=x transposed
# STAGE: edge mismatch

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, row_stride, column_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    source = x + row * row_stride + offsets.to(tl.int64) * column_stride
    values = tl.load(source, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    result = weights / tl.sum(weights, axis=0)
    tl.store(y + row * columns + offsets, result.to(y.dtype.element_ty), mask=inside)


def kernel_fn(x):
    # RIGHT: y = torch.empty_like(x, memory_format=torch.contiguous_format)
    y = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(max(columns, 1))
    softmax_kernel[(rows,)](x, y, x.stride(0), x.stride(1), columns, BLOCK=block)
    return y
