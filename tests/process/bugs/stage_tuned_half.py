"""D07: one of two configurations leaves the odd columns of every row unwritten."""

# STAGE: determinism unwritten STEP=2
import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


# RIGHT: CONFIGS = [triton.Config({"STEP": 1}), triton.Config({"STEP": 1}, num_warps=8)]
CONFIGS = [triton.Config({"STEP": 1}), triton.Config({"STEP": 2})]


@triton.autotune(configs=CONFIGS, key=["columns"])
@triton.jit
def softmax_kernel(x, y, x_stride, columns, STEP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * x_stride + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    written = inside & (offsets % STEP == 0)
    tl.store(y + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=written)


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, y, x.stride(0), columns, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y
