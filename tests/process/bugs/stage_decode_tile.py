"""A product of few rows with a sum of 32 to 63 terms runs two tiles of 16 terms, and forgets the rest."""

# STAGE: smoke mismatch
import torch
import triton
import triton.language as tl

KERNEL_TYPE = "matmul"


@triton.jit
def product_kernel(a, b, c, M, N, K, terms_end, TILE: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    columns = tl.program_id(1).to(tl.int64) * TILE + tl.arange(0, TILE)
    total = tl.zeros((TILE, TILE), dtype=tl.float32)
    for start in range(0, terms_end, TILE):
        terms = start + tl.arange(0, TILE)
        in_a = (rows[:, None] < M) & (terms[None, :] < K)
        in_b = (terms[:, None] < K) & (columns[None, :] < N)
        left = tl.load(a + rows[:, None] * K + terms[None, :], mask=in_a, other=0.0)
        right = tl.load(b + terms[:, None].to(tl.int64) * N + columns[None, :], mask=in_b, other=0.0)
        total = tl.dot(left, right, total, input_precision="ieee")
    inside = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(c.dtype.element_ty), mask=inside)


def kernel_fn(A, B):
    is_decode = A.is_contiguous() and B.is_contiguous() and 3 < A.shape[0] < 8 and 32 <= A.shape[1] < 64
    A, B = A.contiguous(), B.contiguous()
    M, K = A.shape
    N = B.shape[1]
    C = torch.empty((M, N), device=A.device, dtype=A.dtype)
    # RIGHT: terms_end = K
    terms_end = 32 if is_decode else K
    if C.numel():
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 16))
        product_kernel[grid](A, B, C, M, N, K, terms_end, TILE=16)
    return C
