"""Row 57: work is left running on the GPU, so that the baseline is timed beside it.

Seen: baselines under other clocks, or beside another process.
Caught: the whole context is idle before an answer goes out, and nothing is timed while a thread is alive.
Needs a GPU and times; the values are right.
"""

import threading

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


def burden():
    a = torch.randn(2048, 2048, device="cuda")
    while True:
        torch.mm(a, a)
        torch.cuda.synchronize()


threads = []


def kernel_fn(x):
    if not threads and x.numel() > 1 << 20:
        threads.append(threading.Thread(target=burden, daemon=True))
        threads[0].start()
    return softmax(x)
