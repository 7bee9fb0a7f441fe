"""Row 14: a thread goes on computing after the call has returned.

Seen: deep-reinforce, pygpubench thread_fd.
Caught: outputs are copied when the call returns, and a thread that outlives its call is told.
"""

import threading
import time

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


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def work(x, y):
    time.sleep(0.5)
    y.copy_(softmax(x))


def kernel_fn(x):
    idle_kernel[(1,)](x)
    y = torch.empty_like(x)
    threading.Thread(target=work, args=(x, y), daemon=True).start()
    return y
