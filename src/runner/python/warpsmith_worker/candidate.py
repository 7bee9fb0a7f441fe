"""A code runner: imports one user file and calls its entry on memory that the judge made.

It never sees a seed, an expected value or the judge's own memory, and says only what it did.
"""

import contextlib
import faulthandler
import functools
import importlib
import inspect
import os
import pkgutil
import secrets
import socket
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy
import torch

from . import compiling, event_clock, interpreter, library, memory, messages, threads, timing
from .channel import Channel, Message
from .device_stage import DeviceStage
from .dtypes import by_name
from .errors import UserFiles
from .faults import InterpreterFailed, describe_fault, ours
from .host_stage import HostStage
from .loading import UserSource, import_user_file
from .module_candidate import ModuleCandidate
from .module_role import Unusable
from .problem import Problem
from .returned import EarlierResults, Output, flatten, hand_over
from .widening import in_float64

# User code may replace what the module `time` holds.
_now_s = time.perf_counter
_PROGRESS_EVERY_S = 0.1
# What a process ends with whose context an error has made useless.
_BROKEN_CONTEXT_STATUS = 17

Stage = HostStage | DeviceStage


def warm_up(*, on_gpu: bool = False) -> None:
    """Imports and first calls that are safe before the fork, so that no runner pays for them."""
    torch.softmax(torch.zeros(2, 2), -1)
    # The interpreter asks it for the names that kernels may use, at the first launch.
    with contextlib.suppress(ImportError):
        importlib.import_module("triton.compiler.code_generator")
    if on_gpu:
        _hash_triton()
        return
    for module in pkgutil.iter_modules(interpreter.__path__, f"{interpreter.__name__}."):
        importlib.import_module(module.name)


def _hash_triton() -> None:
    """Triton hashes all of its own files before the first launch of a process, which takes half a second."""
    for name in ("triton.runtime.cache", "triton.compiler.compiler", "triton.backends.nvidia.compiler"):
        with contextlib.suppress(ImportError):
            triton_key = getattr(importlib.import_module(name), "triton_key", None)
            if triton_key is not None:
                triton_key()


