"""Sources of the kernels that the tests on a GPU open."""

from .support import HEADER

SOFTMAX_KERNEL = (
    HEADER
    + """
@triton.jit
def softmax_kernel(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * columns + at, e / tl.sum(e, 0), mask=at < columns)

def kernel_fn(x):
    y = torch.empty_like(x)
    grid = lambda meta: (x.shape[0],)
    softmax_kernel[grid](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
"""
)


def double_kernel(body: str, launch: str = "", decorator: str = "@triton.jit") -> str:
    """A kernel that doubles; `body` goes on in it (`x_ptr`, `y_ptr`, `n`, `at`), `launch` is its call."""
    call = launch or "double_kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)"
    return (
        HEADER
        + f"""
{decorator}
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * 2, mask=at < n)
    {body}

def kernel_fn(x):
    y = torch.empty_like(x)
    n = x.numel()
    {call}
    return y
"""
    )


INTO_DESTINATION = (
    HEADER
    + """
@triton.jit
def double_kernel(x_ptr, y_ptr, n, extra, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, x * 2, mask=at < n + extra)

def kernel_fn(x, y):
    n = x.numel()
    double_kernel[(triton.cdiv(n, 256) + 1,)](x, y, n, EXTRA, BLOCK=256)
"""
)

TUNED = (
    HEADER
    + """
configs = [triton.Config({"BLOCK": size}, num_warps=warps) for size, warps in ((128, 4), (256, 4), (512, 8))]

@triton.autotune(configs=configs, key=["n"])
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    factor = 3 if BLOCK == 512 else 2
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)

def kernel_fn(x):
    y = torch.empty_like(x)
    double_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y
"""
)

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 8)

    def forward(self, x):
        return torch.relu(self.linear(x))

def get_inputs():
    return [torch.randn(4, 16)]

def get_init_inputs():
    return [16]
"""

MODULE = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, 8)

    def forward(self, x):
        assert x.is_cuda and self.linear.weight.is_cuda
        return torch.clamp(torch.addmm(self.linear.bias, x, self.linear.weight.t()), min=0)
"""
