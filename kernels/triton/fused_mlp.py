"""Gated perceptron: (activation(x @ w_gate.T) * (x @ w_up.T)) @ w_down.T.

Algorithm: two launches. The first one owns tiles of the hidden layer and walks along the model's width with
two float32 accumulators, gate and up, fed by the same tile of x; the activation and the product are taken
in registers and rounded once to the dtype of x. The second one is a matrix product of that with w_down.
Programs are numbered so that a group of 8 tile rows is finished column by column: neighbours in time read
the same weights from L2.

Must move: (2 * rows * dim + 3 * dim * hidden) * itemsize bytes and the hidden layer, rows * hidden *
itemsize, once in each direction; must compute 6 * rows * dim * hidden flops. Many rows are limited by the
tensor cores, few (decoding) by reading the weights. float32 is multiplied as IEEE float32, not TF32.

Why this shape: gate and up, three times the size of the hidden layer if stored apart, never leave the chip.
Fusing the last product too would recompute the hidden layer for each tile of the output. 64-bit offsets.

Measured share of the limit: not measured yet on a GPU.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "fused_mlp"

_GROUP = 8
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
    gate_row_stride,
    gate_column_stride,
    up_row_stride,
    up_column_stride,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    tile_m, tile_n = _tile_of_program(rows, hidden, TILE_M, TILE_N, GROUP)
    row = tile_m.to(tl.int64) * TILE_M + tl.arange(0, TILE_M)
    column = tile_n.to(tl.int64) * TILE_N + tl.arange(0, TILE_N)
    depth = tl.arange(0, TILE_K).to(tl.int64)
    x_tile = x + row[:, None] * x_row_stride + depth[None, :] * x_column_stride
    gate_tile = w_gate + column[None, :] * gate_row_stride + depth[:, None] * gate_column_stride
    up_tile = w_up + column[None, :] * up_row_stride + depth[:, None] * up_column_stride
    row_inside = row[:, None] < rows
    column_inside = column[None, :] < hidden

    gate = tl.zeros((TILE_M, TILE_N), tl.float32)
    up = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, dim, TILE_K):
        left = dim - start
        x_values = tl.load(x_tile, mask=row_inside & (depth[None, :] < left), other=0.0)
        weights_inside = column_inside & (depth[:, None] < left)
        gate_values = tl.load(gate_tile, mask=weights_inside, other=0.0)
        gate = tl.dot(x_values, gate_values, gate, input_precision="ieee")
        up_values = tl.load(up_tile, mask=weights_inside, other=0.0)
        up = tl.dot(x_values, up_values, up, input_precision="ieee")
        x_tile += TILE_K * x_column_stride
        gate_tile += TILE_K * gate_column_stride
        up_tile += TILE_K * up_column_stride

    result = _activated(gate, ACTIVATION) * up
    where = h + row[:, None] * hidden + column[None, :]
    tl.store(where, result.to(h.dtype.element_ty), mask=row_inside & column_inside)


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
        left = hidden - start
        h_values = tl.load(h_tile, mask=row_inside & (depth[None, :] < left), other=0.0)
        down_values = tl.load(down_tile, mask=column_inside & (depth[:, None] < left), other=0.0)
        total = tl.dot(h_values, down_values, total, input_precision="ieee")
        h_tile += TILE_K
        down_tile += TILE_K * down_column_stride

    where = y + row[:, None] * dim + column[None, :]
    tl.store(where, total.to(y.dtype.element_ty), mask=row_inside & column_inside)


def _tile(size: int, largest: int) -> int:
    return min(largest, max(16, triton.next_power_of_2(size)))


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
    wide = x.dtype == torch.float32
    tile_m = _tile(rows, 64 if wide else 128)
    tile_k = 32 if wide else 64
    h = torch.empty((rows, hidden), dtype=x.dtype, device=x.device)
    if hidden:
        # Two accumulators fill the registers that one of twice the width would.
        tile_n = _tile(hidden, 32 if wide else 64)
        _hidden_tile[(triton.cdiv(rows, tile_m) * triton.cdiv(hidden, tile_n),)](
            matrix,
            w_gate,
            w_up,
            h,
            rows,
            hidden,
            dim,
            *matrix.stride(),
            *w_gate.stride(),
            *w_up.stride(),
            TILE_M=tile_m,
            TILE_N=tile_n,
            TILE_K=_tile(dim, tile_k),
            GROUP=_GROUP,
            ACTIVATION=activation,
            num_warps=8 if tile_m * tile_n >= 8_192 else 4,
            num_stages=3,
        )
    tile_n = _tile(dim, 64 if wide else 128)
    _down_tile[(triton.cdiv(rows, tile_m) * triton.cdiv(dim, tile_n),)](
        h,
        w_down,
        y,
        rows,
        dim,
        hidden,
        *w_down.stride(),
        TILE_M=tile_m,
        TILE_N=tile_n,
        TILE_K=_tile(hidden, tile_k),
        GROUP=_GROUP,
        num_warps=8 if tile_m * tile_n >= 16_384 else 4,
        num_stages=3,
    )
    return y