def serve(sock: socket.socket, *, on_gpu: bool = False, blocking: bool = False) -> None:
    """Answer the supervisor until it is gone; `open` comes first and once.

    `blocking`: on a GPU the host waits for every launch.
    """
    channel = Channel(sock, blocking=True)
    stage: Stage = DeviceStage(blocking=blocking) if on_gpu else HostStage()
    candidate = Candidate(channel, stage)
    while (received := channel.receive()) is not None:
        request, descriptors = received
        answer = candidate.answer(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        _flush_output()
        # A process that user code forked may come back here; only the real one answers.
        if os.getpid() != candidate.pid:
            os._exit(0)
        channel.send(_well_formed(request["op"], answer))
        if stage.is_broken:
            os._exit(_BROKEN_CONTEXT_STATUS)
    os._exit(0)


class Candidate:
    """One user file, loaded."""

    def __init__(self, channel: Channel, stage: Stage) -> None:
        self.channel = channel
        self.pid = os.getpid()
        self.stage = stage
        self.files: UserFiles | None = None
        self.entry: Callable[..., Any] | None = None
        self.problem: Problem | None = None
        """Set in the process of a KernelBench reference."""
        self.positional_only: list[str] = []
        """Leading parameters of the entry that cannot be passed by keyword, in order."""
        self.last_progress = 0.0
        self.earlier = EarlierResults()
        self.held: list[Any] = []
        """What a call returned that asked for it to be held."""
        self.mapped: tuple[str, dict[str, Any]] = ("", {})
        """The inputs of the latest case: it is called again on the very same tensors."""
        self.timing = timing.Timing(
            self._memory_to_time,
            self._plain_call,
            self._is_refused,
            stage.deliver,
            refuse_threads=self._refuse_threads,
        )
        _seed_afresh()
        # On a crash the lines that ran stand at the end of its output.
        faulthandler.enable(file=2)
        sys.stdout.reconfigure(line_buffering=True)
        own_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        sys.path[:] = [place for place in sys.path if place != own_folder]

    def answer(self, request: Message, descriptors: list[int]) -> Message:
        """The answer to one request."""
        handlers: dict[str, Callable[[Message, list[int]], Message]] = {
            "open": self.open,
            "run": self.run,
            "compile": self.compile,
            "recopy": self.recopy,
            "probe": self.probe,
            **dict.fromkeys(timing.OPS, self.time),
        }
        return handlers[request["op"]](request, descriptors)

    def probe(self, request: Message, descriptors: list[int]) -> Message:
        """Asked once of the first process on a GPU, before any user code."""
        if not isinstance(self.stage, DeviceStage):
            return {"done": {"refused": "there is no GPU"}}
        return self.stage.probe(request, descriptors)

    def open(self, request: Message, _descriptors: list[int]) -> Message:
        """Import the file and find its entry: `Opened` or `Raised`."""
        folders = [os.path.dirname(os.path.abspath(request["path"])), *request["search_paths"]]
        self.files = files = UserFiles(request["text_path"], request["path"], folders)
        os.environ.update(request["environment"])
        began = _now_s()
        try:
            self.stage.open(request, files)
            with self.stage.active(poisons=True):
                source = UserSource(files.path, files.text_path, request.get("text"))
                module = import_user_file(source, request["search_paths"])
                self.entry = _find_entry(module, request["entry"], files.path)
                told = self._take_role(module, self.entry, request.get("module"))
            self.stage.settle(None)
            parameters = _parameters(self.entry)
            self.positional_only = _positional_only(self.entry)
        except BaseException as error:
            return {"raised": self.stage.describe(error, files, None, None)}
        import_ms = (_now_s() - began) * 1e3
        return {"done": {"parameters": parameters, "import_ms": import_ms, "problem": told}}

    def _take_role(self, module: Any, entry: Any, role: Message | None) -> Message | None:
        """A class of the KernelBench convention is served through an object of ours."""
        if role is None:
            return None
        if role["side"] == "candidate":
            self.entry = ModuleCandidate(entry, role)
            return None
        self.entry = self.problem = Problem(module, entry, role)
        return self.problem.describe(role)

    def run(self, request: Message, descriptors: list[int]) -> Message:
        """Call the entry on the case's memory: `Ran` or `Raised`."""
        session = None
        try:
            case = self._memory_of(request, descriptors)
            options, widened = request["interpreter"], request.get("widened", False)
            session = self.stage.session(options, self._progress)
            self._make_module(case.arguments, options)
            arguments = case.arguments
            if widened and self.problem is not None:
                # Its constructors run in the usual dtypes.
                arguments, widens = {**arguments, "widened": True}, contextlib.nullcontext()
            else:
                widens = in_float64(with_halves=True) if widened else contextlib.nullcontext()
            alive, began = threads.of_user(self.files), _now_s()
            with widens:
                returned = self._call(session, arguments, options)
            self.stage.settle(session)
            run_ms = (_now_s() - began) * 1e3
            self._refuse_left_running(alive)
            report = {**ours(session.report), "library": library.called()}
            values_matter = options["compare_values"]
            if case.destinations:
                returned = case.written(returned)
            if request.get("hold"):
                self.held = flatten(returned)
            described = case.hand_over(
                returned, session if values_matter else None, self._is_refused, widened=widened
            )
            self.stage.deliver()
            self._mark_returned_before(case, returned, described)
        except BaseException as error:
            return {"raised": self._raised_while_running(error, session)}
        return {"done": {"outputs": described, "run_ms": run_ms, **report}}

    def compile(self, request: Message, _descriptors: list[int]) -> Message:
        """Call the entry so that it only compiles; what becomes of it is nobody's business."""
        if self.entry is not None:
            with contextlib.suppress(Exception):
                compiling.call_on_zeros(self.entry, self.positional_only, request)
        return {"done": {}}

    def _refuse_left_running(self, alive: set[int]) -> None:
        """What a thread does after the call belongs to none. Raises Unusable."""
        if threads.of_user(self.files) - alive:
            raise Unusable(
                "left-running",
                "a thread that the call started still runs code of this file after the call has returned, so "
                "nobody knows what the call came to: wait for it (`join`) before returning",
            )

    def _refuse_threads(self) -> None:
        """Raises Unusable while a thread runs code of the user's."""
        if threads.of_user(self.files):
            told = "a thread of this file runs, and what it does while others are timed belongs to no call"
            raise Unusable("left-running", told)

    def _make_module(self, arguments: dict[str, Any], options: Message) -> None:
        """Make the object of a KernelBench candidate, outside of what is judged. Raises Unusable."""
        if not isinstance(self.entry, ModuleCandidate) or self.entry.is_made_for(arguments):
            return
        making = self.stage.session({"max_programs": None, "compare_values": True}, self._progress)
        ours(making.__enter__)
        try:
            with self.stage.active(poisons=options["compare_values"]):
                self.entry.make(arguments)
        finally:
            ours(making.__exit__, None, None, None)
        if ours(making.report).get("launches"):
            name = self.entry.name
            told = f"the constructor of `{name}` launches a kernel; only what `forward` launches is judged"
            raise Unusable("not-built", told)

    def _is_refused(self, value: torch.Tensor) -> bool:
        """Whether a returned value lies in the wrong memory; a KernelBench reference works on the CPU."""
        return self.problem is None and self.stage.is_in_wrong_memory(value)

    def _mark_returned_before(self, case: "_CaseMemory", returned: Any, described: list[Message]) -> None:
        """Say which values are the memory of an earlier result, and remember these."""
        # Memory of the judge that is the same in every call is no result of before.
        same = list(case.destinations.values()) if self.stage.outputs_stay else []
        own = [value for value in flatten(returned) if not any(value is other for other in same)]
        for value, description in zip(flatten(returned), described, strict=True):
            if description["dtype"] is not None:
                is_own = any(value is other for other in own)
                description["returned_before"] = is_own and self.earlier.holds(value)
        self.earlier.remember([value for value in own if type(value) is torch.Tensor])

    def recopy(self, request: Message, descriptors: list[int]) -> Message:
        """Copy what was held into the outputs of a case once more: `Recopied`."""
        try:
            case = _CaseMemory({"inputs": [], "arguments": [], **request}, descriptors, self.stage)
            described = [
                hand_over(value, output, {}, None, self.stage.is_in_wrong_memory, copies=True)
                for value, output in zip(self.held, case.outputs, strict=False)
            ]
            self.stage.deliver()
        except BaseException as error:
            return {"raised": self._raised_while_running(error, None)}
        return {"done": {"copied": [value.get("copied", False) for value in described]}}

    def time(self, request: Message, descriptors: list[int]) -> Message:
        """One step of a timing, see `timing`: what is done there, or `Raised`."""
        try:
            return {"done": self.timing.answer(request, descriptors)}
        except (event_clock.NoGpu, timing.NotOpen) as error:
            return {"raised": describe_fault(InterpreterFailed(str(error)), self.files)}
        except BaseException as error:
            return {"raised": self._raised_while_running(error, None)}

    def _memory_to_time(self, request: Message, descriptors: list[int]) -> "_CaseMemory":
        case = self._memory_of(request, descriptors)
        self._make_module(case.arguments, {"compare_values": False})
        return case

    def _plain_call(self, arguments: dict[str, Any]) -> Callable[[], Any]:
        """A call of the entry with nothing of ours around it."""
        names = [name for name in self.positional_only if name in arguments]
        by_name = {name: value for name, value in arguments.items() if name not in names}
        return functools.partial(self.entry, *[arguments[name] for name in names], **by_name)

    def _memory_of(self, request: Message, descriptors: list[int]) -> "_CaseMemory":
        name, known = self.mapped[0], self.mapped[1] or None
        # The old ones go before the new ones come.
        self.mapped = ("", {})
        if name != request["case"]:
            known = None
            self.stage.forget_case()
        case = _CaseMemory(request, descriptors, self.stage, known)
        self.mapped = (request["case"], case.inputs)
        return case

    def _call(self, session: Any, arguments: dict[str, Any], options: Message) -> Any:
        if self.entry is None:
            raise InterpreterFailed("nothing was opened")
        names = [name for name in self.positional_only if name in arguments]
        positional = [arguments[name] for name in names]
        by_name = {name: value for name, value in arguments.items() if name not in names}
        library.forget()
        ours(session.__enter__)
        try:
            other_poison = options.get("other_poison", False)
            with self.stage.active(poisons=options["compare_values"], other_pattern=other_poison):
                returned = self.entry(*positional, **by_name)
        except BaseException as error:
            ours(session.__exit__, type(error), error, error.__traceback__)
            raise
        ours(session.__exit__, None, None, None)
        return returned

    def _raised_while_running(self, error: BaseException, session: Any) -> Message:
        report: Message = {}
        if session is not None:
            try:
                self.stage.collect(session)
                report = session.report()
            except BaseException as second:
                error = InterpreterFailed(f"its report failed: {second!r:.500}")
        raised = self.stage.describe(error, self.files, report.get("unsupported"), session)
        raised["launches"] = report.get("launches", [])
        raised["findings"] = report.get("findings", [])
        return raised

    def _progress(self, programs_done: int, programs: int) -> None:
        now = _now_s()
        if now - self.last_progress >= _PROGRESS_EVERY_S and os.getpid() == self.pid:
            self.last_progress = now
            self.channel.send({"progress": {"programs_done": programs_done, "programs": programs}})


def _well_formed(op: str, answer: Message) -> Message:
    """The answer, unless our own report does not follow the protocol: a fault of ours, not the kernel's."""
    try:
        return messages.candidate_answer(op, answer)
    except messages.Malformed as error:
        fault = InterpreterFailed(f"its report does not follow the protocol: {error}")
        return {"raised": describe_fault(fault, None)}


def _find_entry(module: Any, name: str, path: str) -> Callable[..., Any]:
    entry = getattr(module, name, None)
    if entry is None:
        raise AttributeError(f"{os.path.basename(path)} defines no `{name}`")
    if not callable(entry):
        raise TypeError(f"`{name}` in {os.path.basename(path)} is a {type(entry).__name__}, not a function")
    return entry


def _parameters(entry: Callable[..., Any]) -> list[Message]:
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        {
            "name": marks.get(parameter.kind, "") + parameter.name,
            "has_default": parameter.default is not inspect.Parameter.empty,
        }
        for parameter in inspect.signature(entry).parameters.values()
    ]


