"""Softmax over the last dimension.

Algorithm: rows of up to 16,384 columns are held in registers: one load, the row's maximum, exponentials,
their sum, one store. Short rows share a program, so that a block of threads always has enough to do. Longer
rows are read twice. A row begins anywhere, so it is taken as whole units of 16 bytes between two ragged
ends of less than a unit each: units are moved by one instruction, whatever the length of a row. In the first
pass every lane keeps a maximum and a sum of its own, rescaled whenever the maximum grows (online softmax);
lanes meet once, at the end of it. The second pass normalises. All arithmetic is float32 whatever the dtype.

Must move: 2 * rows * columns * itemsize bytes (one read, one write); the long path reads once more, mostly
from L2, which is asked to keep what the first pass read and to forget what the second one did. About 5 flops
an element, so memory bandwidth is the only limit that matters.

Why this shape: a single pass over memory for nearly all row lengths, no shared memory of our own, no second
launch. Rows of a vocabulary (50,257 columns) do not fit the registers of a block and are not aligned: element
by element they cost more instructions than memory has time for. Row offsets are 64-bit, so tensors with more
than 2**31 elements work.

Measured on an H200 (fp16, medians of do_bench, 2026-12-01), the limit being the bytes at 4.3 TB/s: 21.3 µs
for 4096 x 4096 (n = 290), 73 % of it; 69.0 µs for 8192 x 8192 (n = 181), 91 %; 256.9 µs for 4096 x 50257 (n =
75), 75 %, where the bytes read twice are counted once.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"

_LONGEST_IN_REGISTERS = 16_384
_ELEMENTS_A_PROGRAM = 2_048
# Two loads of 16 bytes for each lane, in half precision; half as many warps with four are a little slower.
_ELEMENTS_A_WARP = 512
_UNIT_BYTES = 16
_UNITS_A_STEP = 2_048
_WARPS_OF_LONG_ROW = 32
# Below every finite float32: a maximum of nothing from which -inf can still be subtracted.
_LOWEST = tl.constexpr(-3.4028234663852886e38)


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
def _softmax_long_row(
    x,
    y,
    columns,
    x_row_stride,
    x_column_stride,
    DENSE: tl.constexpr,
    UNITS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    start = row * columns
    # Written so that the compiler sees a multiple of WIDTH: elements of y before the row's first whole unit.
    before = tl.cdiv(start, WIDTH) * WIDTH
    head = before - start
    units = (columns - head) // WIDTH
    x_row = x + row * x_row_stride
    x_units = x + before if DENSE else x_row + head * x_column_stride
    lane = tl.arange(0, UNITS).to(tl.int64)
    within = tl.arange(0, WIDTH).to(tl.int64)[None, :]

    # The ragged ends: what is left of the first whole unit and right of the last one.
    end = tl.arange(0, 2 * WIDTH).to(tl.int64)
    at_end = tl.where(end < WIDTH, end, head + (units - 1) * WIDTH + end)
    inside_end = tl.where(end < WIDTH, end < head, at_end < columns)
    ends = tl.load(x_row + at_end * x_column_stride, mask=inside_end, other=float("-inf")).to(tl.float32)

    largest = tl.full((UNITS,), _LOWEST, tl.float32)
    total = tl.zeros((UNITS,), tl.float32)
    for first in range(0, units, UNITS):
        unit = (first + lane)[:, None]
        where = x_units + (unit * WIDTH + within) * x_column_stride
        values = tl.load(where, mask=unit < units, other=float("-inf"), eviction_policy="evict_last")
        values = values.to(tl.float32)
        grown = tl.maximum(largest, tl.max(values, axis=1))
        weights = tl.exp(values - grown[:, None])
        total = total * tl.exp(largest - grown) + tl.sum(weights, axis=1)
        largest = grown

    row_largest = tl.maximum(tl.max(largest, axis=0), tl.max(ends, axis=0))
    end_weights = tl.exp(ends - row_largest)
    row_total = tl.sum(total * tl.exp(largest - row_largest), axis=0) + tl.sum(end_weights, axis=0)
    factor = 1.0 / row_total

    tl.store(y + start + at_end, (end_weights * factor).to(y.dtype.element_ty), mask=inside_end)
    for first in range(0, units, UNITS):
        unit = (first + lane)[:, None]
        where = x_units + (unit * WIDTH + within) * x_column_stride
        values = tl.load(where, mask=unit < units, other=float("-inf"), eviction_policy="evict_first")
        result = tl.exp(values.to(tl.float32) - row_largest) * factor
        where = y + before + unit * WIDTH + within
        tl.store(where, result.to(y.dtype.element_ty), mask=unit < units, eviction_policy="evict_first")


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
            matrix,
            y,
            columns,
            matrix.stride(0),
            matrix.stride(1),
            DENSE=matrix.is_contiguous(),
            UNITS=_UNITS_A_STEP,
            WIDTH=_UNIT_BYTES // x.element_size(),
            num_warps=_WARPS_OF_LONG_ROW,
        )
        return y
    block = triton.next_power_of_2(columns)
    rows_a_program = max(1, min(_ELEMENTS_A_PROGRAM // block, triton.next_power_of_2(rows)))
    num_warps = min(16, max(4, rows_a_program * block // _ELEMENTS_A_WARP))
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
