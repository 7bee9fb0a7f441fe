"""Gated perceptron: (activation(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T.

Algorithm: two launches. The first one multiplies a tile of x by rows of w_gate and w_up in turns, so that
gate and up are neighbouring columns of one float32 accumulator, which a thread holds both; the activation and
the product are taken in registers and rounded once to the dtype of x. The second one is a matrix product of
that with w_down. Programs are numbered so that a group of 8 tile rows is finished column by column:
neighbours in time read the same weights from L2.

Must move: (2 * rows * dim + 3 * dim * hidden) * itemsize bytes and the hidden layer, rows * hidden *
itemsize, once in each direction; must compute 6 * rows * dim * hidden flops. Many rows are limited by the
tensor cores, few (decoding) by reading the weights. float32 is multiplied as IEEE float32, not TF32.

Why this shape: gate and up, three times the size of the hidden layer if stored apart, never leave the chip.
Fusing the last product too would recompute the hidden layer for each tile of the output. The tile is the
largest of a short list that leaves about two programs for every multiprocessor. 64-bit offsets.

Measured on an H200 (fp16, medians of do_bench, 2026-12-01): 245.9 µs for 2048 rows, dim 2048, hidden 5504
(n = 186), 74 % of the 762 TFLOP/s of a large product there; 1005.8 µs for dim 4096, hidden 11008 (n = 56),
72 %; 90.5 µs for 16 rows of that (n = 379), 76 % of a copy of the bytes. PyTorch's own took 232.8, 920.0 and
96.4 µs.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "fused_mlp"

_GROUP = 8
# Rows, columns and depth of a tile, warps, stages of the pipeline: the first that makes enough programs. Two
# programs fit on a multiprocessor: one computes while another begins or ends. Twice the width is slower.
_TILES = ((128, 128, 64, 4, 3), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4))
_TILES_OF_FEW_ROWS = ((32, 32, 128, 4, 4),)
_HIDDEN_TILES_OF_FEW_ROWS = ((32, 64, 128, 4, 4),)
# IEEE float32 products run outside the tensor cores and need more registers.
_TILES_OF_FLOAT32 = ((64, 64, 32, 4, 3),)
_WANTED_PROGRAMS = 256
_FEW_ROWS = 32
_ACTIVATIONS = ("silu", "gelu", "relu2")


@triton.jit
def _tile_of_program(rows, columns, TILE_M: tl.constexpr, TILE_N: tl.constexpr, GROUP: tl.constexpr):
    """Row and column of this program's tile."""
    tiles_m = tl.cdiv(rows, TILE_M)
    tiles_n = tl.cdiv(columns, TILE_N)
    program = tl.program_id(0)
    group = program // (GROUP * tiles_n)
    first = group * GROUP
    rows_in_group = tl.minimum(tiles_m - first, GROUP)
    within = program % (GROUP * tiles_n)
    return first + within % rows_in_group, within // rows_in_group


@triton.jit
def _activated(gate, ACTIVATION: tl.constexpr):
    if ACTIVATION == "silu":
        result = gate / (1.0 + tl.exp(-gate))
    elif ACTIVATION == "gelu":
        result = 0.5 * gate * (1.0 + tl.erf(gate * 0.7071067811865476))
    else:
        positive = tl.maximum(gate, 0.0, propagate_nan=tl.PropagateNan.ALL)
        result = positive * positive
    return result


