"""Two inputs, a number and two outputs, of which one is small."""

import torch
from torch import nn

length = 300


class Model(nn.Module):
    """A weighted sum and its mean."""

    def forward(self, left: torch.Tensor, right: torch.Tensor, factor: float) -> tuple[torch.Tensor, ...]:
        """Like `left`, and a single number."""
        total = left + factor * right
        return total, total.mean()


def get_inputs() -> list[torch.Tensor | float]:
    """Two vectors, of which one comes from the middle of a matrix."""
    return [torch.randn(length), torch.randn(length, 2)[:, 1], 1.5]


def get_init_inputs() -> list[int]:
    """Nothing."""
    return []
