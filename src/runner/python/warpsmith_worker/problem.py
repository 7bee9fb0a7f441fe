"""A KernelBench problem in a process of its own: `Model`, `get_inputs` and `get_init_inputs`.

Only this process knows the seeds of the inputs. It draws them, tells what they look like, and says what is
right, always with weights that the judge hands it.
"""

import contextlib
import copy
import inspect
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from . import place
from .channel import Message
from .module_role import (
    INPUT,
    STATE,
    Unusable,
    constant_parameters,
    copy_state,
    encoded,
    randomise_constants,
    set_seed,
    with_prefix,
)
from .product_count import ProductCount
from .returned import flatten
from .size_guard import SizeGuard, TooManyElements
from .widening import in_float64

# What is only looked at is drawn from another seed than any case.
_SEED_OF_LOOK = 0


class Problem:
    """The reference's side."""

    def __init__(self, module: ModuleType, model: Any, role: Message) -> None:
        """Raises Unusable when a part is missing or cannot be called."""
        self.model = model
        self.evaluates = bool(role["eval"])
        self.get_inputs = _function(module, "get_inputs")
        set_seed(_SEED_OF_LOOK)
        made = _called(_function(module, "get_init_inputs"))
        if not isinstance(made, list | tuple | dict):
            raise Unusable("bad-problem", f"get_init_inputs() returns a {type(made).__name__}, not a list")
        self.init = made
        self.init_text = _init_text(made)

    def describe(self, role: Message) -> Message:
        """Everything but values: inputs, parameters and buffers, outputs. Raises Unusable."""
        most = int(role["most_elements"])
        set_seed(_SEED_OF_LOOK)
        try:
            # Constructors may make and drop some.
            with SizeGuard(2 * most):
                inputs = self._inputs()
                model = self._built(_SEED_OF_LOOK)
        except TooManyElements as error:
            raise _too_large(f"at least {error.elements:,}", most) from None
        state = model.state_dict()
        elements = _elements([*inputs, *state.values()])
        if elements > most:
            raise _too_large(f"{elements:,}", most)
        names = _names_of(model, inputs)
        returned, flops = _looked_at(model, copy.deepcopy(inputs))
        outputs = flatten(returned)
        called = ["out"] if len(outputs) == 1 else [f"out{at}" for at in range(1, len(outputs) + 1)]
        for value in outputs:
            if type(value) is not torch.Tensor:
                told = f"{_name(self.model)} returns a {type(value).__name__}; tensors can be compared"
                raise Unusable("bad-problem", told)
        return {
            "inputs": [_described(name, value) for name, value in zip(names, inputs, strict=True)],
            "state": [_described(name, value) for name, value in state.items()],
            "outputs": [_described(name, value) for name, value in zip(called, outputs, strict=True)],
            "init": self.init_text,
            "flops": flops,
            "has_constant_parameters": bool(constant_parameters(model)),
        }

    def __call__(self, *, widened: bool = False, **arguments: Any) -> Any:
        """Draw values, or say what is right for those that were drawn."""
        if "draw" in arguments:
            return self._draw(arguments["draw"])
        model = self._built(arguments["weights_seed"])
        if widened:
            model = model.double()
        # A module may write to its inputs and its buffers; those of the case stay as they are.
        inputs = [
            value.clone() if isinstance(value, torch.Tensor) else value
            for value in with_prefix(arguments, INPUT).values()
        ]
        own = model.state_dict()
        for name, values in with_prefix(arguments, STATE).items():
            copy_state(own[name], values)
        before = place.generator_state()
        with torch.no_grad(), in_float64() if widened else contextlib.nullcontext():
            returned = model(*inputs)
        if not torch.equal(before, place.generator_state()):
            raise Unusable(
                "bad-problem",
                f"{_name(self.model)}.forward draws random numbers (dropout in train mode does), so no "
                "kernel can be held against it; write `eval=true` into the comment if evaluation is meant",
            )
        return returned

    def _draw(self, seeds: Message) -> list[torch.Tensor]:
        """Inputs that are tensors, then parameters and buffers."""
        model = self._built(seeds["weights_seed"])
        if seeds["random_affine"]:
            randomise_constants(model, seeds["weights_seed"])
        state = list(model.state_dict().values())
        set_seed(seeds["inputs_seed"])
        drawn = [value for value in self._inputs() if isinstance(value, torch.Tensor)]
        return [_placed(value.detach()) for value in drawn + state]

    def _inputs(self) -> list[Any]:
        values = _called(self.get_inputs)
        if not isinstance(values, list | tuple):
            kind = type(values).__name__
            raise Unusable("bad-problem", f"get_inputs() returns a {kind}, not a list of tensors and numbers")
        for at, value in enumerate(values):
            is_plain = type(value) is torch.Tensor and value.layout == torch.strided
            if not is_plain and not (value is None or type(value) in (bool, int, float)):
                kind = type(value).__name__
                raise Unusable(
                    "bad-problem",
                    f"get_inputs() returns a {kind} at position {at}; tensors and numbers can be judged",
                )
        return [_placed(value) for value in values]

    def _built(self, seed: int) -> torch.nn.Module:
        set_seed(seed)
        init = copy.deepcopy(self.init)
        made = self.model(**init) if isinstance(init, dict) else self.model(*init)
        if not isinstance(made, torch.nn.Module):
            raise Unusable("bad-problem", f"{_name(self.model)} is no torch.nn.Module")
        if place.is_gpu():
            # Its constructor drew on the CPU, as it does without a GPU.
            made = made.to(place.current())
        return made.eval() if self.evaluates else made


