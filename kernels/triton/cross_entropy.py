"""Cross entropy: the mean over rows of log(sum(exp(logits))) - logits[target].

Algorithm: one pass over the logits. Rows of up to 4,096 classes are held in registers, short ones share a
program. A longer row is taken as whole units of 16 bytes between two ragged ends of less than a unit each,
because it begins anywhere: units are moved by one instruction, whatever the number of classes. Every lane
keeps a maximum and a sum of its own, rescaled whenever the maximum grows (online softmax); lanes meet once,
at the end of the row. Neither probabilities nor their logarithms are ever stored: a row leaves behind one
float32. A second launch adds those up and divides, always in the same order.

Must move: rows * classes * itemsize bytes (one read) and 8 bytes of target a row; 4 bytes a row in between.
About 4 flops an element, so memory bandwidth is the only limit that matters.

Why this shape: the logits of a language model are far larger than any cache, so they are touched once. No
atomics, so repeats agree bit for bit. Row offsets are 64-bit: 2**31 logits are an everyday size here.

Measured on an H200 (fp16, medians of do_bench, 2026-12-01), the limit being the bytes at 4.3 TB/s: 82.3 µs
for 4096 x 32000 (n = 167), 74 % of it; 215.4 µs for 8192 x 50257 (n = 85), 89 %.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "cross_entropy"

_LONGEST_IN_REGISTERS = 4_096
_ELEMENTS_A_PROGRAM = 2_048
_UNIT_BYTES = 16
_UNITS_A_STEP = 512
_WARPS_OF_LONG_ROW = 8
# Below every finite float32: a maximum of nothing from which -inf can still be subtracted.
_LOWEST = tl.constexpr(-3.4028234663852886e38)
_MEAN_LANES = 1_024


@triton.jit
def _target_logit(logits, targets, row, rows, classes, row_stride, class_stride, target_stride):
    inside = row < rows
    target = tl.load(targets + row * target_stride, mask=inside, other=0)
    # A target that names no class reads nothing and makes the loss NaN.
    known = inside & (target >= 0) & (target < classes)
    where = logits + row * row_stride + target * class_stride
    return tl.load(where, mask=known, other=float("nan")).to(tl.float32)


@triton.jit
def _losses_of_rows(
    logits,
    targets,
    losses,
    rows,
    classes,
    row_stride,
    class_stride,
    target_stride,
    ROWS: tl.constexpr,
    CLASSES: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, CLASSES)[None, :].to(tl.int64)
    inside = (row[:, None] < rows) & (column < classes)
    where = logits + row[:, None] * row_stride + column * class_stride
    values = tl.load(where, mask=inside, other=float("-inf")).to(tl.float32)
    largest = tl.max(values, axis=1)
    total = tl.sum(tl.exp(values - largest[:, None]), axis=1)
    hit = _target_logit(logits, targets, row, rows, classes, row_stride, class_stride, target_stride)
    tl.store(losses + row, tl.log(total) + (largest - hit), mask=row < rows)


@triton.jit
def _loss_of_long_row(
    logits,
    targets,
    losses,
    rows,
    classes,
    row_stride,
    class_stride,
    target_stride,
    DENSE: tl.constexpr,
    UNITS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    start = row * classes
    # Written so that the compiler sees a multiple of WIDTH: elements before the row's first whole unit.
    before = tl.cdiv(start, WIDTH) * WIDTH
    head = before - start
    units = (classes - head) // WIDTH
    row_logits = logits + row * row_stride
    unit_logits = logits + before if DENSE else row_logits + head * class_stride
    lane = tl.arange(0, UNITS).to(tl.int64)
    within = tl.arange(0, WIDTH).to(tl.int64)[None, :]

    # The ragged ends: what is left of the first whole unit and right of the last one.
    end = tl.arange(0, 2 * WIDTH).to(tl.int64)
    at_end = tl.where(end < WIDTH, end, head + (units - 1) * WIDTH + end)
    inside_end = tl.where(end < WIDTH, end < head, at_end < classes)
    at_ends = row_logits + at_end * class_stride
    ends = tl.load(at_ends, mask=inside_end, other=float("-inf")).to(tl.float32)

    largest = tl.full((UNITS,), _LOWEST, tl.float32)
    total = tl.zeros((UNITS,), tl.float32)
    for first in range(0, units, UNITS):
        unit = (first + lane)[:, None]
        where = unit_logits + (unit * WIDTH + within) * class_stride
        values = tl.load(where, mask=unit < units, other=float("-inf")).to(tl.float32)
        grown = tl.maximum(largest, tl.max(values, axis=1))
        weights = tl.exp(values - grown[:, None])
        total = total * tl.exp(largest - grown) + tl.sum(weights, axis=1)
        largest = grown

    row_largest = tl.maximum(tl.max(largest, axis=0), tl.max(ends, axis=0))
    row_total = tl.sum(total * tl.exp(largest - row_largest), axis=0)
    row_total += tl.sum(tl.exp(ends - row_largest), axis=0)
    hit = _target_logit(logits, targets, row, rows, classes, row_stride, class_stride, target_stride)
    tl.store(losses + row, tl.log(row_total) + (row_largest - hit))


@triton.jit
def _mean(losses, mean, rows, LANES: tl.constexpr):
    lane = tl.arange(0, LANES).to(tl.int64)
    total = tl.zeros((LANES,), tl.float32)
    for start in range(0, rows, LANES):
        row = start + lane
        total += tl.load(losses + row, mask=row < rows, other=0.0)
    tl.store(mean, (tl.sum(total, axis=0) / rows).to(mean.dtype.element_ty))


def kernel_fn(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy, of no dimension, of logits[rows, classes] (any strides, float32, float16 or
    bfloat16) and the class targets[rows] of each row; NaN without rows, as PyTorch's."""
    rows, classes = logits.shape
    losses = torch.empty((rows,), dtype=torch.float32, device=logits.device)
    strides = (logits.stride(0), logits.stride(1), targets.stride(0))
    if classes > _LONGEST_IN_REGISTERS and rows:
        _loss_of_long_row[(rows,)](
            logits,
            targets,
            losses,
            rows,
            classes,
            *strides,
            DENSE=logits.is_contiguous(),
            UNITS=_UNITS_A_STEP,
            WIDTH=_UNIT_BYTES // logits.element_size(),
            num_warps=_WARPS_OF_LONG_ROW,
        )
    elif rows:
        block = triton.next_power_of_2(max(classes, 1))
        rows_a_program = max(1, min(_ELEMENTS_A_PROGRAM // block, triton.next_power_of_2(rows)))
        _losses_of_rows[(triton.cdiv(rows, rows_a_program),)](
            logits,
            targets,
            losses,
            rows,
            classes,
            *strides,
            ROWS=rows_a_program,
            CLASSES=block,
            num_warps=4,
        )
    loss = torch.empty((), dtype=logits.dtype, device=logits.device)
    _mean[(1,)](losses, loss, rows, LANES=_MEAN_LANES, num_warps=4)
    return loss
