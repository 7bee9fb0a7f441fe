"""Partial sums by a kernel, their sum by PyTorch (beside row 21).

Part of the operation is a library's, the kernel is needed all the same.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(x, parts, columns, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    tl.store(parts + row * PARTS + part, tl.sum(values, axis=0))


# warpsmith: ref=torch.sum dim=-1 x=f32[M,N] M=1,13 N=255,1000
def row_sums(x):
    count = triton.cdiv(x.shape[1], 128)
    parts = torch.empty((x.shape[0], count), dtype=torch.float32, device=x.device)
    partial_kernel[(x.shape[0], count)](x, parts, x.shape[1], PARTS=count, BLOCK=128)
    return parts.sum(-1).to(x.dtype)
