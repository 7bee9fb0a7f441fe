"""The result is a view with strides into a larger buffer of its own (beside row 45).

Shape and dtype are what was asked for.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, stride, y_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * y_stride + at, weights / tl.sum(weights, axis=0), mask=at < columns)


def kernel_fn(x):
    x = x.contiguous()
    rows, columns = x.shape
    padded = torch.empty((rows, triton.cdiv(columns, 64) * 64 + 64), dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(max(columns, 1))
    softmax_kernel[(rows,)](x, padded, x.stride(0), padded.stride(0), columns, BLOCK=block)
    return padded[:, :columns]
