"""Row 33: `SystemExit(0)` in the middle of the call.

Seen: harnesses that go by the exit status.
Caught: nothing that raised ever passed.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def kernel_fn(x):
    idle_kernel[(1,)](x)
    raise SystemExit(0)
