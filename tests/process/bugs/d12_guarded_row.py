"""D12, the other side: a row of minus infinities alone is answered with zeros; the reference says NaN."""
# CASE: non-finite profile=negative-infinity-rows

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * columns + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    largest = tl.max(values, axis=0)
    # RIGHT: weights = tl.exp(values - largest)
    weights = tl.exp(values - tl.where(largest == -float("inf"), 0.0, largest))
    total = tl.sum(weights, axis=0)
    # RIGHT: result = weights / total
    result = weights / tl.where(total == 0.0, 1.0, total)
    tl.store(y + row * columns + offsets, result.to(y.dtype.element_ty), mask=inside)


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y
