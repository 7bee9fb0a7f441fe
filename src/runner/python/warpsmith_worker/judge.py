"""The judge's process: makes inputs, computes references, compares memory. Runs no user code.

It answers with measurements; what they mean is decided by the server.
"""

import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, repeat
from typing import Any, Literal

import torch

from . import ceilings, compare, foreign, inputs, integers, memory, poison, taken
from .channel import Channel, Message
from .compare import Tolerance, Truth
from .dtypes import ElementType, UnsupportedDtype, by_name
from .errors import describe
from .event_clock import NoGpu
from .reference import Reference, ReferenceFailed, check_shapes, coarsen

_OTHER_SEED = 0x9E3779B97F4A7C15
# Elements that must be compared before an impostor that fits them all says something of a tolerance.
_TELLING_ELEMENTS = 16
_PERTURBATION = 2.0**-23
# In one draw, roundings may cancel by luck.
_PERTURBATIONS = 6
# There and back.
_ORDERS = 2
_LONGEST_FAULT = 4096


class Refused(Exception):
    """A request that cannot be served; `code` goes into the `failed` answer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class SharedTensor:
    """One input or output whose memory a candidate maps as well."""

    key: str
    name: str
    element: ElementType
    shape: list[int]
    strides: list[int]
    descriptor: int | None
    """None when it has no bytes."""
    shared: torch.Tensor | None
    """The storage as the candidate sees it (uint8); None when it is not looked at."""
    private: torch.Tensor | None = None
    """What the judge put there (uint8); of inputs only."""
    offset: int = 0
    """In elements, from the beginning of the storage."""

    @property
    def storage_bytes(self) -> int:
        return memory.storage_elements(self.shape, self.strides, self.offset) * self.element.itemsize

    def view(self, storage: torch.Tensor | None) -> torch.Tensor:
        """The tensor over one of its storages."""
        if self.descriptor is None:
            return memory.empty_view(self.element.torch, self.shape, self.strides)
        if storage is None:
            raise Refused("not-comparable", f"{self.name} was left untouched")
        return memory.view_storage(storage, self.element.torch, self.shape, self.strides, self.offset)

    @property
    def is_changed(self) -> bool:
        """Whether the candidate sees other bytes than the judge put there."""
        return (
            self.shared is not None
            and self.private is not None
            and not torch.equal(self.shared, self.private)
        )

    def record(self) -> Message:
        """What the supervisor and a candidate may know about it."""
        return {
            "key": self.key,
            "name": self.name,
            "dtype": self.element.name,
            "shape": self.shape,
            "strides": self.strides,
            "offset": self.offset,
            "storage_bytes": self.storage_bytes,
            "has_memory": self.descriptor is not None,
        }


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
    truths: list[Truth] | None = None
    nulls: dict[int | Literal["coarse"], list[torch.Tensor]] = field(default_factory=dict)
    first_outputs: list[torch.Tensor] | None = None
    """Bytes of the outputs when `repeat` was asked for the first time (uint8)."""

    def tensors(self) -> list[SharedTensor]:
        return [item for item in self.inputs if isinstance(item, SharedTensor)]

    def arguments(self) -> list[Any]:
        """Inputs for a reference, from the judge's own copies."""
        return [item.view(item.private) if isinstance(item, SharedTensor) else item for item in self.inputs]

    def close_descriptors(self) -> None:
        """The supervisor has its own; mappings stay."""
        for item in [*self.tensors(), *self.outputs]:
            if item.descriptor is not None:
                os.close(item.descriptor)


def warm_up() -> None:
    """Run once what the first case would otherwise pay for. Called before the fork, on tiny tensors."""
    element = by_name("float32")
    values = torch.empty(2, 3)
    inputs.fill_tensor(values, {"normal": {"mean": 0, "std": 1}}, 0, 0)
    reference = Reference(
        "warm-up", "import torch\ndef run(x):\n    return torch.softmax(x.float(), -1)", None
    )
    truth = Truth(reference.in_float64([values])[0], reference.in_dtype([values])[0])
    compare.measure(values, truth, element, Tolerance(1, 1, 1, 1), written_only=False)


