"""Row 8: fresh memory is handed out in the hope that it holds what the reference freed.

Seen: Sakana's memory exploit; an adversarial test of KernelBench.
Caught: the reference is computed after the call, in another process, and fresh memory holds poison.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def kernel_fn(x):
    idle_kernel[(1,)](x)
    return torch.empty_like(x)
