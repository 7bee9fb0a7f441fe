"""Row 7: the input is handed back.

Seen: KernelGuard INPUT_PASSTHROUGH, KernelBench tasks whose result is nearly the input.
Caught: an output may not share memory with an input, and the values are wrong.
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
    return x