def serve(sock: socket.socket) -> None:
    """Answer the supervisor until it is gone."""
    channel = Channel(sock, blocking=True)
    judge = Judge()
    while (received := channel.receive()) is not None:
        request, _descriptors = received
        answer, descriptors = judge.answer(request)
        channel.send(answer, descriptors)
        judge.close_sent()


class Judge:
    """Holds definitions and cases."""

    def __init__(self) -> None:
        self.references: dict[str, Reference] = {}
        self.cases: dict[str, Case] = {}
        self._sent: Case | None = None

    def answer(self, request: Message) -> tuple[Message, list[int]]:
        """One answer with its descriptors; never raises."""
        handlers = {
            "define": self._define,
            "prepare": self._prepare,
            "derive": self._derive,
            "take": self._take,
            "retake": self._retake,
            "rearm": self._rearm,
            "redraw": self._redraw,
            "repeat": self._repeat,
            "compare": self._compare,
            "release": self._release,
            "ceilings": self._ceilings,
        }
        descriptors: list[int] = []
        try:
            answer, descriptors = handlers[request["op"]](request)
        except Refused as error:
            answer = _failed(error.code, str(error))
        except ReferenceFailed as error:
            answer = _failed("reference-failed", str(error))
        except inputs.BadFill as error:
            answer = _failed("bad-request", str(error))
        except UnsupportedDtype as error:
            answer = _failed("unsupported-dtype", str(error))
        except (MemoryError, OSError) as error:
            answer = _failed("out-of-memory", f"no memory for the case: {error}")
        except Exception as error:
            if isinstance(error, RuntimeError) and "can't allocate memory" in str(error):
                answer = _failed("out-of-memory", f"no memory for the case: {error}")
            else:
                answer = _failed("judge-failed", traceback.format_exc()[-_LONGEST_FAULT:])
        return answer, descriptors

    def close_sent(self) -> None:
        """Close the descriptors of the case that was just handed over."""
        if self._sent is not None:
            self._sent.close_descriptors()
            self._sent = None

    def _ceilings(self, request: Message) -> tuple[Message, list[int]]:
        try:
            return {"done": ceilings.measure(request["wall_s"])}, []
        except NoGpu as error:
            raise Refused("no-gpu", str(error)) from error

    def _define(self, request: Message) -> tuple[Message, list[int]]:
        name = request["definition"]
        # An older text under the same name must not survive a newer one that does not compile.
        self.references.pop(name, None)
        try:
            reference = Reference(
                name, request["reference"], request["reference_f64"], is_named=request["is_named"]
            )
        except BaseException as error:
            return {"raised": describe(error)}, []
        self.references[name] = reference
        return {"done": {}}, []

    def _prepare(self, request: Message) -> tuple[Message, list[int]]:
        reference = self._reference_of(request)
        specs, outputs = request["inputs"], request["outputs"]
        if request.get("infer_outputs") and reference is not None:
            outputs = foreign.inferred_outputs(reference, specs)
        values_matter = not any(inputs.is_untouched(spec.get("fill")) for spec in specs)
        case = Case(reference, request["seed"], specs, [], [], values_matter)
        return self._add_case(
            request["case"], case, outputs, lambda: map(self._make_input, specs, repeat(case), count())
        )

    def _derive(self, request: Message) -> tuple[Message, list[int]]:
        """Another case for a reference that is not ours: the same inputs, widened, changed, or drawn anew."""
        origin = self.cases.get(request["of"])
        if origin is None or not origin.values_matter:
            raise Refused("unknown-case", f"case {request['of']} was not prepared with values")
        arguments = self._changed_arguments(origin, request["change"], request.get("draw", 0))
        if arguments is None:
            return {"done": {"possible": False, "inputs": [], "outputs": []}}, []
        widened = request["change"] != "same"
        case = Case(None, origin.seed, origin.specs, [], [], True)
        outputs = [foreign.widened(spec) if widened else spec for spec in request["outputs"]]

        def make() -> Iterator[SharedTensor | Any]:
            for position, (item, value) in enumerate(zip(origin.inputs, arguments, strict=True)):
                is_tensor = isinstance(item, SharedTensor)
                yield _shared_copy(position, item, value, widened=widened) if is_tensor else value

        return self._add_case(request["case"], case, outputs, make)

    def _take(self, request: Message) -> tuple[Message, list[int]]:
        """A case whose inputs hold what a reference's process left in the outputs of another one."""
        drawn = taken.values(self._case({"case": request["of"]}))
        case = Case(None, 0, request["inputs"], [], [], True)
        make = partial(taken.inputs_of, request["inputs"], drawn, _make_shared)
        return self._add_case(request["case"], case, request["outputs"], make)

    def _retake(self, request: Message) -> tuple[Message, list[int]]:
        """Other drawn values in the same memory, and poison in the outputs again."""
        case = self._case(request)
        case.truths, case.nulls = None, {}
        taken.refill(case.tensors(), taken.values(self._case({"case": request["of"]})))
        return self._rearm(request)

    def _reference_of(self, request: Message) -> Reference | None:
        if request["definition"] is None:
            return None
        reference = self.references.get(request["definition"])
        if reference is None:
            raise Refused("unknown-definition", f"{request['definition']} was not defined")
        return reference

    def _changed_arguments(self, origin: Case, change: str, draw: int) -> list[Any] | None:
        if change in ("same", "widened"):
            return origin.arguments()
        if change == "perturbed":
            return _perturbed_arguments(origin, draw)
        return _other_arguments(origin, 0) if change == "other-seed" else _coarse_arguments(origin)

    def _add_case(
        self,
        name: str,
        case: Case,
        outputs: list[Message],
        make_inputs: Callable[[], Iterable[SharedTensor | Any]],
    ) -> tuple[Message, list[int]]:
        try:
            case.inputs.extend(make_inputs())
            for position, spec in enumerate(outputs if case.values_matter else ()):
                case.outputs.append(self._make_output(spec, position))
        except BaseException:
            case.close_descriptors()
            raise
        self.cases[name] = self._sent = case
        done = {
            "possible": True,
            "inputs": [_input_record(spec, item) for spec, item in zip(case.specs, case.inputs, strict=True)],
            "outputs": [item.record() for item in case.outputs]
            if case.values_matter
            else [_unshared_output(spec) for spec in outputs],
        }
        items = [*case.tensors(), *case.outputs]
        return {"done": done}, [item.descriptor for item in items if item.descriptor is not None]

    def _make_input(self, spec: Message, case: Case, position: int) -> Any:
        if spec["kind"] == "scalar":
            return spec["value"]
        item = _make_shared(f"input-{position}", spec, spec["strides"], mapped=case.values_matter)
        if item.shared is not None:
            tensor = item.view(item.shared)
            if tensor.numel() * item.element.itemsize < item.storage_bytes:
                # Padding between rows or before the first: whoever reads it reads poison.
                poison.fill_storage(tensor)
            inputs.fill_tensor(tensor, spec["fill"], case.seed, position)
            item.private = item.shared.clone()
        return item

    def _make_output(self, spec: Message, position: int) -> SharedTensor:
        strides = memory.contiguous_strides(spec["shape"])
        item = _make_shared(f"output-{position}", spec, strides, mapped=True)
        poison.fill_storage(item.view(item.shared))
        return item

    def _rearm(self, request: Message) -> tuple[Message, list[int]]:
        """Put inputs and poison back after a run."""
        case = self._case(request)
        for item in case.tensors():
            if item.shared is not None and item.private is not None:
                item.shared.copy_(item.private)
        for output in case.outputs:
            poison.fill_storage(output.view(output.shared))
        return {"done": {}}, []

    def _redraw(self, request: Message) -> tuple[Message, list[int]]:
        """Other values in the same memory, and poison in the outputs again."""
        case = self._case(request)
        if not case.values_matter:
            raise Refused("not-comparable", "the inputs of this case were left untouched")
        case.seed, case.truths, case.nulls = request["seed"], None, {}
        for position, (spec, item) in enumerate(zip(case.specs, case.inputs, strict=True)):
            if isinstance(item, SharedTensor) and item.shared is not None and item.private is not None:
                inputs.fill_tensor(item.view(item.private), spec["fill"], case.seed, position)
        return self._rearm(request)

    def _repeat(self, request: Message) -> tuple[Message, list[int]]:
        """Compare the outputs bit by bit with those of the first time this was asked."""
        case = self._case(request)
        storages = [
            torch.empty(0, dtype=torch.uint8) if output.shared is None else output.shared
            for output in case.outputs
        ]
        if case.first_outputs is None:
            case.first_outputs = [storage.clone() for storage in storages]
        found = [
            compare.differing(storage, first, output.element, output.shape, output.name)
            for storage, first, output in zip(storages, case.first_outputs, case.outputs, strict=True)
        ]
        return {"done": {"outputs": found}}, []

    def _release(self, request: Message) -> tuple[Message, list[int]]:
        self.cases.pop(request["case"], None)
        return {"done": {}}, []

    def _compare(self, request: Message) -> tuple[Message, list[int]]:
        case = self._case(request)
        if not case.values_matter:
            raise Refused("not-comparable", "the inputs of this case were left untouched")
        exact_if_agree = bool(request["exact_if_agree"])
        tolerances = [_tolerance(item) for item in request["tolerances"]]
        if len(tolerances) != len(case.outputs):
            raise Refused("bad-request", f"{len(tolerances)} tolerances for {len(case.outputs)} outputs")
        changed = [item.name for item in case.tensors() if item.is_changed]
        if request.get("truth") is not None:
            self._take_truths(case, request["truth"])
        truths = _truths(case, any(tolerance.condition_factor for tolerance in tolerances))
        for output, truth in zip(case.outputs, truths, strict=True):
            if not output.element.is_float:
                integers.check(output.name, truth)
        outputs = []
        for at, (output, truth, tolerance) in enumerate(zip(case.outputs, truths, tolerances, strict=True)):
            errors = compare.measure(
                output.view(output.shared),
                truth,
                output.element,
                tolerance,
                request["written_only"],
                exact_if_agree,
            )
            nulls = _null_candidates(case, at, truth, tolerance) if request["null_candidates"] else []
            outputs.append({"name": output.name, **errors, "null_candidates": nulls})
        return {"done": {"outputs": outputs, "inputs_changed": changed}}, []

    def _take_truths(self, case: Case, truth: Message) -> None:
        """What a reference that is not ours left in the memory of its own cases."""
        perturbed = [self._case({"case": of}) for of in truth["perturbed"]]
        made = {
            name: self._case({"case": of})
            for name, of in truth.items()
            if name != "perturbed" and of is not None
        }
        case.truths = foreign.truths(made["float64"], made["in_dtype"], made.get("again"), perturbed)
        for name, key in (("other_seed", 0), ("coarse_inputs", "coarse")):
            if name in made:
                case.nulls[key] = foreign.values(made[name])

    def _case(self, request: Message) -> Case:
        case = self.cases.get(request["case"])
        if case is None:
            raise Refused("unknown-case", f"case {request['case']} was not prepared")
        return case