def _placed(value: Any) -> Any:
    """A tensor on the GPU, if there is one; without, whatever it was."""
    return value.to(place.current()) if place.is_gpu() and isinstance(value, torch.Tensor) else value


def _too_large(elements: str, most: int) -> Unusable:
    who = "a check" if place.is_gpu() else "the interpreter on a CPU"
    told = f"inputs and weights have {elements} elements; {who} takes at most {most:,}"
    return Unusable("too-large", told)


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    found = getattr(module, name, None)
    if not callable(found):
        raise Unusable("bad-problem", f"its file has no function `{name}`")
    return found


def _called(function: Callable[..., Any]) -> Any:
    try:
        required = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ]
    except (TypeError, ValueError):
        required = []
    if required:
        raise Unusable(
            "bad-problem", f"{_name(function)} needs {', '.join(required)}; it is called without arguments"
        )
    return function()


def _names_of(model: torch.nn.Module, inputs: list[Any]) -> list[str]:
    """The names of the parameters of `forward` that take the inputs."""
    try:
        bound = inspect.signature(model.forward).bind(*inputs)
    except TypeError as error:
        name = _name(type(model))
        told = f"get_inputs() returns {len(inputs)} values, which {name}.forward does not take: {error}"
        raise Unusable("bad-problem", told) from None
    names: list[str] = []
    for name, value in bound.arguments.items():
        is_rest = bound.signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}{at}" for at in range(len(value))] if is_rest else [name]
    return names


def _looked_at(model: torch.nn.Module, inputs: list[Any]) -> tuple[Any, int]:
    """What `forward` returns, and the floating-point operations of its products."""
    with torch.no_grad(), ProductCount() as count:
        returned = model(*inputs)
    return returned, count.flops


def _described(name: str, value: Any) -> Message:
    if not isinstance(value, torch.Tensor):
        return {"name": name, "scalar": value}
    strides = list(value.stride())
    return {
        "name": name,
        "dtype": str(value.dtype).removeprefix("torch."),
        "shape": list(value.shape),
        "strides": strides,
    }


def _init_text(init: Any) -> str:
    try:
        return json.dumps(encoded(init if isinstance(init, dict) else list(init)))
    except TypeError as error:
        raise Unusable(
            "bad-problem",
            f"get_init_inputs() returns a {error}, which cannot be handed to another process; numbers, "
            "strings, lists and tuples can",
        ) from None


def _elements(values: list[Any]) -> int:
    return sum(value.numel() for value in values if isinstance(value, torch.Tensor))


def _name(thing: Any) -> str:
    return str(getattr(thing, "__name__", thing))
