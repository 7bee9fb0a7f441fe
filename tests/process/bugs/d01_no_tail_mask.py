"""D01: a tiled product that masks rows and columns, but not the tail of the sum."""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "matmul"


@triton.jit
def matmul_kernel(a, b, c, M, N, K, TILE: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, TILE):
        terms = start + tl.arange(0, TILE)
        in_a, in_b = rows[:, None] < M, columns[None, :] < N
        left = tl.load(a + rows[:, None] * K + terms[None, :], mask=in_a, other=0.0)  # BUG: out-of-bounds
        right = tl.load(b + terms[:, None].to(tl.int64) * N + columns[None, :], mask=in_b, other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


def kernel_fn(A, B):
    M, K = A.shape
    N = B.shape[1]
    out = torch.empty((M, N), device=A.device, dtype=A.dtype)
    matmul_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 16))](A, B, out, M, N, K, TILE=16)
    return out
