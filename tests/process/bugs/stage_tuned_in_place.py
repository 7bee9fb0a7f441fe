"""D06: the first call runs every configuration on the same tensor, in place."""

# STAGE: determinism mismatch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"

CONFIGS = [triton.Config({"LANES": 1}), triton.Config({"LANES": 2})]


# RIGHT: @triton.autotune(configs=CONFIGS, key=["columns"], restore_value=["y"])
@triton.autotune(configs=CONFIGS, key=["columns"])
@triton.jit
def softmax_kernel(y, columns, LANES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(y + row * columns + offsets, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + offsets, weights / tl.sum(weights, axis=0), mask=inside)


def kernel_fn(x):
    y = x.contiguous().clone()
    rows, columns = x.shape
    softmax_kernel[(rows,)](y, columns, BLOCK=triton.next_power_of_2(max(columns, 1)))
    return y
