"""A prepared case of the judge, and what is right for it: references, roundings of the inputs, impostors."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from . import compare, foreign, inputs, integers, place
from .channel import Message
from .compare import Tolerance, Truth
from .reference import Reference, ReferenceFailed, check_shapes, coarsen
from .shared import CaseMemory, Files, Refused, SharedTensor

_OTHER_SEED = 0x9E3779B97F4A7C15
# Elements that must be compared before an impostor that fits them all says something of a tolerance.
_TELLING_ELEMENTS = 16
_PERTURBATION = 2.0**-23
# In one draw, roundings may cancel by luck.
_PERTURBATIONS = 6
# There and back.
_ORDERS = 2


@dataclass
class Case:
    """A prepared case. Inputs are tensors or plain scalars, in the Definition's order."""

    reference: Reference | None
    """None when what is right is computed by a process of its own."""
    seed: int
    specs: list[Message]
    inputs: list[SharedTensor | Any]
    outputs: list[SharedTensor]
    values_matter: bool
    is_near: bool = False
    """On a GPU: what is compared, and what is right, is computed on the CPU."""
    memory: CaseMemory = field(default_factory=Files)
    written_outside: list[str] = field(default_factory=list)
    """Tensors around which somebody wrote, until it is told."""
    truths: list[Truth] | None = None
    nulls: dict[int | Literal["coarse"], list[torch.Tensor]] = field(default_factory=dict)
    first_outputs: list[torch.Tensor] | None = None
    """Bytes of the outputs when `repeat` was asked for the first time (uint8)."""

    def tensors(self) -> list[SharedTensor]:
        return [item for item in self.inputs if isinstance(item, SharedTensor)]

    def arguments(self) -> list[Any]:
        """Inputs for a reference, from the judge's own copies."""
        return [item.view(item.private) if isinstance(item, SharedTensor) else item for item in self.inputs]

    def send(self) -> None:
        """Let a candidate see what the judge wrote."""
        for item in [*self.tensors(), *self.outputs]:
            item.send()

    def fetch(self) -> None:
        """Look at what a candidate left."""
        for item in [*self.tensors(), *self.outputs]:
            item.fetch()

    def close_descriptors(self) -> None:
        """The supervisor has its own; mappings stay."""
        for item in [*self.tensors(), *self.outputs]:
            if item.descriptor is not None:
                os.close(item.descriptor)


def truths(case: Case, with_perturbed: bool) -> list[Truth]:
    """What is right for each output; `with_perturbed` counts the first time only."""
    if case.truths is None:
        if case.reference is None:
            raise Refused("bad-request", "nobody computed what is right")
        expected = _expected(case, case.arguments())
        in_dtype = case.reference.in_dtype(case.arguments())
        check_shapes(case.reference.definition, in_dtype, case.outputs)
        in_dtype = [
            _as_kind(values, output, output.element.torch)
            for values, output in zip(in_dtype, case.outputs, strict=True)
        ]
        if case.reference.is_named:
            for output, values, narrow in zip(case.outputs, expected, in_dtype, strict=True):
                if output.element.is_float:
                    foreign.check_rounded(output, values, narrow.to(torch.float64))
        draws = range(_perturbations(case) if with_perturbed else 0)
        perturbed = [_expected(case, perturbed_arguments(case, draw)) for draw in draws]
        case.truths = [
            Truth(values, narrow, tuple(outputs[at] for outputs in perturbed))
            for at, (values, narrow) in enumerate(zip(expected, in_dtype, strict=True))
        ]
    return case.truths


def _perturbations(case: Case) -> int:
    """How many draws; two more where integers may be places of equal values."""
    with_orders = any(integers.may_be_indices(output.element) for output in case.outputs)
    return _PERTURBATIONS + (_ORDERS if with_orders else 0)