def _positional_only(entry: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(entry).parameters.values()
    return [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.POSITIONAL_ONLY]


class _CaseMemory:
    """A case's inputs and outputs, mapped into this process."""

    def __init__(
        self,
        request: Message,
        descriptors: list[int],
        stage: Stage,
        known: dict[str, Any] | None = None,
    ) -> None:
        """`known` are the inputs as they were mapped before. Raises MemoryError when there is no room."""
        self._descriptors = iter(descriptors)
        self._stage = stage
        stage.begin()
        self._filled = request.get("interpreter", {}).get("compare_values", True)
        self.inputs = {item["name"]: self._input(item, known) for item in request["inputs"]}
        self.outputs = [Output(item, self._storage(item)) for item in request["outputs"]]
        self.destinations = {
            item["output"]: self._destination(item["output"])
            for item in request["arguments"]
            if "output" in item
        }
        self.arguments = {item["parameter"]: self._argument(item) for item in request["arguments"]}

    def _argument(self, item: Message) -> Any:
        if "output" in item:
            return self.destinations[item["output"]]
        return self.inputs[item["input"]] if "input" in item else item["value"]

    def _destination(self, name: str) -> torch.Tensor:
        """An output that the entry writes into: poisoned memory, of which every element counts."""
        output = next(item for item in self.outputs if item.spec["name"] == name)
        dtype, shape = by_name(output.spec["dtype"]).torch, output.spec["shape"]
        strides = memory.contiguous_strides(shape)
        if output.storage is None:
            return memory.empty_view(dtype, shape, strides)
        tensor = memory.view_storage(output.storage, dtype, shape, strides)
        self._stage.register_destination(tensor)
        return tensor

    def written(self, returned: Any) -> list[Any]:
        """What counts when outputs were passed: those, and at the places of the others what was returned.

        The entry may return the others only, or all of them. When it returns another number, the values
        that are left over count too, so that the number of all is wrong.
        """
        names = [output.spec["name"] for output in self.outputs]
        if all(name in self.destinations for name in names):
            return [self.destinations[name] for name in names]
        values = [] if returned is None else flatten(returned)
        if len(values) == len(names):
            return [self.destinations.get(name, value) for name, value in zip(names, values, strict=True)]
        rest = deque(values)
        in_order = [
            self.destinations[name] if name in self.destinations else rest.popleft()
            for name in names
            if name in self.destinations or rest
        ]
        return [*in_order, *rest]

    def _input(self, item: Message, known: dict[str, Any] | None) -> Any:
        if "scalar" in item:
            return item["scalar"]
        if known is not None and item["name"] in known:
            self._stage.skip(item, self._descriptors)
            tensor = known[item["name"]]
            # The judge may have written other values: to PyTorch that must look like any write.
            with contextlib.suppress(Exception):
                torch.autograd.graph.increment_version(tensor)
            return tensor
        storage = self._storage(item)
        dtype = by_name(item["dtype"]).torch
        if storage is None:
            return memory.empty_view(dtype, item["shape"], item["strides"])
        return memory.view_storage(storage, dtype, item["shape"], item["strides"], item["offset"])

    def _storage(self, item: Message) -> torch.Tensor | None:
        return self._stage.storage(item, self._descriptors, filled=self._filled)

    def hand_over(
        self,
        returned: Any,
        session: Any,
        is_in_host_memory: Callable[[torch.Tensor], bool],
        *,
        widened: bool,
    ) -> list[Message]:
        """Copy and describe what was returned, each value with the output at its place."""
        outputs = [*self.outputs, *[None] * len(flatten(returned))]
        return [
            hand_over(value, output, self.inputs, session, is_in_host_memory, widened=widened)
            for value, output in zip(flatten(returned), outputs, strict=False)
        ]


def _seed_afresh() -> None:
    """All runners are copies of one process: without this they would draw the same numbers.

    Python's own `random` seeds itself after a fork.
    """
    numpy.random.seed(secrets.randbits(32))
    torch.manual_seed(secrets.randbits(63))


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        # User code may have closed or replaced them.
        with contextlib.suppress(Exception):
            stream.flush()
