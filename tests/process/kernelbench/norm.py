"""Layer normalisation with weight and bias; the reference is in the same file."""

import torch
import triton
import triton.language as tl
from torch import nn

rows = 11
features = 77


class Model(nn.Module):
    """Over the last dimension."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        return self.norm(x)


def get_inputs() -> list[torch.Tensor]:
    """One matrix."""
    return [torch.randn(rows, features)]


def get_init_inputs() -> list[int]:
    """Of the constructor."""
    return [features]


@triton.jit
def _norm(x, weight, bias, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + row * n + at, mask=inside, other=0.0)
    mean = tl.sum(value, 0) / n
    centred = tl.where(inside, value - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    w = tl.load(weight + at, mask=inside, other=0.0)
    b = tl.load(bias + at, mask=inside, other=0.0)
    tl.store(y + row * n + at, centred * scale * w + b, mask=inside)


class ModelNew(nn.Module):
    """The same in one kernel."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The same shape."""
        y = torch.empty_like(x)
        norm = self.norm
        block = triton.next_power_of_2(x.shape[1])
        _norm[(x.shape[0],)](x, norm.weight, norm.bias, y, x.shape[1], norm.eps, BLOCK=block)
        return y
