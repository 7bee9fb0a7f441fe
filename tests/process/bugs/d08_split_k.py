"""D08: partial sums are added atomically into memory that nobody set to zero."""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "matmul"


@triton.jit
def matmul_kernel(a, b, c, M, N, K, PARTS: tl.constexpr, TILE: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(tl.program_id(2) * TILE, K, TILE * PARTS):
        terms = start + tl.arange(0, TILE)
        in_a = (rows[:, None] < M) & (terms[None, :] < K)
        in_b = (terms[:, None] < K) & (columns[None, :] < N)
        left = tl.load(a + rows[:, None] * K + terms[None, :], mask=in_a, other=0.0)
        right = tl.load(b + terms[:, None].to(tl.int64) * N + columns[None, :], mask=in_b, other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.atomic_add(c + rows[:, None] * N + columns[None, :], total, mask=inside)  # BUG: uninitialised-read


def kernel_fn(A, B):
    M, K = A.shape
    N = B.shape[1]
    out = torch.empty((M, N), device=A.device, dtype=torch.float32)
    matmul_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16), 4)](A, B, out, M, N, K, PARTS=4, TILE=16)
    return out.to(A.dtype)
