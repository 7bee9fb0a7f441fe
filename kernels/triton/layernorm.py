"""Layer norm over the last dimension: (x - mean) / sqrt(variance + eps) * weight + bias.

Algorithm: rows of up to 16,384 columns are held in registers: one load, the mean, the variance of what is
left after subtracting it, one store. Short rows share a program. Longer rows are read twice in chunks: the
first pass merges mean and sum of squared deviations of each chunk into those of the row (Chan, Golub and
LeVeque), the second one normalises. No square of a mean is ever subtracted from a mean of squares, so a
large offset costs no digits. All arithmetic is float32 whatever the dtype; the result is rounded once.

Must move: 2 * rows * columns * itemsize bytes and weight and bias once (they stay in L2); the long path
reads x once more. About 8 flops an element, so memory bandwidth is the only limit that matters.

Why this shape: a single pass over memory for the row lengths of real models, no second launch, no shared
memory of our own. Row offsets are 64-bit, so tensors with more than 2**31 elements work.

Measured on an H200 (fp16, medians of do_bench, 2026-12-01), the limit being the bytes at 4.3 TB/s: 13.7 µs
for 4096 x 2048 (n = 294), 57 % of it; 22.1 µs for 4096 x 4096 (n = 289), 71 %; 38.5 µs for 8192 x 4096 (n =
233), 81 %.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "layernorm"

_LONGEST_IN_REGISTERS = 16_384
# Rows of up to 4,096 columns are taken by twos or more: weight and bias are loaded once for all of them.
_ELEMENTS_A_PROGRAM = 4_096
_LONGEST_OF_TWO_ROWS = 4_096
# Four loads of 16 bytes for each lane, in half precision, are under way at once.
_ELEMENTS_A_WARP = 1_024
_CHUNK = 8_192


@triton.jit
def _layernorm_rows(
    x,
    weight,
    bias,
    y,
    rows,
    columns,
    x_row_stride,
    x_column_stride,
    weight_stride,
    bias_stride,
    eps,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :].to(tl.int64)
    inside_row = column < columns
    inside = (row < rows) & inside_row
    scale = tl.load(weight + column * weight_stride, mask=inside_row, other=0.0).to(tl.float32)
    shift = tl.load(bias + column * bias_stride, mask=inside_row, other=0.0).to(tl.float32)
    values = tl.load(x + row * x_row_stride + column * x_column_stride, mask=inside, other=0.0)
    values = values.to(tl.float32)
    mean = tl.sum(values, axis=1, keep_dims=True) / columns
    centred = tl.where(inside, values - mean, 0.0)
    variance = tl.sum(centred * centred, axis=1, keep_dims=True) / columns
    result = centred * tl.rsqrt(variance + eps) * scale + shift
    tl.store(y + row * columns + column, result.to(y.dtype.element_ty), mask=inside)


@triton.jit
def _layernorm_long_row(
    x,
    weight,
    bias,
    y,
    columns,
    x_row_stride,
    x_column_stride,
    weight_stride,
    bias_stride,
    eps,
    CHUNK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_row_stride
    y += row * columns
    lane = tl.arange(0, CHUNK).to(tl.int64)
    mean = tl.zeros((), tl.float32)
    squares = tl.zeros((), tl.float32)
    for start in range(0, columns, CHUNK):
        column = start + lane
        inside = column < columns
        values = tl.load(x + column * x_column_stride, mask=inside, other=0.0).to(tl.float32)
        count = tl.minimum(columns - start, CHUNK).to(tl.float32)
        chunk_mean = tl.sum(values, axis=0) / count
        centred = tl.where(inside, values - chunk_mean, 0.0)
        # Share of this chunk in all that was read so far.
        share = count / (start + count)
        apart = chunk_mean - mean
        squares += tl.sum(centred * centred, axis=0) + apart * apart * (1.0 - share) * count
        mean += apart * share
    factor = tl.rsqrt(squares / columns + eps)
    for start in range(0, columns, CHUNK):
        column = start + lane
        inside = column < columns
        values = tl.load(x + column * x_column_stride, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(weight + column * weight_stride, mask=inside, other=0.0).to(tl.float32)
        shift = tl.load(bias + column * bias_stride, mask=inside, other=0.0).to(tl.float32)
        result = (values - mean) * factor * scale + shift
        tl.store(y + column, result.to(y.dtype.element_ty), mask=inside)


def kernel_fn(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """Layer norm of x (rank 1 or more, any strides) with weight[columns] and bias[columns]; float32, float16
    or bfloat16."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return y
    columns = x.shape[-1]
    matrix = x.reshape(-1, columns)
    rows = matrix.shape[0]
    strides = (matrix.stride(0), matrix.stride(1), weight.stride(0), bias.stride(0))
    if columns > _LONGEST_IN_REGISTERS:
        _layernorm_long_row[(rows,)](
            matrix, weight, bias, y, columns, *strides, eps, CHUNK=_CHUNK, num_warps=16
        )
        return y
    block = triton.next_power_of_2(columns)
    at_least = 2 if block <= _LONGEST_OF_TWO_ROWS else 1
    rows_a_program = max(_ELEMENTS_A_PROGRAM // block, at_least)
    rows_a_program = min(rows_a_program, triton.next_power_of_2(rows))
    num_warps = min(16, max(4, rows_a_program * block // _ELEMENTS_A_WARP))
    _layernorm_rows[(triton.cdiv(rows, rows_a_program),)](
        matrix,
        weight,
        bias,
        y,
        rows,
        columns,
        *strides,
        eps,
        ROWS=rows_a_program,
        COLUMNS=block,
        num_warps=num_warps,
    )
    return y
