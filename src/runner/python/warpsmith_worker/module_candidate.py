"""The judged side of a KernelBench problem: `ModelNew`, made and called like the reference."""

import inspect
import json
from typing import Any

import torch

from .channel import Message
from .module_role import INPUT, STATE, Unusable, copy_state, decoded, set_seed, with_prefix


class ModuleCandidate:
    """The judged class. Whatever its file says of inputs is never asked."""

    def __init__(self, model: Any, role: Message) -> None:
        self.model = model
        self.name = str(getattr(model, "__name__", model))
        self.evaluates = bool(role["eval"])
        self.made_of: tuple[Any, ...] | None = None
        self.made: torch.nn.Module | None = None

    def is_made_for(self, arguments: dict[str, Any]) -> bool:
        """Whether the next call is one more call of the same object."""
        return self.made_of == _key(arguments)

    def make(self, arguments: dict[str, Any]) -> None:
        """A new object with the weights of the case. Raises Unusable."""
        self.made, self.made_of = None, None
        init = decoded(json.loads(arguments["init"]))
        positional, named = ([], init) if isinstance(init, dict) else (init, {})
        self._check_signature(positional, named)
        # As KernelBench does it: both constructors draw from the same seed.
        set_seed(arguments["weights_seed"])
        try:
            made = self.model(*positional, **named)
            if isinstance(made, torch.nn.Module):
                made = made.cuda()
        except Exception as error:
            told = f"{self.name}({_listed(init)}) raised {type(error).__name__}: {error}"
            raise Unusable("not-built", told) from error
        if not isinstance(made, torch.nn.Module):
            raise Unusable("bad-signature", f"`{self.name}` is no torch.nn.Module")
        if self.evaluates:
            made.eval()
        _check_forward(made, self.name, len(with_prefix(arguments, INPUT)))
        if arguments["random_affine"]:
            _refuse_own_tensors(made, self.name)
        share_weights(made, with_prefix(arguments, STATE), self.name)
        self.made, self.made_of = made, _key(arguments)

    def __call__(self, **arguments: Any) -> Any:
        """`forward` on the inputs of the case."""
        if self.made is None:
            raise Unusable("not-built", f"`{self.name}` was not made")
        with torch.no_grad():
            return self.made(*with_prefix(arguments, INPUT).values())

    def _check_signature(self, positional: list[Any], named: dict[str, Any]) -> None:
        try:
            signature = inspect.signature(self.model)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*positional, **named)
        except TypeError as error:
            init = named or positional
            raise Unusable(
                "bad-signature",
                f"`{self.name}` is made with what get_init_inputs() gives, ({_listed(init)}), and does not "
                f"take it: {error}; give `__init__` the parameters of the reference",
            ) from None


def _key(arguments: dict[str, Any]) -> tuple[Any, ...]:
    return arguments["init"], arguments["weights_seed"]


def _listed(init: Any) -> str:
    values = (
        [f"{name}={value!r}" for name, value in init.items()] if isinstance(init, dict) else map(repr, init)
    )
    return ", ".join(values)[:200]


def _check_forward(made: torch.nn.Module, name: str, count: int) -> None:
    try:
        signature = inspect.signature(made.forward)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        raise Unusable(
            "bad-signature",
            f"`{name}.forward` gets the {count} values of get_inputs() by position and does not take them: "
            f"{error}",
        ) from None


def _refuse_own_tensors(made: torch.nn.Module, name: str) -> None:
    """What the constructor may have computed from the first weights does not follow others."""
    held = []
    for path, module in made.named_modules():
        own = {key: value for key, value in vars(module).items() if _holds_tensor(value)}
        names = [*own, *module._non_persistent_buffers_set]
        held += [f"{path}.{key}" if path else key for key in names if key not in ("_parameters", "_buffers")]
    if held:
        raise Unusable(
            "unmatched-weights",
            f"`{name}` keeps tensors that are not in its state_dict (`{'`, `'.join(held[:6])}`); if "
            "they were computed from the weights, they do not follow others",
        )


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, dict):
        return any(isinstance(item, torch.Tensor) for item in value.values())
    items = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(item, torch.Tensor) for item in items)


def share_weights(made: torch.nn.Module, state: dict[str, torch.Tensor], name: str) -> None:
    """Give the object the reference's parameters and buffers: by name, else those that the seed made equal.

    Raises Unusable when some have no partner: then nobody knows what the object computes with.
    """
    own = made.state_dict()
    by_name = [key for key in state if key in own and own[key].shape == state[key].shape]
    for key in by_name:
        copy_state(own[key], state[key])
    waiting = [key for key in state if key not in by_name]
    free = [key for key in own if key not in by_name]
    for key in list(waiting):
        partner = next((other for other in free if _equal(own[other], state[key])), None)
        if partner is not None:
            waiting.remove(key)
            free.remove(partner)
    if waiting or free:
        raise Unusable("unmatched-weights", _unmatched(name, own, state, waiting, free))


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and torch.equal(one, other)


def _unmatched(
    name: str,
    own: dict[str, torch.Tensor],
    state: dict[str, torch.Tensor],
    waiting: list[str],
    free: list[str],
) -> str:
    def listed(names: list[str], tensors: dict[str, torch.Tensor]) -> str:
        shown = [f"`{key}` {list(tensors[key].shape)}" for key in names[:6]]
        return ", ".join(shown) + (f" and {len(names) - 6} more" if len(names) > 6 else "")

    parts = []
    if waiting:
        parts.append(f"the reference has {listed(waiting, state)}, which `{name}` has not")
    if free:
        parts.append(f"`{name}` has {listed(free, own)}, which the reference has not")
    return (
        f"the weights cannot be shared: {'; '.join(parts)}. Neither name and shape nor the values drawn from "
        f"the same seed agree: give the parameters of `{name}` the names and shapes of the reference's, and "
        "make other tensors plain attributes or buffers with `persistent=False`"
    )