def _make_shared(key: str, spec: Message, strides: list[int], *, mapped: bool) -> SharedTensor:
    element = by_name(spec["dtype"])
    if len(strides) != len(spec["shape"]):
        raise Refused("bad-request", f"{spec['name']}: shape {spec['shape']} with strides {strides}")
    offset = spec.get("offset", 0)
    item = SharedTensor(key, spec["name"], element, spec["shape"], strides, None, None, offset=offset)
    if item.storage_bytes:
        item.descriptor = memory.create_file(key, item.storage_bytes)
        try:
            item.shared = memory.map_storage(item.descriptor, item.storage_bytes) if mapped else None
        except (OSError, MemoryError):
            os.close(item.descriptor)
            raise
    return item


def _shared_copy(position: int, item: SharedTensor, value: torch.Tensor, *, widened: bool) -> SharedTensor:
    """A tensor of its own with these values, contiguous, in float64 when it is to be widened."""
    dtype = "float64" if widened and item.element.is_float else item.element.name
    spec = {"name": item.name, "dtype": dtype, "shape": item.shape}
    strides = memory.contiguous_strides(item.shape)
    copy = _make_shared(f"input-{position}", spec, strides, mapped=True)
    if copy.shared is not None:
        copy.view(copy.shared).copy_(value)
        copy.private = copy.shared.clone()
    return copy


