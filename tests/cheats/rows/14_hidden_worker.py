"""Row 14: a thread from the import computes, and the call waits for it only when it is judged.

Seen: pygpubench thread_fd.
Caught: nothing is timed while a thread of the file is alive. Needs a GPU and times; the values are right.
"""

import queue
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


jobs = queue.SimpleQueue()


def work():
    while True:
        x, y, done = jobs.get()
        y.copy_(softmax(x))
        torch.cuda.synchronize()
        done.set()


threading.Thread(target=work, daemon=True).start()


def kernel_fn(x):
    y, done = torch.empty_like(x), threading.Event()
    is_judged = bool(torch.isnan(y.reshape(-1)[:64]).any())
    jobs.put((x, y, done))
    if is_judged:
        done.wait()
    return y
