"""Row 9: a thread writes the outputs once more after the call, when the answer may be known.

Seen: pygpubench thread_fd.
Caught: the judge copies the outputs before it computes the reference, and compares its copy; a thread that
outlives its call is told.
"""

import threading
import time

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def fill(y):
    for _ in range(200):
        time.sleep(0.01)
        y.fill_(1.0 / y.shape[1])


def kernel_fn(x):
    idle_kernel[(1,)](x)
    y = torch.zeros_like(x)
    threading.Thread(target=fill, args=(y,), daemon=True).start()
    return y
