"""D12: the running maximum starts at minus infinity; where the first tile is masked out whole, the
difference of two infinities makes the row NaN, although the rest of it has values."""
# CASE: non-finite stage=smoke

import torch
import triton
import triton.language as tl


@triton.jit
def scores_kernel(x, mask, y, columns, TILE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, TILE):
        at = start + tl.arange(0, TILE)
        inside = at < columns
        shown = tl.load(mask + row * columns + at, mask=inside, other=0) != 0
        values = tl.where(shown, tl.load(x + row * columns + at, mask=inside, other=0.0), -float("inf"))
        highest = tl.maximum(largest, tl.max(values, axis=0))
        # RIGHT: safe = tl.where(highest == -float("inf"), 0.0, highest)
        safe = highest
        total = total * tl.exp(largest - safe) + tl.sum(tl.exp(values - safe), axis=0)
        largest = highest
    for start in range(0, columns, TILE):
        at = start + tl.arange(0, TILE)
        inside = at < columns
        shown = tl.load(mask + row * columns + at, mask=inside, other=0) != 0
        values = tl.load(x + row * columns + at, mask=inside, other=0.0)
        tl.store(y + row * columns + at, tl.where(shown, tl.exp(values - largest) / total, 0.0), mask=inside)


def truth(x, mask):
    return torch.softmax(torch.where(mask != 0, x, -float("inf")), dim=-1)


# warpsmith: ref=truth x=f32[M,N] mask=i32[M,N]:int(0,2) M=16 N=9,40
def masked_softmax(x, mask):
    y = torch.empty_like(x)
    rows, columns = x.shape
    scores_kernel[(rows,)](x, mask, y, columns, TILE=2)
    return y
