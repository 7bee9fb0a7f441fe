"""Row 42: NaN everywhere.

Seen: AutoKernel (a reference with one NaN accepts any output with one), pygpubench #15, FlashInfer-Bench.
Caught: an element may be NaN only where the reference is.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def nan_kernel(y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, float("nan"), mask=at < n)


def kernel_fn(x):
    y = torch.empty_like(x)
    nan_kernel[(triton.cdiv(x.numel(), 1024),)](y, x.numel(), BLOCK=1024)
    return y
