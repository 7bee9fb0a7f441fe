"""The request `time`: puts a case and its runners together and starts a `TimingSession`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .cases import Case
from .runners import Job, Outcome, Runner
from .timing_session import Answered, Plan, Step, TimingSession

if TYPE_CHECKING:
    from .supervisor import Supervisor

Request = dict[str, Any]


def runners_of(supervisor: Supervisor, request: Request) -> dict[str, Runner]:
    """The runner of each side. Raises KeyError on one that is not open, ValueError on one for both."""
    names = {side: request[side]["runner"] for side in ("candidate", "baseline") if request[side] is not None}
    if len(set(names.values())) < len(names):
        raise ValueError("candidate and baseline are the same runner")
    return {side: supervisor.runners[name] for side, name in names.items()}


class Timed:
    """A `time` request on a ready case that nothing else uses."""

    def __init__(self, request: Request, case: Case, runners: dict[str, Runner]) -> None:
        self.request = request
        self.case = case
        self.runners = runners
        # Before anything is asked, so that a bad request changes nothing.
        for side in runners:
            case.arguments_of(request[side]["arguments"])
            case.check_outputs_of(request[side]["arguments"])
        self.plan = Plan(
            has_baseline="baseline" in runners,
            pairs=int(request["pairs"]),
            seed=int(request["seed"]),
            wall_s=float(request["wall_s"]),
        )

    def start(self, on_end: Callable[[Outcome], None]) -> None:
        """Time it; the case has its inputs and poison. One call of `on_end` follows."""

        def ended(outcome: Outcome) -> None:
            # Without the judge there is nothing that the outputs could be compared with.
            on_end(outcome if self.case.state == "ready" else self.case.why_not_ready)

        TimingSession(self.plan, self._ask, ended).start()

    def _ask(self, step: Step, on_answer: Callable[[Answered], None]) -> None:
        message, descriptors = step.message, []
        if step.op == "time-open":
            if self.case.state != "ready":
                on_answer(Answered(self.case.why_not_ready, 0.0))
                return
            message, descriptors = self._opening(step.side)
        began_ns = time.perf_counter_ns()

        def answered(outcome: Outcome, _descriptors: list[int]) -> None:
            on_answer(Answered(outcome, (time.perf_counter_ns() - began_ns) / 1e3))

        job = Job(step.op, message, answered, descriptors, wall_s=step.wall_s, case=self.case.name)
        self.runners[step.side].submit(job)

    def _opening(self, side: str) -> tuple[Request, list[int]]:
        """The memory of the case, as `run` gives it to a candidate."""
        arguments = self.request[side]["arguments"]
        inputs, outputs = self.case.arguments_of(arguments), self.case.outputs
        message = {"case": self.case.name, "arguments": arguments, "inputs": inputs, "outputs": outputs}
        # Outputs of a baseline are not looked at, and its process may say what is right as well.
        message["spoils"] = side == "candidate"
        return message, self.case.descriptors_of(inputs + outputs)
