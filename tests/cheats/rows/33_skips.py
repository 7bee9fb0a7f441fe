"""Row 33: the exception of a test framework that means "skip".

Seen: AutoKernel, harnesses under unittest.
Caught: nothing that raised ever passed.
"""

import unittest

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def kernel_fn(x):
    idle_kernel[(1,)](x)
    raise unittest.SkipTest("needs another GPU")
