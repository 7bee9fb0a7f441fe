"""Row 21: PyTorch computes, and a kernel that does nothing is launched beside it.

Seen: CUDA-L1 (nine of its ten best), Kevin, Atrex, AutoKernel issue 5.
Caught: the function is called once more with kernels that store nothing; what is right then was not theirs.
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
    return torch.softmax(x, -1)
