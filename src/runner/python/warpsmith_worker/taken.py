"""Inputs that a reference's process drew: outputs of one case become inputs of another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from . import poison
from .channel import Message

if TYPE_CHECKING:
    from .judge import Case
    from .shared import MakeShared, SharedTensor


def values(case: Case) -> dict[str, torch.Tensor]:
    """What stands in the outputs, by name."""
    return {output.name: output.view(output.shared) for output in case.outputs}


def inputs_of(
    specs: list[Message], drawn: dict[str, torch.Tensor], make_shared: MakeShared
) -> Iterator[SharedTensor | Any]:
    """Tensors in memory of their own with the drawn values; scalars as they are."""
    for position, spec in enumerate(specs):
        if spec["kind"] == "scalar":
            yield spec["value"]
            continue
        item = make_shared(f"input-{position}", spec, spec["strides"], mapped=True)
        if item.shared is not None:
            # Padding between rows: whoever reads it reads poison.
            poison.fill_storage(item.view(item.shared))
            _write(item.view(item.shared), drawn[item.name])
            item.private = item.shared.clone()
        yield item


def refill(items: Iterable[SharedTensor], drawn: dict[str, torch.Tensor]) -> None:
    """Other values in the judge's own copies."""
    for item in items:
        if item.private is not None:
            _write(item.view(item.private), drawn[item.name])


def _write(target: torch.Tensor, drawn: torch.Tensor) -> None:
    """Along a dimension of stride 0 the elements share memory, and were the same where they were drawn."""
    for dim, stride in enumerate(target.stride()):
        if stride == 0:
            target, drawn = target.narrow(dim, 0, 1), drawn.narrow(dim, 0, 1)
    target.copy_(drawn)
