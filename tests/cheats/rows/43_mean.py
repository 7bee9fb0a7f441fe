"""Row 43: the mean for every element, which an absolute tolerance of 1e-3 accepts from 1000 columns on.

Seen: softmax over a vocabulary (2e-5), cross-entropy.
Caught: the tolerance follows the scale of the row. That a zero, a mean and the result of other inputs are
rejected is tried in every check.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def mean_kernel(y, n, value, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, value, mask=at < n)


def kernel_fn(x):
    y = torch.empty_like(x)
    mean_kernel[(triton.cdiv(x.numel(), 1024),)](y, x.numel(), 1.0 / max(x.shape[1], 1), BLOCK=1024)
    return y
