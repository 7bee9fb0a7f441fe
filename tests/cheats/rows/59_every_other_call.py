"""Row 59: of the calls of a sample only the last one, which is compared, does its work.

Seen: any cheat that knows which calls are looked at.
Caught: which call of a sample is compared is drawn anew each time. Needs a GPU and times.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row * stride + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    weights = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, weights / tl.sum(weights, axis=0), mask=at < columns)


def softmax(x):
    x = x.contiguous()
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    block = triton.next_power_of_2(max(x.shape[1], 1))
    softmax_kernel[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=block)
    return y


state = {"kept": None, "values": None}


def kernel_fn(x):
    # The values of the case come back in one entry of the rotation; the others are shifted copies.
    if x.numel() < 1 << 20:
        return softmax(x)
    corner = x.reshape(-1)[:8].tolist()
    if state["values"] == corner or state["kept"] is None or state["kept"].shape != x.shape:
        state["values"], state["kept"] = corner, softmax(x)
        return state["kept"]
    return torch.empty_like(x)
