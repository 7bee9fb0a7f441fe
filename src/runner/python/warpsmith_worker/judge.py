"""The judge's process: makes inputs, computes references, compares memory. Runs no user code.

It answers with measurements; what they mean is decided by the server.
"""

import math
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count, repeat
from typing import Any

import torch

from . import case_truth, ceilings, compare, foreign, inputs, integers, memory, place, poison, taken
from .case_truth import Case
from .channel import Channel, Message
from .compare import Tolerance, Truth
from .dtypes import UnsupportedDtype, by_name
from .errors import describe
from .event_clock import NoGpu
from .judge_device import JudgeDevice, is_broken, precision
from .reference import Reference, ReferenceFailed
from .shared import MakeShared, Refused, SharedTensor, input_record, storage_bytes

_LONGEST_FAULT = 4096
# Elements of a case's tensors up to which a GPU is not asked what is right: to launch every step of a
# comparison there takes longer than to compute it on a CPU.
_NEAR_ELEMENTS = 1 << 16


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


def serve(sock: socket.socket, device: str | None = None) -> None:
    """Answer the supervisor until it is gone; `device` is the name of the GPU, when there is one."""
    channel = Channel(sock, blocking=True)
    judge = Judge(JudgeDevice(device) if device else None)
    while (received := channel.receive()) is not None:
        request, _descriptors = received
        answer, descriptors = judge.answer(request)
        channel.send(answer, descriptors)
        judge.close_sent()


