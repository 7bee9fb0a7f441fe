"""Classes in the manner of KernelBench: what both sides of such a problem share.

The reference's process makes all values (`problem.py`), the candidate's gets them (`module_candidate.py`).
"""

import contextlib
import random
from collections.abc import Mapping
from typing import Any

import numpy
import torch

INPUT = "x:"
"""Prefix of the arguments that are inputs of `forward`."""
STATE = "w:"
"""Prefix of the arguments that are parameters and buffers, by their name in `state_dict`."""


class Unusable(Exception):
    """Something about the classes keeps the kernel from being judged; `code` goes into the answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def set_seed(seed: int) -> None:
    """Seeds every generator that constructors and `get_inputs` commonly use."""
    random.seed(seed)
    numpy.random.seed(seed & 0xFFFFFFFF)
    torch.manual_seed(seed)


def with_prefix(arguments: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The arguments whose names begin so, without the prefix."""
    return {name.removeprefix(prefix): value for name, value in arguments.items() if name.startswith(prefix)}


def encoded(value: Any) -> Any:
    """A value of `get_init_inputs` as JSON. Raises TypeError for what has no such form."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, list):
        return [encoded(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[encoded(key), encoded(item)] for key, item in value.items()]}
    raise TypeError(type(value).__name__)


def decoded(value: Any) -> Any:
    """The value that was `encoded`."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "float":
        return float.fromhex(inner)
    if kind == "dtype":
        return getattr(torch, inner)
    if kind == "tuple":
        return tuple(decoded(item) for item in inner)
    return {decoded(key): decoded(item) for key, item in inner}


def copy_state(target: torch.Tensor, values: torch.Tensor) -> None:
    """Write the values of a parameter or buffer, unless it has them already."""
    with torch.no_grad(), contextlib.suppress(RuntimeError):
        if target.dtype == values.dtype and torch.equal(target, values):
            return
    with torch.no_grad():
        target.copy_(values)


def constant_parameters(model: torch.nn.Module) -> list[torch.Tensor]:
    """Parameters of one finite value, such as the ones of a norm: who ignores them is not found out.

    So are the running statistics of a batch norm in evaluation; in train mode they play no part.
    """
    running = [
        value
        for module in model.modules()
        if isinstance(module, torch.nn.modules.batchnorm._NormBase) and not module.training
        for value in (module.running_mean, module.running_var)
        if value is not None
    ]
    every = [*model.parameters(), *running]
    floats = [value for value in every if value.numel() and value.is_floating_point()]
    return [value for value in floats if bool(((value == value.flatten()[0]) & value.isfinite()).all())]


def randomise_constants(model: torch.nn.Module, seed: int) -> None:
    """Give such parameters other values: up to a quarter more or less, around zero up to a quarter."""
    generator = torch.Generator().manual_seed(seed)
    for value in constant_parameters(model):
        scale = abs(float(value.detach().flatten()[0])) or 1.0
        change = 0.25 * scale * (2 * torch.rand(value.shape, generator=generator) - 1)
        with torch.no_grad():
            value.add_(change.to(value.device, value.dtype))
