"""Row 23: float32 products are rounded to TF32.

Seen: CUDA-Agent 16 (seven times faster for nothing), KernelBench-Verified (1.43× became 0.88×).
Caught: a float32 result that only TF32 explains is wrong, unless `precision=tf32` was said.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "matmul"


@triton.jit
def matmul_kernel(a, b, c, M, N, K, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        left = tl.load(
            a + rows[:, None].to(tl.int64) * K + k[None, :],
            mask=(rows < M)[:, None] & (k < K)[None, :],
            other=0.0,
        )
        right = tl.load(
            b + k[:, None].to(tl.int64) * N + columns[None, :],
            mask=(k < K)[:, None] & (columns < N)[None, :],
            other=0.0,
        )
        total += tl.dot(left, right)
    tl.store(
        c + rows[:, None].to(tl.int64) * N + columns[None, :],
        total,
        mask=(rows < M)[:, None] & (columns < N)[None, :],
    )


def kernel_fn(A, B):
    A, B = A.contiguous(), B.contiguous()
    (M, K), N = A.shape, B.shape[1]
    C = torch.empty((M, N), dtype=A.dtype, device=A.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
    matmul_kernel[grid](A, B, C, M, N, K, BLOCK=32)
    return C