def _input_record(spec: Message, item: SharedTensor | Any) -> Message:
    if isinstance(item, SharedTensor):
        return item.record()
    return {"name": spec["name"], "scalar": item}


def _unshared_output(spec: Message) -> Message:
    return {"name": spec["name"], "dtype": spec["dtype"], "shape": spec["shape"]}


def _truths(case: Case, with_perturbed: bool) -> list[Truth]:
    """`with_perturbed` counts the first time only."""
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
        perturbed = [_expected(case, _perturbed_arguments(case, draw)) for draw in draws]
        case.truths = [
            Truth(values, narrow, tuple(outputs[at] for outputs in perturbed))
            for at, (values, narrow) in enumerate(zip(expected, in_dtype, strict=True))
        ]
    return case.truths


def _perturbations(case: Case) -> int:
    """How many draws; two more where integers may be places of equal values."""
    with_orders = any(integers.may_be_indices(output.element) for output in case.outputs)
    return _PERTURBATIONS + (_ORDERS if with_orders else 0)


def _perturbed_arguments(case: Case, draw: int) -> list[Any]:
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
    return values.to(dtype).contiguous()


def _null_candidates(case: Case, at: int, truth: Truth, tolerance: Tolerance) -> list[Message]:
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
        arguments = _coarse_arguments(case) if inputs_of == "coarse" else _other_arguments(case, inputs_of)
        case.nulls[inputs_of] = [] if arguments is None else _expected(case, arguments)
    return case.nulls[inputs_of]


