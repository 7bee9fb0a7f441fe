"""Softmax over the last dimension.

Algorithm: rows of up to 16,384 columns are held in registers: one load, the row's maximum, exponentials,
their sum, one store. Short rows share a program, so that a block of threads always has enough to do. Longer
rows are read twice in chunks: the first pass keeps a running maximum and a sum that is rescaled whenever
the maximum grows (online softmax), the second one normalises. All arithmetic is float32 whatever the dtype.

Must move: 2 * rows * columns * itemsize bytes (one read, one write); the long path reads once more, mostly
from L2. About 5 flops an element, so memory bandwidth is the only limit that matters.

Why this shape: a single pass over memory for nearly all row lengths, no shared memory of our own, no second
launch. Row offsets are 64-bit, so tensors with more than 2**31 elements work.

Measured share of the limit: not measured yet on a GPU.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"

_LONGEST_IN_REGISTERS = 16_384
_ELEMENTS_A_PROGRAM = 2_048
_CHUNK = 8_192


@triton.jit
def _softmax_rows(
    x, y, rows, columns, x_row_stride, x_column_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, COLUMNS)[None, :].to(tl.int64)
    inside = (row < rows) & (column < columns)
    values = tl.load(x + row * x_row_stride + column * x_column_stride, mask=inside, other=float("-inf"))
    values = values.to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=1, keep_dims=True))
    total = tl.sum(weights, axis=1, keep_dims=True)
    result = (weights / total).to(y.dtype.element_ty)
    tl.store(y + row * columns + column, result, mask=inside)


@triton.jit
def _softmax_long_row(x, y, columns, x_row_stride, x_column_stride, CHUNK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x += row * x_row_stride
    y += row * columns
    lane = tl.arange(0, CHUNK).to(tl.int64)
    largest = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, columns, CHUNK):
        column = start + lane
        values = tl.load(x + column * x_column_stride, mask=column < columns, other=float("-inf"))
        values = values.to(tl.float32)
        grown = tl.maximum(largest, tl.max(values, axis=0))
        # A chunk of nothing but -inf must not turn the sum into NaN: inf - inf.
        shift = tl.where(grown == float("-inf"), 0.0, grown)
        total = total * tl.exp(largest - shift) + tl.sum(tl.exp(values - shift), axis=0)
        largest = grown
    for start in range(0, columns, CHUNK):
        column = start + lane
        inside = column < columns
        values = tl.load(x + column * x_column_stride, mask=inside, other=float("-inf"))
        result = tl.exp(values.to(tl.float32) - largest) / total
        tl.store(y + column, result.to(y.dtype.element_ty), mask=inside)


def kernel_fn(x: torch.Tensor) -> torch.Tensor:
    """Softmax of x (rank 1 or more, any strides, float32, float16 or bfloat16) over its last dimension."""
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:
        return y
    columns = x.shape[-1]
    matrix = x.reshape(-1, columns)
    rows = matrix.shape[0]
    if columns > _LONGEST_IN_REGISTERS:
        _softmax_long_row[(rows,)](
            matrix, y, columns, matrix.stride(0), matrix.stride(1), CHUNK=_CHUNK, num_warps=16
        )
        return y
    block = triton.next_power_of_2(columns)
    rows_a_program = max(1, min(_ELEMENTS_A_PROGRAM // block, triton.next_power_of_2(rows)))
    num_warps = 4 if block <= 2_048 else 8 if block <= 8_192 else 16
    _softmax_rows[(triton.cdiv(rows, rows_a_program),)](
        matrix,
        y,
        rows,
        columns,
        matrix.stride(0),
        matrix.stride(1),
        ROWS=rows_a_program,
        COLUMNS=block,
        num_warps=num_warps,
    )
    return y
