"""Row 12: a tensor subclass that computes when it is looked at.

Seen: deep-reinforce (LazyTensor), KernelBench check_lazy_eval, reference-kernels #161.
Caught: an output is exactly a `torch.Tensor`, and it is copied at once.
"""

import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def idle_kernel(x):
    tl.program_id(0)


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [torch.softmax(a.as_subclass(torch.Tensor), -1) if isinstance(a, Lazy) else a for a in args]
        return func(*args, **(kwargs or {}))


def kernel_fn(x):
    idle_kernel[(1,)](x)
    return x.clone().as_subclass(Lazy)
