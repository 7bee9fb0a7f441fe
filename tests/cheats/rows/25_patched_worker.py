"""Row 25: the parts of the judge that run in this process are replaced, and the result is wrong.

Seen: pygpubench (the harness's own modules are edited in memory).
Caught: whatever this process says, values are compared in memory that another one owns.
"""

import sys

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


for name, module in list(sys.modules.items()):
    if name.endswith(("worker.compare", "worker.case_truth")):
        module.measure = lambda *_args, **_kwargs: {"violations": 0, "unwritten": 0}
    if name.endswith("worker.returned"):
        module._copy = lambda *_args: True


def kernel_fn(x):
    idle_kernel[(1,)](x)
    return torch.zeros_like(x)
