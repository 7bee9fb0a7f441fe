"""D22: one of three configurations rounds the row up and has no mask."""

# STAGE: determinism out-of-bounds MASKED=False
import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


# RIGHT: CONFIGS = [triton.Config({"MASKED": True, "LANES": lanes}) for lanes in (1, 2, 4)]
CONFIGS = [triton.Config({"MASKED": lanes != 4, "LANES": lanes}) for lanes in (1, 2, 4)]


@triton.autotune(configs=CONFIGS, key=["columns"])
@triton.jit
def softmax_kernel(x, y, columns, MASKED: tl.constexpr, LANES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    if MASKED:
        values = tl.load(x + row * columns + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    else:
        values = tl.load(x + row * columns + offsets).to(tl.float32)
        values = tl.where(inside, values, -float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=inside)


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, y, columns, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y