@triton.jit
def _hidden_tile(
    x,
    w_gate,
    w_up,
    h,
    rows,
    hidden,
    dim,
    x_row_stride,
    x_column_stride,
    weight_row_stride,
    weight_column_stride,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    tile_m, tile_n = _tile_of_program(rows, 2 * hidden, TILE_M, TILE_N, GROUP)
    row = tile_m.to(tl.int64) * TILE_M + tl.arange(0, TILE_M)
    # Even columns of the product are gates, odd ones what they let through.
    paired = tile_n.to(tl.int64) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K).to(tl.int64)
    x_tile = x + row[:, None] * x_row_stride + depth[None, :] * x_column_stride
    weight = (paired // 2)[None, :] * weight_row_stride + depth[:, None] * weight_column_stride
    weight_tile = tl.where((paired % 2 == 0)[None, :], w_gate + weight, w_up + weight)
    row_inside = row[:, None] < rows
    paired_inside = paired[None, :] < 2 * hidden

    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, dim, TILE_K):
        if WHOLE:
            x_values = tl.load(x_tile)
            weights = tl.load(weight_tile)
        else:
            left = dim - start
            x_values = tl.load(x_tile, mask=row_inside & (depth[None, :] < left), other=0.0)
            weights = tl.load(weight_tile, mask=paired_inside & (depth[:, None] < left), other=0.0)
        total = tl.dot(x_values, weights, total, input_precision="ieee")
        x_tile += TILE_K * x_column_stride
        weight_tile += TILE_K * weight_column_stride

    gate, up = tl.split(tl.reshape(total, (TILE_M, TILE_N // 2, 2)))
    result = _activated(gate, ACTIVATION) * up
    column = tile_n.to(tl.int64) * (TILE_N // 2) + tl.arange(0, TILE_N // 2)
    where = h + row[:, None] * hidden + column[None, :]
    tl.store(where, result.to(h.dtype.element_ty), mask=row_inside & (column[None, :] < hidden))


@triton.jit
def _down_tile(
    h,
    w_down,
    y,
    rows,
    dim,
    hidden,
    down_row_stride,
    down_column_stride,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP: tl.constexpr,
    WHOLE: tl.constexpr,
):
    tile_m, tile_n = _tile_of_program(rows, dim, TILE_M, TILE_N, GROUP)
    row = tile_m.to(tl.int64) * TILE_M + tl.arange(0, TILE_M)
    column = tile_n.to(tl.int64) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K).to(tl.int64)
    h_tile = h + row[:, None] * hidden + depth[None, :]
    down_tile = w_down + column[None, :] * down_row_stride + depth[:, None] * down_column_stride
    row_inside = row[:, None] < rows
    column_inside = column[None, :] < dim

    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, hidden, TILE_K):
        if WHOLE:
            h_values = tl.load(h_tile)
            down_values = tl.load(down_tile)
        else:
            left = hidden - start
            h_values = tl.load(h_tile, mask=row_inside & (depth[None, :] < left), other=0.0)
            down_values = tl.load(down_tile, mask=column_inside & (depth[:, None] < left), other=0.0)
        total = tl.dot(h_values, down_values, total, input_precision="ieee")
        h_tile += TILE_K
        down_tile += TILE_K * down_column_stride

    where = y + row[:, None] * dim + column[None, :]
    tl.store(where, total.to(y.dtype.element_ty), mask=row_inside & column_inside)


def _clipped(size: int, largest: int) -> int:
    return min(largest, max(16, triton.next_power_of_2(size)))


def _launch_shape(rows: int, columns: int, depth: int, tiles: Sequence[tuple[int, ...]]) -> tuple[int, dict]:
    """Number of programs, and tile, warps and stages, for a product of these sizes."""
    for tile_m, tile_n, tile_k, num_warps, num_stages in tiles:
        tile = _clipped(rows, tile_m), _clipped(columns, tile_n), _clipped(depth, tile_k)
        shape = {"TILE_M": tile[0], "TILE_N": tile[1], "TILE_K": tile[2]}
        shape |= {"num_warps": num_warps, "num_stages": num_stages}
        programs = triton.cdiv(rows, tile[0]) * triton.cdiv(columns, tile[1])
        if programs >= _WANTED_PROGRAMS:
            break
    whole = all(length % part == 0 for length, part in zip((rows, columns, depth), tile, strict=True))
    return programs, shape | {"WHOLE": whole}


def kernel_fn(
    x: torch.Tensor,
    w_gate: torch.Tensor,
    w_up: torch.Tensor,
    w_down: torch.Tensor,
    activation: str = "silu",
) -> torch.Tensor:
    """x (rank 1 or more) through w_gate, w_up[hidden, dim] and w_down[dim, hidden]; activation "silu", "gelu"
    (exact) or "relu2"; any strides, one dtype (float32, float16 or bfloat16)."""
    if activation not in _ACTIVATIONS:
        raise ValueError(f"activation is {activation!r}; it must be one of {_ACTIVATIONS}")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    matrix = x.reshape(-1, x.shape[-1])
    rows, dim = matrix.shape
    hidden = w_gate.shape[0]
    if w_gate.stride() != w_up.stride():
        w_gate, w_up = w_gate.contiguous(), w_up.contiguous()
    hidden_tiles = tiles = _TILES
    if x.dtype == torch.float32:
        hidden_tiles = tiles = _TILES_OF_FLOAT32
    elif rows <= _FEW_ROWS:
        hidden_tiles, tiles = _HIDDEN_TILES_OF_FEW_ROWS, _TILES_OF_FEW_ROWS
    h = torch.empty((rows, hidden), dtype=x.dtype, device=x.device)
    if hidden:
        programs, shape = _launch_shape(rows, 2 * hidden, dim, hidden_tiles)
        _hidden_tile[(programs,)](
            matrix,
            w_gate,
            w_up,
            h,
            rows,
            hidden,
            dim,
            *matrix.stride(),
            *w_gate.stride(),
            GROUP=_GROUP,
            ACTIVATION=activation,
            **shape,
        )
    programs, shape = _launch_shape(rows, dim, hidden, tiles)
    _down_tile[(programs,)](
        h,
        w_down,
        y,
        rows,
        dim,
        hidden,
        *w_down.stride(),
        GROUP=_GROUP,
        **shape,
    )
    return y