def _other_arguments(case: Case, draw: int) -> list[Any] | None:
    """Arguments drawn from another seed, one for each `draw`; None when nothing is drawn."""
    if not case.tensors():
        return None
    seed = (case.seed + (draw + 1) * _OTHER_SEED) % (1 << 64)
    drawn = []
    for position, (spec, item) in enumerate(zip(case.specs, case.inputs, strict=True)):
        if isinstance(item, SharedTensor):
            tensor = torch.empty(item.shape, dtype=item.element.torch)
            inputs.fill_tensor(tensor, spec["fill"], seed, position)
            drawn.append(tensor)
        else:
            drawn.append(item)
    return drawn


def _coarse_arguments(case: Case) -> list[Any] | None:
    """Arguments rounded to a coarser mantissa; None without a float tensor."""
    if not any(item.element.is_float for item in case.tensors()):
        return None
    return [
        coarsen(value, item.element) if isinstance(item, SharedTensor) and item.element.is_float else value
        for item, value in zip(case.inputs, case.arguments(), strict=True)
    ]


def _tolerance(item: Message) -> Tolerance:
    return Tolerance(**{name: float(item[name]) for name in Tolerance.__annotations__})


def _failed(code: str, message: str) -> Message:
    print(f"judge: {code}: {message}", file=sys.stderr, flush=True)
    return {"failed": {"code": code, "message": message}}
