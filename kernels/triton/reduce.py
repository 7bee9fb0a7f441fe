"""Sum or maximum over one dimension of a tensor of any rank.

Algorithm: the tensor is seen as [outer, depth, inner], depth being reduced. A program owns a tile of kept
elements and walks along depth with an accumulator for each lane, which is folded once at the end. When the
last dimension is reduced, the lanes lie along depth; otherwise along the kept elements: either way
neighbouring lanes read neighbouring addresses. Few and long rows are split along depth over many programs
first; the same kernel then reduces their partial results, so the order of the sum never changes between
runs. Sums are float32 whatever the dtype; a maximum propagates NaN like PyTorch's.

Must move: elements * itemsize bytes once, and the result; what the stages exchange is at most 1/32 of that.
One flop an element, so memory bandwidth is the only limit that matters.

Why this shape: one kernel for every dimension, any strides and both stages, without atomics. Offsets are
64-bit, so tensors with more than 2**31 elements work.

Measured on an H200 (fp16, medians of do_bench, 2026-12-01), the limit being the bytes at 4.3 TB/s: 43.3 µs
for the sums of the rows of 8192 x 8192 (n = 232), 72 % of it.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "reduce"

_TILE_ELEMENTS = 2_048
_LONGEST_TILE_DEPTH = 2_048
_TILE_WIDTH = 128
_WANTED_PROGRAMS = 512
_SHORTEST_PART = 4_096


@triton.jit
def _larger(left, right):
    return tl.maximum(left, right, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _reduce_tile(
    x,
    y,
    kept,
    depth,
    part_depth,
    outer_stride,
    depth_stride,
    kept_stride,
    parts,
    KEPT: tl.constexpr,
    DEPTH: tl.constexpr,
    MAXIMUM: tl.constexpr,
):
    program = tl.program_id(0)
    tiles = tl.cdiv(kept, KEPT)
    tile = (program % tiles).to(tl.int64)
    part = (program // tiles % parts).to(tl.int64)
    outer = (program // tiles // parts).to(tl.int64)
    column = tile * KEPT + tl.arange(0, KEPT)
    first = part * part_depth
    last = tl.minimum(first + part_depth, depth)
    lane = tl.arange(0, DEPTH).to(tl.int64)
    x += outer * outer_stride + column[:, None] * kept_stride
    nothing = float("-inf") if MAXIMUM else 0.0
    total = tl.full((KEPT, DEPTH), nothing, tl.float32)
    for start in range(first, last, DEPTH):
        row = start + lane
        inside = (column[:, None] < kept) & (row[None, :] < last)
        values = tl.load(x + row[None, :] * depth_stride, mask=inside, other=nothing).to(tl.float32)
        if MAXIMUM:
            total = _larger(total, values)
        else:
            total += values
    result = tl.reduce(total, 1, _larger) if MAXIMUM else tl.sum(total, axis=1)
    # Parts outside, so that they are the first dimension of what the second stage reads.
    outers = tl.num_programs(0) // (tiles * parts)
    where = (part * outers + outer) * kept + column
    tl.store(y + where, result.to(y.dtype.element_ty), mask=column < kept)


def _launch(x: torch.Tensor, y: torch.Tensor, parts: int, maximum: bool) -> None:
    """Reduces the middle of three dimensions of x in parts; y is [parts, outer, kept], contiguous."""
    outer, depth, kept = x.shape
    outer_stride, depth_stride, kept_stride = x.stride()
    if kept == 1:
        # Rows of a matrix: the outer dimension is what programs share out among their lanes.
        outer, kept, outer_stride, kept_stride = 1, outer, 0, outer_stride
        tile_depth = min(_LONGEST_TILE_DEPTH, triton.next_power_of_2(max(depth, 1)))
        tile_kept = max(1, min(_TILE_ELEMENTS // tile_depth, triton.next_power_of_2(kept)))
    else:
        tile_depth = min(_TILE_ELEMENTS // _TILE_WIDTH, triton.next_power_of_2(max(depth, 1)))
        tile_kept = min(_TILE_ELEMENTS // tile_depth, triton.next_power_of_2(kept))
    _reduce_tile[(outer * parts * triton.cdiv(kept, tile_kept),)](
        x,
        y,
        kept,
        depth,
        triton.cdiv(depth, parts),
        outer_stride,
        depth_stride,
        kept_stride,
        parts,
        KEPT=tile_kept,
        DEPTH=tile_depth,
        MAXIMUM=maximum,
        num_warps=4,
    )


def _parts(outer: int, depth: int, kept: int) -> int:
    """How often to split depth: not at all when there are enough programs anyway."""
    programs = outer if kept == 1 else outer * triton.cdiv(kept, _TILE_WIDTH)
    # The work of one part must pay for writing and reading its partial results.
    shortest = _SHORTEST_PART if kept == 1 else _TILE_WIDTH
    return max(1, min(_WANTED_PROGRAMS // max(programs, 1), depth // shortest))


def kernel_fn(x: torch.Tensor, dim: int = -1, op: str = "sum") -> torch.Tensor:
    """Sum or maximum ("sum", "max") of x over one dimension; any rank and strides, float32, float16 or
    bfloat16."""
    dim %= x.dim()
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    y = torch.empty(shape, dtype=x.dtype, device=x.device)
    if op not in ("sum", "max"):
        raise ValueError(f"op is {op!r}; it must be 'sum' or 'max'")
    if y.numel() == 0:
        return y
    depth = x.shape[dim]
    if op == "max" and depth == 0:
        raise ValueError("nothing has no maximum")
    outer, kept = x.shape[:dim].numel(), x.shape[dim + 1 :].numel()
    blocks = x.reshape(outer, depth, kept)
    parts = _parts(outer, depth, kept)
    if parts == 1:
        _launch(blocks, y, 1, op == "max")
        return y
    partial = torch.empty((1, parts, outer * kept), dtype=torch.float32, device=x.device)
    _launch(blocks, partial, parts, op == "max")
    _launch(partial, y, 1, op == "max")
    return y
