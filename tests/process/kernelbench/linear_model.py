"""A matrix product with weights, and what follows it."""

import torch
from torch import nn

batch_size = 1024
in_features = 8192
out_features = 8192


class Model(nn.Module):
    """relu(x W^T + b)."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One row for each of `x`."""
        return torch.relu(self.linear(x))


def get_inputs() -> list[torch.Tensor]:
    """One matrix."""
    return [torch.rand(batch_size, in_features)]


def get_init_inputs() -> list[int]:
    """Of the constructor."""
    return [in_features, out_features]
