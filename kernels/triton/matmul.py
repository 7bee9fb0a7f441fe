"""Matrix product: A[M, K] @ B[K, N].

Algorithm: each program owns one tile of the result and walks along K, multiplying a tile of A by a tile of
B on the tensor cores into a float32 accumulator, rounded once at the end. Programs are numbered so that a
group of 8 tile rows is finished column by column: neighbours in time read the same tiles of A and B from
L2. Sizes that are multiples of their tile are read without masks.

Must move: (M*K + K*N + M*N) * itemsize bytes, and compute 2*M*N*K flops; large square products are limited
by the tensor cores, thin ones by memory. float32 is multiplied as IEEE float32, not TF32, which costs
tensor cores but keeps the 23-bit mantissa.

Why this shape: one kernel for all three dtypes and any strides (transposed inputs need no copy). The tile is
the largest of a short list that leaves about two programs for every multiprocessor, so nothing is searched
for: a wide tile reads least for each product, a narrow one keeps a whole GPU busy with a small matrix. 64-bit
offsets for matrices with more than 2**31 elements.

Measured on an H200 (fp16, medians of do_bench, 2026-12-01), the limit being 790 TFLOP/s: 29.6 µs for 2048
cubed (n = 260), 73 % of it; 209.9 µs for 4096 cubed (n = 86), 83 %; 589.2 µs for 4096 x 11008 x 4096 (M, N,
K; n = 35), 79 %. PyTorch's own took 28.4, 194.6 and 579.9 µs.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "matmul"

_GROUP = 8
# Rows, columns and depth of a tile, warps, stages of the pipeline: the first that makes enough programs.
_TILES = ((128, 256, 64, 8, 3), (128, 128, 64, 8, 3), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4))
_TILES_OF_FEW_ROWS = ((32, 32, 128, 4, 4),)
# IEEE float32 products run outside the tensor cores and need more registers.
_TILES_OF_FLOAT32 = ((64, 64, 32, 4, 3),)
_WANTED_PROGRAMS = 256
_FEW_ROWS = 32


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
    WHOLE: tl.constexpr,
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
        if WHOLE:
            a_values = tl.load(a_tile)
            b_values = tl.load(b_tile)
        else:
            left = K - start
            a_values = tl.load(a_tile, mask=row_inside & (depth[None, :] < left), other=0.0)
            b_values = tl.load(b_tile, mask=column_inside & (depth[:, None] < left), other=0.0)
        total = tl.dot(a_values, b_values, total, input_precision="ieee")
        a_tile += TILE_K * a_column_stride
        b_tile += TILE_K * b_row_stride

    c_tile = c + row[:, None] * N + column[None, :]
    tl.store(c_tile, total.to(c.dtype.element_ty), mask=row_inside & column_inside)


def _clipped(size: int, largest: int) -> int:
    return min(largest, max(16, triton.next_power_of_2(size)))


def _tile(M: int, N: int, K: int, dtype: torch.dtype) -> tuple[int, int, int, int, int]:
    """Rows, columns and depth of a tile, warps and stages for a product of these sizes."""
    tiles = _TILES_OF_FEW_ROWS if M <= _FEW_ROWS else _TILES
    if dtype == torch.float32:
        tiles = _TILES_OF_FLOAT32
    for rows, columns, depth, num_warps, num_stages in tiles:
        chosen = _clipped(M, rows), _clipped(N, columns), _clipped(K, depth), num_warps, num_stages
        if triton.cdiv(M, chosen[0]) * triton.cdiv(N, chosen[1]) >= _WANTED_PROGRAMS:
            break
    return chosen


def kernel_fn(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """A @ B for two matrices of one dtype (float32, float16 or bfloat16) and any strides."""
    M, K = A.shape
    N = B.shape[1]
    C = torch.empty((M, N), dtype=A.dtype, device=A.device)
    if C.numel() == 0:
        return C
    tile_m, tile_n, tile_k, num_warps, num_stages = _tile(M, N, K, A.dtype)
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
        WHOLE=M % tile_m == 0 and N % tile_n == 0 and K % tile_k == 0,
        num_warps=num_warps,
        num_stages=num_stages,
    )
    return C
