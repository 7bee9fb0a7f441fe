"""Autotuned, with a different kernel variant for each length (rows 55 and 56).

Tuning runs the kernel many times in the first call of a shape.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.autotune(
    configs=[triton.Config({"ROWS": 1}, num_warps=4), triton.Config({"ROWS": 2}, num_warps=8)],
    key=["columns"],
)
@triton.jit
def softmax_kernel(x, y, stride, columns, rows, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    at = tl.arange(0, BLOCK)[None, :]
    inside = (at < columns) & (row < rows)
    values = tl.load(x + row * stride + at, mask=inside, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=1, keep_dims=True))
    tl.store(y + row * columns + at, weights / tl.sum(weights, axis=1, keep_dims=True), mask=inside)


def kernel_fn(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    rows, columns = x.shape
    block = triton.next_power_of_2(max(columns, 1))
    softmax_kernel[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](
        x, y, x.stride(0), columns, rows, BLOCK=block
    )
    return y
