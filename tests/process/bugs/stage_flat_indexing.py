"""D09: rows are found as if every tensor were contiguous."""

# STAGE: edge mismatch
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
    # RIGHT: x = x.contiguous()
    x = x.detach()
    softmax_kernel[(rows,)](x, y, columns, columns, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y
