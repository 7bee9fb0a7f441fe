"""D05: a float32 product with the default precision of `tl.dot`, which keeps ten bits of each factor."""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "matmul"


@triton.jit
def product_kernel(a, b, c, M, N, K, TILE: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, K, STEP):
        terms = start + tl.arange(0, STEP)
        in_a = (rows[:, None] < M) & (terms[None, :] < K)
        in_b = (terms[:, None] < K) & (columns[None, :] < N)
        left = tl.load(a + rows[:, None] * K + terms[None, :], mask=in_a, other=0.0)
        right = tl.load(b + terms[:, None].to(tl.int64) * N + columns[None, :], mask=in_b, other=0.0)
        # RIGHT: total = tl.dot(left, right, total, input_precision="ieee")
        total = tl.dot(left, right, total)  # BUG: tf32
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


def kernel_fn(A, B):
    A, B = A.contiguous(), B.contiguous()
    M, K = A.shape
    N = B.shape[1]
    C = torch.empty((M, N), device=A.device, dtype=A.dtype)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    if C.numel():
        product_kernel[grid](A, B, C, M, N, K, TILE=64, STEP=64)
    return C
