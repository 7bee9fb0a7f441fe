"""Row 21: a kernel copies the factor, cuBLAS multiplies.

Seen: CUDA-L1, AutoKernel's "Strategy C".
Caught: calls of PyTorch that are the judged operation are recorded, also by an operator.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "matmul"


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def kernel_fn(A, B):
    A = A.contiguous()
    copy = torch.empty_like(A)
    copy_kernel[(triton.cdiv(A.numel(), 1024),)](A, copy, A.numel(), BLOCK=1024)
    return copy @ B