def perturbed_arguments(case: Case, draw: int) -> list[Any]:
    """Arguments of which each float element is off by one rounding to float32, up or down.

    The last two draws move every element differently, and in opposite directions.
    """

    def moved(value: torch.Tensor, position: int) -> torch.Tensor:
        if draw < _PERTURBATIONS:
            return inputs.perturbed(value, _PERTURBATION, case.seed, position, draw)
        back = draw > _PERTURBATIONS
        return integers.reordered(value, _PERTURBATION, case.seed, position, back=back)

    return [
        moved(value, position) if isinstance(item, SharedTensor) and item.element.is_float else value
        for position, (item, value) in enumerate(zip(case.inputs, case.arguments(), strict=True))
    ]


def _expected(case: Case, arguments: list[Any]) -> list[torch.Tensor]:
    if case.reference is None:
        return []
    outputs = case.reference.in_float64(arguments)
    check_shapes(case.reference.definition, outputs, case.outputs)
    return [
        _as_kind(values, output, torch.float64 if output.element.is_float else torch.int64)
        for values, output in zip(outputs, case.outputs, strict=True)
    ]


def _as_kind(values: torch.Tensor, output: SharedTensor, dtype: torch.dtype) -> torch.Tensor:
    if values.dtype.is_complex or (values.dtype.is_floating_point and not output.element.is_float):
        raise ReferenceFailed(
            f"the reference gives {values.dtype} for `{output.name}`, which is {output.element.name}"
        )
    return values.to(place.current(), dtype).contiguous()


def null_candidates(case: Case, at: int, truth: Truth, tolerance: Tolerance) -> list[Message]:
    """How many elements of each impostor the tolerance of output `at` refuses; 0 makes it worthless."""
    element, elements = case.outputs[at].element, truth.expected.numel()
    small = elements < _TELLING_ELEMENTS
    impostors: dict[str, list[torch.Tensor | float | int]] = {"zeros": [0]}
    if elements > 1:
        # Of a single element the mean is the right answer.
        impostors["mean"] = [compare.mean_value(truth, element)]
    # One number may be close to another by chance; many are not.
    draws = -(-_TELLING_ELEMENTS // max(elements, 1)) if small else 1
    others = [_nulls(case, draw) for draw in range(draws)]
    others = [other for other in others if other]
    impostors["other-seed"] = [other[at] for other in others] if len(others) == draws else []
    # Of few numbers the rounding to a narrow dtype hides more than the inputs' lost bits do.
    if not small or element.itemsize >= torch.float32.itemsize:
        coarse = _nulls(case, "coarse")
        impostors["coarse-inputs"] = [coarse[at]] if coarse else []
    return [
        {
            "name": name,
            "violations": sum(compare.count_violations(each, truth, element, tolerance) for each in all_of),
        }
        for name, all_of in impostors.items()
        if all_of
    ]


def _nulls(case: Case, inputs_of: int | Literal["coarse"]) -> list[torch.Tensor]:
    """The float64 outputs on another draw of the inputs, by its number, or on coarse ones.

    Empty when there are no such inputs.
    """
    if inputs_of not in case.nulls:
        if case.reference is None:
            # Only what its own process computed is known.
            return []
        arguments = coarse_arguments(case) if inputs_of == "coarse" else other_arguments(case, inputs_of)
        case.nulls[inputs_of] = [] if arguments is None else _expected(case, arguments)
    return case.nulls[inputs_of]


def other_arguments(case: Case, draw: int) -> list[Any] | None:
    """Arguments drawn from another seed, one for each `draw`; None when nothing is drawn."""
    if not case.tensors():
        return None
    seed = (case.seed + (draw + 1) * _OTHER_SEED) % (1 << 64)
    drawn = []
    for position, (spec, item) in enumerate(zip(case.specs, case.inputs, strict=True)):
        if isinstance(item, SharedTensor):
            tensor = torch.empty(item.shape, dtype=item.element.torch, device=place.current())
            inputs.fill_tensor(tensor, spec["fill"], seed, position)
            drawn.append(tensor)
        else:
            drawn.append(item)
    return drawn


def coarse_arguments(case: Case) -> list[Any] | None:
    """Arguments rounded to a coarser mantissa; None without a float tensor."""
    if not any(item.element.is_float for item in case.tensors()):
        return None
    return [
        coarsen(value, item.element) if isinstance(item, SharedTensor) and item.element.is_float else value
        for item, value in zip(case.inputs, case.arguments(), strict=True)
    ]
