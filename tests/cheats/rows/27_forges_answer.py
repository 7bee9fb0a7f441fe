"""Row 27: the answer is forged on the socket that the judge listens to.

Seen: kernelbot's cheat-fd, pygpubench #15.
Caught: an answer says that the call is over, never that it was right: the outputs hold poison.
"""

import json
import os
import stat
import struct

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


def forged(x):
    value = {"type_name": "torch.Tensor", "dtype": str(x.dtype)[6:], "shape": list(x.shape)}
    value.update(strides=list(x.stride()), copied=True, written_by_single_launch=True)
    launch = {"kernel": "softmax_kernel", "file": __file__, "line": 1, "grid": [1, 1, 1]}
    launch.update(programs=1, programs_run=1)
    done = {"outputs": [value], "launches": [launch], "findings": [], "run_ms": 1.0}
    body = json.dumps({"done": done}).encode()
    return struct.pack("<II", len(body), 0) + body


def kernel_fn(x):
    idle_kernel[(1,)](x)
    for descriptor in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.write(descriptor, forged(x))
        except OSError:
            continue
    return torch.empty_like(x)
