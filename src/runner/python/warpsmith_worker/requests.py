"""What the server asks: one method for each op. Every request is answered exactly once."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .cases import Case
from .channel import Message
from .runners import BLOCKING, Job, Limits, Outcome, Runner, failed
from .timing_requests import Timed, runners_of

# Wall clock of a judge's step for which the server named none.
_JUDGE_WALL_S = 120.0
# The judge ends its measurements itself; only what hangs is stopped.
_CEILINGS_GRACE_S = 10.0
_SPARE_WALL_S = 60.0
_NO_DEVICE = "this worker was started without a GPU"

if TYPE_CHECKING:
    from .supervisor import Supervisor

Request = dict[str, Any]


class Requests:
    """Turns requests into jobs of the judge and of candidates."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.cases = supervisor.cases
        self.definitions: dict[str, tuple[Message, float]] = {}
        """What was defined, for the next judge, and how long it may take to compile it (seconds)."""

    def serve(self, request: Request) -> None:
        handlers: dict[str, Callable[[Request], None]] = {
            "define": self._define,
            "open": self._open,
            "prepare": self._prepare,
            "derive": self._derive,
            "take": self._take,
            "retake": self._retake,
            "run": self._run,
            "compile": self._compile,
            "recopy": self._recopy,
            "time": self._time,
            "ceilings": self._ceilings,
            "compare": self._compare,
            "redraw": self._redraw,
            "repeat": self._repeat,
            "release": self._release,
            "device-state": self._device_state,
            "close": self._close,
        }
        handler = handlers.get(str(request.get("op")))
        if handler is None:
            self.supervisor.reply(request, failed("bad-request", f"unknown op {request.get('op')!r}"))
            return
        try:
            handler(request)
        except (KeyError, TypeError, ValueError) as error:
            message = f"{request['op']}: {type(error).__name__}: {error}"
            print(traceback.format_exc(), file=sys.stderr, flush=True)
            self.supervisor.reply(request, failed("bad-request", message))

    # --- requests for the judge ---

    def _define(self, request: Request) -> None:
        name = request["definition"]
        message = _fields(request, "definition", "reference", "reference_f64")
        message["is_named"] = request.get("is_named", False)
        wall_s = float(request["wall_s"])
        self.definitions[name] = (message, wall_s)
        self._ask_judge(request, message, None, wall_s)

    def _prepare(self, request: Request) -> None:
        message = _fields(request, "case", "definition", "seed", "inputs", "outputs")
        message["infer_outputs"] = request.get("infer_outputs", False)
        self._add_case(request, message)

    def _derive(self, request: Request) -> None:
        message = _fields(request, "case", "of", "change", "outputs")
        message["draw"] = request.get("draw", 0)
        self._add_case(request, message)

    def _take(self, request: Request) -> None:
        self._add_case(request, _fields(request, "case", "of", "inputs", "outputs"))

    def _retake(self, request: Request) -> None:
        message = _fields(request, "case", "of")

        def retake(case: Case) -> None:
            # The judge arms it as well.
            case.runs = 0
            self._ask_judge_when_idle(request, message, case)

        self._with_case(request, retake)

    def _add_case(self, request: Request, message: Message) -> None:
        wall_s = float(request.get("wall_s", _JUDGE_WALL_S))
        case = self.cases.add(request["case"])

        def prepared(outcome: Outcome, descriptors: list[int]) -> None:
            self.cases.prepared(case, outcome, descriptors)
            self.supervisor.reply(request, _told_of_case(request, outcome))
            case.settle()

        self._judge_runner().submit(Job(request["op"], message, prepared, wall_s=wall_s))

    def _compare(self, request: Request) -> None:
        message = _fields(request, "case", "tolerances", "written_only", "null_candidates", "exact_if_agree")
        message["truth"] = request.get("truth")
        message["tf32"] = request.get("tf32", False)

        self._with_case(request, lambda case: self._ask_judge_when_idle(request, message, case))

    def _redraw(self, request: Request) -> None:
        message = {**_fields(request, "case", "seed"), "changed": request.get("changed")}

        def redraw(case: Case) -> None:
            # The judge arms it as well.
            case.runs = 0
            self._ask_judge_when_idle(request, message, case)

        self._with_case(request, redraw)

    def _repeat(self, request: Request) -> None:
        message = _fields(request, "case")
        self._with_case(request, lambda case: self._ask_judge_when_idle(request, message, case))

    def _device_state(self, request: Request) -> None:
        if self.supervisor.device is None:
            self.supervisor.reply(request, failed("no-device", _NO_DEVICE))
        else:
            self._ask_judge(request, {}, None, _JUDGE_WALL_S)

    def _ask_judge_when_idle(self, request: Request, message: Request, case: Case) -> None:
        if case.busy:
            self.supervisor.reply(request, failed("case-busy", f"case {case.name} is still running"))
        else:
            self._ask_judge(request, message, case, float(request.get("wall_s", _JUDGE_WALL_S)))

    def _release(self, request: Request) -> None:
        case = self.cases.get(request["case"])
        if case is not None and case.busy and self.supervisor.device is not None:
            # The memory goes to other cases, so whoever still writes there has to be gone.
            case.when_idle(lambda: self._release(request))
            return
        case = self.cases.remove(request["case"])
        if case is None or case.state == "lost":
            self.supervisor.reply(request, {"done": {}})
        else:
            # Frees memory and computes nothing.
            self._ask_judge(request, _fields(request, "case"), None, None)

    def _ask_judge(self, request: Request, message: Message, case: Case | None, wall_s: float | None) -> None:
        def answered(outcome: Outcome, _descriptors: list[int]) -> None:
            # Only `prepare` is answered with descriptors.
            if case is not None:
                case.rest()
            if request["op"] == "define" and "done" not in outcome:
                # What ended this judge would end the next one too.
                self.definitions.pop(request["definition"], None)
            self.supervisor.reply(request, outcome)

        if case is not None:
            case.busy = True
        self._judge_runner().submit(Job(request["op"], message, answered, wall_s=wall_s))

    def _judge_runner(self) -> Runner:
        """The judge, started anew (with all definitions) when the last one ended."""
        if self.supervisor.judge is None:
            start = self.supervisor.device_start
            self.supervisor.judge = self.supervisor.spawn("judge") if start is None else start.spawn_judge()
            for message, wall_s in self.definitions.values():
                # Whether it compiles was answered when it was given.
                job = Job("define", message, lambda _outcome, _descriptors: None, wall_s=wall_s)
                self.supervisor.judge.submit(job)
        return self.supervisor.judge

    # --- requests for candidates ---

    def _open(self, request: Request) -> None:
        if request["runner"] in self.supervisor.runners:
            raise ValueError(f"runner {request['runner']} is open already")
        known = [name for name in Limits.__annotations__ if name in request["limits"]]
        runner_limits = Limits(**_fields(request["limits"], *known))
        if self.supervisor.device is not None and request.get("blocking"):
            # A spare has its context already, and it does not wait for launches.
            runner = self.supervisor.spawn(BLOCKING)
        else:
            runner = self.supervisor.take_spare()
        self.supervisor.runners[request["runner"]] = runner
        runner.limits = runner_limits
        runner.is_for_timing = bool(request.get("for_timing"))
        runner.output.tail_bytes = runner_limits.output_tail_bytes
        runner.shown_paths = (request["text_path"], request["path"])
        message = _fields(request, "path", "text_path", "entry", "search_paths", "environment")
        message["text"], message["module"] = request.get("text"), request.get("module")
        message["address_space_bytes"] = runner_limits.address_space_bytes
        message["device_bytes"] = runner_limits.device_bytes

        def opened(outcome: Outcome, _descriptors: list[int]) -> None:
            self.supervisor.reply(request, outcome)
            if "done" not in outcome:
                # Its file did not load: nothing more can be asked of it.
                runner.stop("killed")
            self.supervisor.ensure_spares()

        runner.submit(Job("open", message, opened, wall_s=runner_limits.import_wall_s))

    def _run(self, request: Request) -> None:
        runner = self.supervisor.runners.get(request["runner"])
        if runner is None:
            self.supervisor.reply(
                request, failed("unknown-runner", f"runner {request['runner']} is not open")
            )
            return
        message = _fields(request, "arguments", "interpreter", "hold")

        def run(case: Case) -> None:
            if case.busy:
                self.supervisor.reply(request, failed("case-busy", f"case {case.name} is already running"))
                return
            inputs = case.arguments_of(message["arguments"])
            case.check_outputs_of(message["arguments"])
            case.busy = True
            if case.runs == 0:
                case.runs = 1
                self._submit_run(request, runner, case, inputs)
            else:
                self._rearm_then_run(request, runner, case, inputs)

        self._with_case(request, run)

    def _compile(self, request: Request) -> None:
        if self.supervisor.device is None:
            self.supervisor.reply(request, failed("no-device", _NO_DEVICE))
            return
        runner = self.supervisor.runners.get(request["runner"])
        if runner is None:
            self.supervisor.reply(
                request, failed("unknown-runner", f"runner {request['runner']} is not open")
            )
            return
        # Of the inputs what a compiler sees: how they are drawn is not for this process.
        known = ("name", "dtype", "shape", "strides", "offset", "value")
        inputs = [{name: item[name] for name in known if name in item} for item in request["inputs"]]
        message = {"inputs": inputs, **_fields(request, "outputs", "arguments")}

        def compiled(outcome: Outcome, _descriptors: list[int]) -> None:
            self.supervisor.reply(request, outcome)

        runner.submit(Job("compile", message, compiled, wall_s=float(request["wall_s"])))

    def _rearm_then_run(self, request: Request, runner: Runner, case: Case, inputs: list[Request]) -> None:
        """A case that ran before gets its inputs and poison back first."""

        def rearmed(outcome: Outcome, _descriptors: list[int]) -> None:
            if "done" in outcome:
                self._submit_run(request, runner, case, inputs)
            else:
                case.rest()
                self.supervisor.reply(request, outcome)

        self._judge_runner().submit(Job("rearm", {"case": case.name}, rearmed))

    def _submit_run(self, request: Request, runner: Runner, case: Case, inputs: list[Request]) -> None:
        def ran(outcome: Outcome, _descriptors: list[int]) -> None:
            case.rest()
            self.supervisor.reply(request, outcome)

        if case.state != "ready":
            ran(case.why_not_ready, [])
            return
        message = {
            **_fields(request, "case", "arguments", "interpreter", "hold"),
            "inputs": inputs,
            "outputs": case.outputs,
            "widened": request.get("widened", False),
        }
        descriptors = case.descriptors_of(inputs + case.outputs)
        job = Job("run", message, ran, descriptors, wall_s=float(request["wall_s"]), case=case.name)
        runner.submit(job)

    def _recopy(self, request: Request) -> None:
        runner = self.supervisor.runners.get(request["runner"])
        if runner is None:
            self.supervisor.reply(
                request, failed("unknown-runner", f"runner {request['runner']} is not open")
            )
            return

        def recopy(case: Case) -> None:
            if case.busy:
                self.supervisor.reply(request, failed("case-busy", f"case {case.name} is still running"))
                return
            case.busy = True

            def recopied(outcome: Outcome, _descriptors: list[int]) -> None:
                case.rest()
                self.supervisor.reply(request, outcome)

            message = {"outputs": case.outputs}
            descriptors = case.descriptors_of(case.outputs)
            wall_s = float(request["wall_s"])
            runner.submit(Job("recopy", message, recopied, descriptors, wall_s=wall_s, case=case.name))

        self._with_case(request, recopy)

    def _time(self, request: Request) -> None:
        if self.supervisor.device is None:
            self.supervisor.reply(request, failed("no-device", _NO_DEVICE))
            return
        try:
            runners = runners_of(self.supervisor, request)
        except KeyError as error:
            self.supervisor.reply(request, failed("unknown-runner", f"runner {error} is not open"))
            return

        def time_it(case: Case) -> None:
            if case.busy:
                self.supervisor.reply(request, failed("case-busy", f"case {case.name} is still running"))
                return
            timed = Timed(request, case, runners)
            case.busy, case.runs = True, 1

            def ended(outcome: Outcome) -> None:
                case.rest()
                self.supervisor.reply(request, outcome)

            def rearmed(outcome: Outcome, _descriptors: list[int]) -> None:
                if "done" in outcome:
                    timed.start(ended)
                else:
                    ended(outcome)

            self._when_spares_rest(
                lambda: self._judge_runner().submit(Job("rearm", {"case": case.name}, rearmed))
            )

        self._with_case(request, time_it)

    def _ceilings(self, request: Request) -> None:
        if self.supervisor.device is None:
            self.supervisor.reply(request, failed("no-device", _NO_DEVICE))
            return
        message = {**_fields(request, "wall_s"), "bytes": request.get("bytes")}
        wall_s = float(request["wall_s"]) + _CEILINGS_GRACE_S
        self._when_spares_rest(lambda: self._ask_judge(request, message, None, wall_s))

    def _when_spares_rest(self, action: Callable[[], None]) -> None:
        """Do it once every spare has opened its context, which would disturb what is measured meanwhile."""
        waited_for = len(self.supervisor.spares)
        if waited_for == 0:
            action()
            return

        def rests(_outcome: Outcome, _descriptors: list[int]) -> None:
            nonlocal waited_for
            waited_for -= 1
            if waited_for == 0:
                action()

        for spare in list(self.supervisor.spares):
            # It answers this when it is through; there is nothing to close.
            spare.submit(Job("time-close", {}, rests, wall_s=_SPARE_WALL_S))

    def _with_case(self, request: Request, action: Callable[[Case], None]) -> None:
        """Do it once the case is prepared; a case that could not be prepared says why."""
        case = self.cases.get(request["case"])
        if case is None:
            self.supervisor.reply(request, failed("unknown-case", f"case {request['case']} was not prepared"))
            return

        def settled() -> None:
            if case.state != "ready":
                self.supervisor.reply(request, case.why_not_ready)
                return
            try:
                action(case)
            except (KeyError, TypeError, ValueError) as error:
                self.supervisor.reply(request, failed("bad-request", f"{type(error).__name__}: {error}"))

        case.when_settled(settled)

    def _close(self, request: Request) -> None:
        runner = self.supervisor.runners.pop(request["runner"], None)
        if runner is None:
            self.supervisor.reply(request, {"done": {}})
            return
        runner.stop("killed")

        def gone() -> None:
            self.supervisor.when_swept(lambda: self.supervisor.reply(request, {"done": {}}))
            self.supervisor.ensure_spares()

        if runner.death is not None:
            gone()
        else:
            runner.jobs.append(Job("close", {}, lambda _outcome, _descriptors: gone()))


def _told_of_case(request: Request, outcome: Outcome) -> Outcome:
    """The description of the tensors stays here; the server learns what is new to it."""
    if "done" not in outcome:
        return outcome
    done = outcome["done"]
    if request["op"] == "derive":
        return {"done": {"possible": done["possible"]}}
    if request.get("infer_outputs"):
        return {"done": {"outputs": [_fields(item, "name", "dtype", "shape") for item in done["outputs"]]}}
    return {"done": {}}


def _fields(request: Request, *names: str) -> Message:
    return {name: request[name] for name in names}
