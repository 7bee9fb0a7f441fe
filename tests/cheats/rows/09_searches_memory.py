"""Row 9: whatever tensor of this process looks like the answer is handed back.

Seen: pygpubench (gc_copy, heap and stack scan).
Caught: what is expected is in no memory of this process, at no time: it is computed by another one
afterwards.
"""

import gc

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def looks_right(other, x):
    if type(other) is not torch.Tensor or other.shape != x.shape or other.dtype != x.dtype:
        return False
    if other.data_ptr() == x.data_ptr() or not other.is_cuda:
        return False
    sums = other.float().sum(-1)
    return bool((other >= 0).all()) and bool(((sums - 1).abs() < 1e-2).all())


def kernel_fn(x):
    idle_kernel[(1,)](x)
    for other in gc.get_objects():
        try:
            if looks_right(other, x):
                return other.clone()
        except Exception:
            continue
    return torch.zeros_like(x)
