"""Calls that only compile: what they launch ends after the compiler, and fills Triton's cache on disk.

For other processes of the same source, which then find their kernels there. Nothing is computed, so what such
a call returns or raises means nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import memory, place
from .channel import Message
from .cuda_shim import forward
from .dtypes import by_name

_active = False


def is_active() -> bool:
    """Whether launches end after the compiler now."""
    return _active


@contextlib.contextmanager
def active() -> Iterator[None]:
    """In here, launches end after the compiler."""
    global _active
    _active = True
    try:
        yield
    finally:
        _active = False


def every_configuration(tuner: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
    """Compile what an `Autotuner` chooses from, without timing it."""
    tuner.nargs = dict(zip(tuner.arg_names, arguments, strict=False))
    several = len(tuner.configs) > 1
    for config in list(forward(tuner.prune_configs, (named,), {})) if several else list(tuner.configs):
        chosen = config.all_kwargs()
        # One that does not compile is for the judged process to tell.
        with contextlib.suppress(Exception):
            if config.pre_hook is not None:
                forward(config.pre_hook, ({**tuner.nargs, **named, **chosen},), {})
            forward(tuner.fn.run, arguments, {**named, **chosen})


def call_on_zeros(entry: Callable[..., Any], positional_only: list[str], request: Message) -> None:
    """Call the entry on tensors of the case's shapes, which all lie in the same zeros.

    Raises what the entry raises, and torch's error when the memory is not there.
    """
    tensors = [item for item in request["inputs"] if "shape" in item] + request["outputs"]
    zeros = torch.zeros(
        max(map(_storage_bytes, tensors), default=0), dtype=torch.uint8, device=place.current()
    )
    inputs = {item["name"]: _input(item, zeros) for item in request["inputs"]}
    outputs = {item["name"]: _tensor(item, zeros) for item in request["outputs"]}
    arguments = {}
    for item in request["arguments"]:
        if "output" in item:
            value = outputs[item["output"]]
        else:
            value = inputs[item["input"]] if "input" in item else item["value"]
        arguments[item["parameter"]] = value
    positional = [arguments.pop(name) for name in positional_only if name in arguments]
    with active():
        entry(*positional, **arguments)


def _input(item: Message, zeros: torch.Tensor) -> Any:
    return _tensor(item, zeros) if "shape" in item else item.get("value")


def _tensor(item: Message, zeros: torch.Tensor) -> torch.Tensor:
    dtype, shape = by_name(item["dtype"]).torch, item["shape"]
    strides = item.get("strides") or memory.contiguous_strides(shape)
    storage_bytes = _storage_bytes(item)
    if storage_bytes == 0:
        return memory.empty_view(dtype, shape, strides)
    return memory.view_storage(zeros[:storage_bytes], dtype, shape, strides, item.get("offset", 0))


def _storage_bytes(item: Message) -> int:
    shape = item["shape"]
    strides = item.get("strides") or memory.contiguous_strides(shape)
    elements = memory.storage_elements(shape, strides, item.get("offset", 0))
    return elements * by_name(item["dtype"]).torch.itemsize
