"""Cross entropy: the mean over rows of log(sum(exp(logits))) - logits[target].

Algorithm: one pass over the logits. Rows of up to 4,096 classes are held in registers, short ones share a
program; longer rows are read in chunks with a running maximum and a sum that is rescaled whenever the
maximum grows (online softmax). Neither probabilities nor their logarithms are ever stored: a row leaves
behind one float32. A second launch adds those up and divides, always in the same order.

Must move: rows * classes * itemsize bytes (one read) and 8 bytes of target a row; 4 bytes a row in between.
About 4 flops an element, so memory bandwidth is the only limit that matters.

Why this shape: the logits of a language model are far larger than any cache, so they are touched once. No
atomics, so repeats agree bit for bit. Row offsets are 64-bit: 2**31 logits are an everyday size here.

Measured share of the limit: not measured yet on a GPU.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "cross_entropy"

_LONGEST_IN_REGISTERS = 4_096
_ELEMENTS_A_PROGRAM = 2_048
_CHUNK = 4_096
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
    CHUNK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, CHUNK).to(tl.int64)
    largest = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((), tl.float32)
    for start in range(0, classes, CHUNK):
        column = start + lane
        where = logits + row * row_stride + column * class_stride
        values = tl.load(where, mask=column < classes, other=float("-inf")).to(tl.float32)
        grown = tl.maximum(largest, tl.max(values, axis=0))
        # A chunk of nothing but -inf must not turn the sum into NaN: inf - inf.
        shift = tl.where(grown == float("-inf"), 0.0, grown)
        total = total * tl.exp(largest - shift) + tl.sum(tl.exp(values - shift), axis=0)
        largest = grown
    hit = _target_logit(logits, targets, row, rows, classes, row_stride, class_stride, target_stride)
    tl.store(losses + row, tl.log(total) + (largest - hit))


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
            logits, targets, losses, rows, classes, *strides, CHUNK=_CHUNK, num_warps=8
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