class Judge:
    """Holds definitions and cases."""

    def __init__(self, device: JudgeDevice | None = None) -> None:
        self.device = device
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
        if self.device is not None:
            if self.device.unusable is not None:
                return self.device.unusable, []
            handlers.update(self.device.handlers())
        return self._answered(handlers, request)

    def _answered(
        self, handlers: dict[str, Callable[..., Any]], request: Message
    ) -> tuple[Message, list[int]]:
        descriptors: list[int] = []
        try:
            answer, descriptors = self._tried(handlers[request["op"]], request)
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
            if place.lacks_memory(error):
                answer = _failed("out-of-memory", f"no memory for the case: {error}")
            else:
                answer = _failed("judge-failed", traceback.format_exc()[-_LONGEST_FAULT:])
                if self.device is not None and is_broken(error):
                    # Nothing can be computed in this context any more.
                    os._exit(1)
        return answer, descriptors

    def _tried(self, handler: Callable[..., Any], request: Message) -> tuple[Message, list[int]]:
        """Once more with all memory that is only kept for later, where a GPU has too little."""
        if self.device is None:
            return handler(request)
        try:
            with place.near(is_near=self._is_near(request)):
                answer = handler(request)
        except Exception as error:
            if not place.lacks_memory(error):
                raise
            answer = None
        if answer is None:
            # Not above: the exception's frames hold tensors.
            self.device.free_memory()
            with place.near(is_near=self._is_near(request)):
                answer = handler(request)
        # Whoever is told may look at the memory at once.
        self.device.driver.synchronize()
        return answer

    def _is_near(self, request: Message) -> bool:
        if request["op"] in ("prepare", "take"):
            return _elements(request["inputs"]) + _elements(request["outputs"]) <= _NEAR_ELEMENTS
        case = self.cases.get(request.get("of" if request["op"] == "derive" else "case", ""))
        return case is not None and case.is_near

    def close_sent(self) -> None:
        """Close the descriptors of the case that was just handed over."""
        if self._sent is not None:
            self._sent.close_descriptors()
            self._sent = None

    def _ceilings(self, request: Message) -> tuple[Message, list[int]]:
        try:
            return {"done": ceilings.measure(request["wall_s"], request["bytes"])}, []
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
        case = Case(reference, request["seed"], specs, [], [], values_matter, self._is_near(request))
        tensors = [spec for spec in specs if spec["kind"] != "scalar"]

        def make(make_shared: MakeShared) -> Iterable[SharedTensor | Any]:
            return map(self._make_input, specs, repeat(case), count(), repeat(make_shared))

        return self._add_case(request["case"], case, outputs, tensors, make)

    def _derive(self, request: Message) -> tuple[Message, list[int]]:
        """Another case for a reference that is not ours: the same inputs, widened, changed, or drawn anew."""
        origin = self.cases.get(request["of"])
        if origin is None or not origin.values_matter:
            raise Refused("unknown-case", f"case {request['of']} was not prepared with values")
        arguments = self._changed_arguments(origin, request["change"], request.get("draw", 0))
        if arguments is None:
            return {"done": {"possible": False, "inputs": [], "outputs": []}}, []
        widened = request["change"] != "same"
        case = Case(None, origin.seed, origin.specs, [], [], True, origin.is_near)
        outputs = [foreign.widened(spec) if widened else spec for spec in request["outputs"]]

        tensors = [_copy_spec(item, widened=widened) for item in origin.tensors()]

        def make(make_shared: MakeShared) -> Iterator[SharedTensor | Any]:
            specs = iter(tensors)
            for position, (item, value) in enumerate(zip(origin.inputs, arguments, strict=True)):
                is_tensor = isinstance(item, SharedTensor)
                yield _shared_copy(position, next(specs), value, make_shared) if is_tensor else value

        return self._add_case(request["case"], case, outputs, tensors, make)

    def _take(self, request: Message) -> tuple[Message, list[int]]:
        """A case whose inputs hold what a reference's process left in the outputs of another one."""
        drawn = taken.values(self._case_that_ran(request["of"]))
        specs = request["inputs"]
        case = Case(None, 0, specs, [], [], True, self._is_near(request))
        tensors = [spec for spec in specs if spec["kind"] != "scalar"]
        make = partial(taken.inputs_of, specs, drawn)
        return self._add_case(request["case"], case, request["outputs"], tensors, make)

    def _retake(self, request: Message) -> tuple[Message, list[int]]:
        """Other drawn values in the same memory, and poison in the outputs again."""
        case = self._case(request)
        case.truths, case.nulls = None, {}
        taken.refill(case.tensors(), taken.values(self._case_that_ran(request["of"])))
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
            return case_truth.perturbed_arguments(origin, draw)
        if change == "other-seed":
            return case_truth.other_arguments(origin, 0)
        return case_truth.coarse_arguments(origin)

    def _add_case(
        self,
        name: str,
        case: Case,
        outputs: list[Message],
        tensors: list[Message],
        make_inputs: Callable[[MakeShared], Iterable[SharedTensor | Any]],
    ) -> tuple[Message, list[int]]:
        """`tensors` says of the inputs that are tensors how large they are."""
        looked_at = outputs if case.values_matter else []
        if self.device is not None:
            case.memory = self.device.case_memory([storage_bytes(spec) for spec in [*tensors, *looked_at]])
        try:
            case.inputs.extend(make_inputs(case.memory.make))
            for position, spec in enumerate(looked_at):
                case.outputs.append(_make_output(spec, position, case.memory.make))
            case.send()
        except BaseException:
            case.close_descriptors()
            case.memory.release()
            raise
        self.cases[name] = self._sent = case
        done = {
            "possible": True,
            "inputs": [input_record(spec, item) for spec, item in zip(case.specs, case.inputs, strict=True)],
            "outputs": [item.record() for item in case.outputs]
            if case.values_matter
            else [_unshared_output(spec) for spec in outputs],
        }
        items = [*case.tensors(), *case.outputs]
        return {"done": done}, [item.descriptor for item in items if item.descriptor is not None]

    def _make_input(self, spec: Message, case: Case, position: int, make_shared: MakeShared) -> Any:
        if spec["kind"] == "scalar":
            return spec["value"]
        item = make_shared(f"input-{position}", spec, spec["strides"], mapped=case.values_matter)
        if item.shared is not None:
            tensor = item.view(item.shared)
            if tensor.numel() * item.element.itemsize < item.storage_bytes:
                # Padding between rows or before the first: whoever reads it reads poison.
                poison.fill_storage(tensor)
            inputs.fill_tensor(tensor, spec["fill"], case.seed, position)
            item.private = item.shared.clone()
        return item

    def _rearm(self, request: Message) -> tuple[Message, list[int]]:
        """Put inputs and poison back after a run."""
        case = self._case(request)
        for item in case.tensors():
            if item.shared is not None and item.private is not None:
                item.shared.copy_(item.private)
        for output in case.outputs:
            poison.fill_storage(output.view(output.shared))
        case.send()
        return {"done": {}}, []

    def _redraw(self, request: Message) -> tuple[Message, list[int]]:
        """Other values in the same memory, and poison in the outputs again."""
        case = self._case(request)
        if not case.values_matter:
            raise Refused("not-comparable", "the inputs of this case were left untouched")
        case.seed, case.truths, case.nulls = request["seed"], None, {}
        for position, (spec, item) in enumerate(zip(case.specs, case.inputs, strict=True)):
            if isinstance(item, SharedTensor) and item.shared is not None and item.private is not None:
                values = item.view(item.private)
                inputs.fill_tensor(values, spec["fill"], case.seed, position)
                if request.get("changed") is not None and item.element.is_float:
                    inputs.change_one(values, spec["fill"], request["changed"], position)
        return self._rearm(request)

    def _repeat(self, request: Message) -> tuple[Message, list[int]]:
        """Compare the outputs bit by bit with those of the first time this was asked."""
        case = self._case_that_ran(request["case"])
        storages = [
            torch.empty(0, dtype=torch.uint8, device=place.current())
            if output.shared is None
            else output.shared
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
        case = self.cases.pop(request["case"], None)
        if case is not None:
            case.memory.release()
        return {"done": {}}, []

    def _compare(self, request: Message) -> tuple[Message, list[int]]:
        with precision(tf32=bool(request.get("tf32"))):
            return self._compared(request)

    def _compared(self, request: Message) -> tuple[Message, list[int]]:
        case = self._case_that_ran(request["case"])
        if not case.values_matter:
            raise Refused("not-comparable", "the inputs of this case were left untouched")
        exact_if_agree = bool(request["exact_if_agree"])
        tolerances = [_tolerance(item) for item in request["tolerances"]]
        if len(tolerances) != len(case.outputs):
            raise Refused("bad-request", f"{len(tolerances)} tolerances for {len(case.outputs)} outputs")
        # Copied before anything is computed of what is right: nobody but us can write to it any more.
        left = [output.copied() for output in case.outputs]
        changed = [item.name for item in case.tensors() if item.is_changed]
        case.written_outside += case.memory.damaged([*case.tensors(), *case.outputs])
        if request.get("truth") is not None:
            self._take_truths(case, request["truth"])
        truths = case_truth.truths(case, any(tolerance.condition_factor for tolerance in tolerances))
        for output, truth in zip(case.outputs, truths, strict=True):
            if not output.element.is_float:
                integers.check(output.name, truth)
        outputs = []
        for at, (output, truth, tolerance) in enumerate(zip(case.outputs, truths, tolerances, strict=True)):
            errors = compare.measure(
                output.view(left[at]),
                truth,
                output.element,
                tolerance,
                request["written_only"],
                exact_if_agree,
            )
            wants_nulls = request["null_candidates"]
            nulls = case_truth.null_candidates(case, at, truth, tolerance) if wants_nulls else []
            outputs.append({"name": output.name, **errors, "null_candidates": nulls})
        done = {"outputs": outputs, "inputs_changed": changed}
        if self.device is not None:
            done["written_outside"], case.written_outside = case.written_outside, []
        return {"done": done}, []

    def _take_truths(self, case: Case, truth: Message) -> None:
        """What a reference that is not ours left in the memory of its own cases."""
        perturbed = [self._case_that_ran(of) for of in truth["perturbed"]]
        made = {
            name: self._case_that_ran(of)
            for name, of in truth.items()
            if name != "perturbed" and of is not None
        }
        case.truths = foreign.truths(made["float64"], made["in_dtype"], made.get("again"), perturbed)
        for name, key in (("other_seed", 0), ("coarse_inputs", "coarse")):
            if name in made:
                case.nulls[key] = foreign.values(made[name])

    def _case_that_ran(self, name: str) -> Case:
        case = self._case({"case": name})
        case.fetch()
        return case

    def _case(self, request: Message) -> Case:
        case = self.cases.get(request["case"])
        if case is None:
            raise Refused("unknown-case", f"case {request['case']} was not prepared")
        return case


def _make_output(spec: Message, position: int, make_shared: MakeShared) -> SharedTensor:
    strides = memory.contiguous_strides(spec["shape"])
    item = make_shared(f"output-{position}", spec, strides, mapped=True)
    poison.fill_storage(item.view(item.shared))
    return item


def _copy_spec(item: SharedTensor, *, widened: bool) -> Message:
    """A contiguous tensor of the same shape, in float64 when it is to be widened."""
    dtype = "float64" if widened and item.element.is_float else item.element.name
    strides = memory.contiguous_strides(item.shape)
    return {"name": item.name, "dtype": dtype, "shape": item.shape, "strides": strides}


def _shared_copy(position: int, spec: Message, value: torch.Tensor, make_shared: MakeShared) -> SharedTensor:
    """A tensor of its own with these values."""
    copy = make_shared(f"input-{position}", spec, spec["strides"], mapped=True)
    if copy.shared is not None:
        copy.view(copy.shared).copy_(value)
        copy.private = copy.shared.clone()
    return copy


def _elements(specs: list[Message]) -> int:
    return sum(math.prod(spec["shape"]) for spec in specs if spec.get("kind") != "scalar")


def _unshared_output(spec: Message) -> Message:
    return {"name": spec["name"], "dtype": spec["dtype"], "shape": spec["shape"]}


def _tolerance(item: Message) -> Tolerance:
    return Tolerance(**{name: float(item[name]) for name in Tolerance.__annotations__})


def _failed(code: str, message: str) -> Message:
    print(f"judge: {code}: {message}", file=sys.stderr, flush=True)
    return {"failed": {"code": code, "message": message}}
