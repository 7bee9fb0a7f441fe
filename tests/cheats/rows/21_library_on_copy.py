"""Row 21: a kernel copies the input, PyTorch computes from the copy.

Seen: as 21_library, where it is looked whether the kernel matters.
Caught: calls of PyTorch that are the judged operation are recorded.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def kernel_fn(x):
    x = x.contiguous()
    copy = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, copy, x.numel(), BLOCK=1024)
    return torch.softmax(copy, -1)
