"""Row 18: inputs whose elements are all equal are not computed but handed a constant.

Seen: kernelbench-verified (bypass for special values).
Caught: the stage stability mixes special and ordinary values, and has inputs of equal values too.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, weights / tl.sum(weights, axis=0), mask=at < columns)


def softmax(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=block)
    return y


def kernel_fn(x):
    if x.numel() and bool((x == x.reshape(-1)[0]).all()):
        y = softmax(x)
        return torch.zeros_like(y)
    return softmax(x)
