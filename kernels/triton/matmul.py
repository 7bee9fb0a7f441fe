"""Matrix product: A[M, K] @ B[K, N].

Algorithm: each program owns one tile of the result and walks along K, multiplying a tile of A by a tile of
B on the tensor cores into a float32 accumulator, rounded once at the end. Programs are numbered so that a
group of 8 tile rows is finished column by column: neighbours in time read the same tiles of A and B from
L2.

Must move: (M*K + K*N + M*N) * itemsize bytes, and compute 2*M*N*K flops; large square products are limited
by the tensor cores, thin ones by memory. float32 is multiplied as IEEE float32, not TF32, which costs
tensor cores but keeps the 23-bit mantissa.

Why this shape: one kernel for all three dtypes and any strides (transposed inputs need no copy), tiles
chosen by the sizes at hand instead of a search, 64-bit offsets for matrices with more than 2**31 elements.

Measured share of the limit: not measured yet on a GPU.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "matmul"

_GROUP = 8


@triton.jit
def _matmul_tile(
    a,
    b,
    c,
    M,
    N,
    K,
    a_row_stride,
    a_column_stride,
    b_row_stride,
    b_column_stride,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tiles_m = tl.cdiv(M, TILE_M)
    tiles_n = tl.cdiv(N, TILE_N)
    program = tl.program_id(0)
    group = program // (GROUP * tiles_n)
    first = group * GROUP
    rows_in_group = tl.minimum(tiles_m - first, GROUP)
    within = program % (GROUP * tiles_n)
    tile_m = first + within % rows_in_group
    tile_n = within // rows_in_group

    row = tile_m.to(tl.int64) * TILE_M + tl.arange(0, TILE_M)
    column = tile_n.to(tl.int64) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K).to(tl.int64)
    a_tile = a + row[:, None] * a_row_stride + depth[None, :] * a_column_stride
    b_tile = b + depth[:, None] * b_row_stride + column[None, :] * b_column_stride
    row_inside = row[:, None] < M
    column_inside = column[None, :] < N

    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, K, TILE_K):
        left = K - start
        a_values = tl.load(a_tile, mask=row_inside & (depth[None, :] < left), other=0.0)
        b_values = tl.load(b_tile, mask=column_inside & (depth[:, None] < left), other=0.0)
        total = tl.dot(a_values, b_values, total, input_precision="ieee")
        a_tile += TILE_K * a_column_stride
        b_tile += TILE_K * b_row_stride

    c_tile = c + row[:, None] * N + column[None, :]
    tl.store(c_tile, total.to(c.dtype.element_ty), mask=row_inside & column_inside)


def _tile(size: int, largest: int) -> int:
    return min(largest, max(16, triton.next_power_of_2(size)))


def kernel_fn(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """A @ B for two matrices of one dtype (float32, float16 or bfloat16) and any strides."""
    M, K = A.shape
    N = B.shape[1]
    C = torch.empty((M, N), dtype=A.dtype, device=A.device)
    if C.numel() == 0:
        return C
    wide = A.dtype == torch.float32
    tile_m = _tile(M, 64 if wide else 128)
    tile_n = _tile(N, 64 if wide else 128)
    tile_k = _tile(K, 32 if wide else 64)
    _matmul_tile[(triton.cdiv(M, tile_m) * triton.cdiv(N, tile_n),)](
        A,
        B,
        C,
        M,
        N,
        K,
        A.stride(0),
        A.stride(1),
        B.stride(0),
        B.stride(1),
        TILE_M=tile_m,
        TILE_N=tile_n,
        TILE_K=tile_k,
        GROUP=_GROUP,
        num_warps=8 if tile_m * tile_n >= 16_384 else 4,
        num_stages=3,
    )
    return C
