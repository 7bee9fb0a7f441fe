"""Row 9: the callers' variables are searched for the answer.

Seen: pygpubench, kernelbot's example cheats.
Caught: no frame of this process ever holds it.
"""

import sys

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def kernel_fn(x):
    idle_kernel[(1,)](x)
    frame = sys._getframe(1)
    while frame is not None:
        for name, value in {**frame.f_globals, **frame.f_locals}.items():
            if name in ("expected", "reference", "ref_out", "truth") and isinstance(value, torch.Tensor):
                return value.clone()
        frame = frame.f_back
    return torch.zeros_like(x)
