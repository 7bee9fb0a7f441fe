"""Row 16: a constant for an output that hardly varies: the mean cross-entropy is nearly ln V + 1/2.

Seen: robust-kbench filters such tasks; AutoKernel accepts 1e-2.
Caught: the tolerance is what rounding explains.
"""

import math

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "cross_entropy"


@triton.jit
def constant_kernel(y, value):
    tl.store(y, value)


def kernel_fn(logits, targets):
    y = torch.empty((), dtype=logits.dtype, device=logits.device)
    constant_kernel[(1,)](y, math.log(max(logits.shape[-1], 1)) + 0.5)
    return y
