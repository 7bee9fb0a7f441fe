"""Row 46: the weight of the norm is left out, because in tests it is one.

Seen: AutoKernel (weight 1, bias 0; RoPE with cosine 1).
Caught: weights are drawn like any other input.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "rmsnorm"


@triton.jit
def norm_kernel(x, y, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, axis=0) / columns + eps)
    tl.store(y + row * columns + at, values * scale, mask=at < columns)


def kernel_fn(x, weight, eps=1e-6):
    x = x.contiguous()
    y = torch.empty_like(x)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    norm_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], eps, BLOCK=block)
    return y
