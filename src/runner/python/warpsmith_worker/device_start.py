"""How the supervisor of a GPU becomes warm: the judge opens its context, then tensors are tried to cross.

`warm` is sent only when that is done. What cannot work is told as `unavailable`, in the words of who failed.
"""

from __future__ import annotations

import os
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .channel import Message
from .environment import Unavailable
from .runners import Job, Outcome, Runner

if TYPE_CHECKING:
    from .supervisor import Supervisor

# A first context on a cold machine, with a driver that loads.
_START_WALL_S = 180.0
_PROBE_WALL_S = 60.0
_TRANSPORT_VARIABLE = "WARPSMITH_TRANSPORT"


@dataclass(frozen=True)
class Device:
    """The GPU that a supervisor was started for."""

    name: str
    """`cuda:N`, for people."""
    visible: str
    """What `CUDA_VISIBLE_DEVICES` names it by."""


class DeviceStart:
    """Takes a supervisor whose zygote is warm to its own `warm`, and remembers how tensors cross."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self.transport = "ipc"
        self.reason = ""
        if os.environ.get(_TRANSPORT_VARIABLE) == "host":
            self._use_host(f"{_TRANSPORT_VARIABLE}=host asks for it")
        self._warm: Message = {}
        self._began = 0.0
        self._pattern = secrets.randbelow(100) + 1

    def begin(self, warm: Message) -> None:
        """The zygote is warm and has said so in these words."""
        self._warm = warm
        self._began = time.monotonic()
        judge = self.spawn_judge(self._judge_started)
        self.supervisor.judge = judge

    def spawn_judge(self, on_outcome: Any = None) -> Runner:
        """A judge whose first job is to open its context."""
        judge = self.supervisor.spawn("judge")
        message = {"transport": self.transport, "pattern": self._pattern, "probes": on_outcome is not None}
        answered = on_outcome or (lambda _outcome, _descriptors: None)
        judge.submit(Job("start", message, answered, wall_s=_START_WALL_S))
        return judge

    def _judge_started(self, outcome: Outcome, _descriptors: list[int]) -> None:
        if "done" not in outcome:
            self.supervisor.become_unavailable(_why_unusable(outcome))
            return
        done = outcome["done"]
        judge_start_ms = (time.monotonic() - self._began) * 1e3
        self._warm = {**self._warm, "device": {**done["described"], "judge_start_ms": judge_start_ms}}
        if self.transport == "host":
            self._finish()
        elif "probe" in done:
            self._probe(done["probe"])
        else:
            self._use_host(f"the driver exports no memory: {done.get('refused', 'it said nothing')}")
            self._tell_judge()

    def _probe(self, record: Message) -> None:
        """Let the first spare runner, which has run no user code, open memory of the judge."""
        self.supervisor.ensure_spares()
        runner = next(iter(self.supervisor.spares), None)

        def probed(outcome: Outcome, _descriptors: list[int]) -> None:
            told = outcome.get("done", {}).get("refused")
            if "done" in outcome and not told:
                self._check_probe()
                return
            if runner in self.supervisor.spares:
                self.supervisor.spares.remove(runner)
            if runner is not None:
                runner.stop("killed")
            self._use_host(f"a second process cannot open the judge's memory: {told or _told(outcome)}")
            self._tell_judge()

        if runner is None:
            probed({"failed": {"message": "no second process could be started"}}, [])
            return
        message = {"input": record, "pattern": self._pattern}
        runner.submit(Job("probe", message, probed, wall_s=_PROBE_WALL_S))

    def _check_probe(self) -> None:
        """What the runner wrote must stand in the judge's memory."""

        def seen(outcome: Outcome, _descriptors: list[int]) -> None:
            if outcome.get("done", {}).get("seen"):
                self._finish()
            else:
                self._use_host("what a second process writes does not arrive in the judge's memory")
                self._tell_judge()

        self._ask("probed", {"pattern": self._pattern + 1}, seen)

    def _use_host(self, reason: str) -> None:
        self.transport, self.reason = "host", reason

    def _tell_judge(self) -> None:
        self._ask("transport", {"transport": self.transport}, lambda _outcome, _descriptors: self._finish())

    def _ask(self, op: str, message: Message, answered: Any) -> None:
        judge = self.supervisor.judge
        if judge is None:
            answered({"failed": {"message": "the judge's process ended"}}, [])
        else:
            judge.submit(Job(op, message, answered, wall_s=_PROBE_WALL_S))

    def _finish(self) -> None:
        device = {**self._warm["device"], "transport": self.transport, "transport_reason": self.reason}
        self.supervisor.become_warm({**self._warm, "device": device})


def _why_unusable(outcome: Outcome) -> Unavailable:
    """Of a judge that could not start."""
    told = outcome.get("failed", {})
    code = told.get("code", "")
    if code in ("no-driver", "no-device", "device-unusable"):
        return Unavailable(code, told["message"])
    return Unavailable("device-unusable", f"the process that opens the GPU did not start: {_told(outcome)}")


def _told(outcome: Outcome) -> str:
    (kind, value), *_ = outcome.items() or [("nothing", {})]
    return str(value.get("message") or value.get("output") or value.get("reason") or kind)[-2048:].strip()
