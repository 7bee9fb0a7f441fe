"""One timing, seen from the supervisor: which runner is asked for what, and when it is enough.

The two sides are asked in turns and never at once, so that nothing else of ours runs on the GPU. The clock
here is the one that is trusted: it runs from sending a message to having its answer, and user code cannot
reach it.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from .runners import Outcome, failed

_FEWEST_PAIRS = 5
# Wall clock of one sample, cold and warm together.
_SAMPLE_US = 4_000.0
# By which a sample may miss its target before the number of calls is changed.
_SAMPLE_MARGIN = 2.0
_COLD_SHARE = 0.75
_MOST_SAMPLE_CALLS = 1_000
_LARGEST_STEP = 4.0
# Of the time that is left, what the pairs may plan with.
_PLANNED_SHARE = 0.7

_CLAIM_US = 20_000.0
_CLAIM_SPARE = 1.2
_CLAIM_REPEATS = 3
_CLAIM_ATTEMPTS = 8
_MOST_CLAIM_CALLS = 1 << 20
_LARGEST_CLAIM_STEP = 32.0
# The most of a batch that an empty one may take off it: a message and an empty loop take below 2 % of 20 ms.
# User code may have a thread that slows the empty one, so that less seems to be left for the calls.
_LARGEST_EMPTY_SHARE = 0.1
# The runner rounds up to whole graphs, which have so many calls at most.
_MOST_GRAPH_CALLS = 100
# A batch this long is not repeated: what a message takes is nothing against it.
_LONG_CLAIM_US = 200_000.0

_CLOSING_SHARE = 0.1
_LONGEST_CLOSING_S = 1.0
_CLOSE_WALL_S = 2.0
# A baseline that hangs leaves the other half to the candidate.
_BASELINE_SHARE = 0.5
_SHORTEST_WALL_S = 0.05

Fields = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One message to one side."""

    side: str
    """`candidate` or `baseline`."""
    op: str
    message: Fields
    wall_s: float


@dataclass(frozen=True)
class Answered:
    """Its answer, and how long that took by the supervisor's clock."""

    outcome: Outcome
    wall_us: float


@dataclass(frozen=True)
class Plan:
    """What was asked for."""

    has_baseline: bool
    pairs: int
    seed: int
    wall_s: float


Script = Generator[Step, Answered, Any]


class SideEnded(Exception):
    """A side raised, died, or could not be asked."""

    def __init__(self, side: str, outcome: Outcome) -> None:
        super().__init__(side)
        self.side = side
        self.outcome = outcome


@dataclass
class _Side:
    name: str
    opened: Fields = field(default_factory=dict)
    cold_calls: int = 1
    warm_calls: int = 1
    cold_us: list[float] = field(default_factory=list)
    warm_us: list[float] = field(default_factory=list)
    empty_us: list[float] = field(default_factory=list)
    claimed_us: float = 0.0
    wall_us: float = 0.0

    def plan_sample(self, target_us: float) -> None:
        """So many calls that a sample takes about that long."""
        call_us = max(self.opened["call_us"], 0.1)
        cold = target_us * _COLD_SHARE / (call_us + self.opened["flush_us"])
        self.cold_calls = _within(cold, _MOST_SAMPLE_CALLS)
        self.warm_calls = _within(target_us * (1 - _COLD_SHARE) / call_us, _MOST_SAMPLE_CALLS)

    def adapt(self, wall_us: float, target_us: float) -> None:
        """More or fewer calls next time, when this sample was far from what it should take."""
        if target_us / _SAMPLE_MARGIN <= wall_us <= target_us * _SAMPLE_MARGIN:
            return
        factor = min(max(target_us / max(wall_us, 1.0), 1 / _LARGEST_STEP), _LARGEST_STEP)
        self.cold_calls = _within(self.cold_calls * factor, _MOST_SAMPLE_CALLS)
        self.warm_calls = _within(self.warm_calls * factor, _MOST_SAMPLE_CALLS)

    def series(self) -> Fields:
        return {
            "method": self.opened["method"],
            "cold_us": self.cold_us,
            "warm_us": self.warm_us,
            "empty_us": _mean(self.empty_us),
            "host_us": self.opened["host_us"],
            "is_host_bound": self.opened["is_host_bound"],
            "graph_refused": self.opened["graph_refused"],
            "launches": self.opened["launches"],
            "claimed_us": self.claimed_us,
            "wall_us": self.wall_us,
        }


class TimingSession:
    """Asks by `ask`, which calls back once with the answer, soon or later; ends with one call of `on_end`."""

    def __init__(
        self,
        plan: Plan,
        ask: Callable[[Step, Callable[[Answered], None]], None],
        on_end: Callable[[Outcome], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan = plan
        self._ask = ask
        self._on_end = on_end
        self._now_s = now_s
        self._random = random.Random(plan.seed)
        self._sides = {"candidate": _Side("candidate")}
        if plan.has_baseline:
            self._sides["baseline"] = _Side("baseline")
        self._baseline_failed: str | None = None
        self._outputs: list[Any] = []
        self._ends_at = 0.0
        self._script = self._whole()
        self._answers: deque[Answered | None] = deque()
        self._advancing = False

    def start(self) -> None:
        """Its wall clock starts now."""
        self._ends_at = self._now_s() + self.plan.wall_s
        self._advance(None)

    def _advance(self, answer: Answered | None) -> None:
        # An answer that comes while a step is being asked waits here, so that the stack does not grow.
        self._answers.append(answer)
        if self._advancing:
            return
        self._advancing = True
        try:
            while self._answers:
                step = self._script.send(self._answers.popleft())
                self._ask(step, self._advance)
        except StopIteration as end:
            self._on_end(end.value)
        finally:
            self._advancing = False

    # --- the script ---

    def _whole(self) -> Script:
        try:
            outcome = yield from self._measure()
        except SideEnded as ended:
            outcome = ended.outcome
            self._sides.pop(ended.side, None)
        yield from self._close()
        return outcome

    def _measure(self) -> Script:
        for side in list(self._sides.values()):
            yield from self._unless_baseline(side, self._open(side))
        for side in list(self._sides.values()):
            yield from self._unless_baseline(side, self._hold_against_clock(side))
        yield from self._take_pairs()
        candidate = self._sides["candidate"]
        if not candidate.cold_us:
            return failed("not-timed", f"not one sample fits into {self.plan.wall_s:g} s")
        baseline = self._sides.get("baseline")
        opened = candidate.opened
        return {
            "done": {
                "candidate": candidate.series(),
                "baseline": None if baseline is None else baseline.series(),
                "baseline_failed": self._baseline_failed,
                "pool_entries": opened["pool_entries"],
                "pool_bytes": opened["pool_bytes"],
                "flush_bytes": opened["flush_bytes"],
                "outputs": self._outputs,
            }
        }

    def _unless_baseline(self, side: _Side, steps: Script) -> Script:
        """Do the steps of a side; a baseline that fails is left out from then on, and why is remembered."""
        try:
            return (yield from steps)
        except SideEnded as ended:
            if side.name == "candidate":
                raise
            self._baseline_failed = _told(ended.outcome)
            # After this it is asked nothing any more, but one that lives gives its memory back.
            self._sides.pop("baseline")
            if "died" not in ended.outcome:
                yield Step("baseline", "time-close", {}, _CLOSE_WALL_S)
            return None

    def _call(self, side: _Side, op: str, **message: Any) -> Script:
        """Ask a side; `(done, wall_us)`. Raises SideEnded."""
        share = _BASELINE_SHARE if side.name == "baseline" else 1.0
        wall_s = max(self._left_s() * share, _SHORTEST_WALL_S)
        answered = yield Step(side.name, op, message, wall_s)
        if "done" not in answered.outcome:
            raise SideEnded(side.name, answered.outcome)
        return answered.outcome["done"], answered.wall_us

    def _left_s(self) -> float:
        return self._ends_at - self._now_s()

    def _open(self, side: _Side) -> Script:
        side.opened, _ = yield from self._call(side, "time-open")

    def _close(self) -> Script:
        for side in self._sides.values():
            # It answers or it is gone; either way it is over.
            yield Step(side.name, "time-close", {}, _CLOSE_WALL_S)

    # --- the claim ---

    def _hold_against_clock(self, side: _Side) -> Script:
        """What a batch takes by the runner's word and by the clock here, an empty batch taken off."""
        calls = _within(
            math.ceil(_CLAIM_SPARE * _CLAIM_US / max(side.opened["call_us"], 0.01)), _MOST_CLAIM_CALLS
        )
        for _ in range(_CLAIM_ATTEMPTS):
            full, empty = yield from self._batches(side, calls)
            wall_us = full[0][0] - min(*empty, _LARGEST_EMPTY_SHARE * full[0][0])
            if wall_us >= _CLAIM_US:
                made = self._calls_made(side, calls, full[0][1]["calls"])
                side.claimed_us, side.wall_us = full[0][1]["claimed_us"] / made, wall_us / made
                return
            # The estimate was too long: the same again with more calls.
            growth = min(max(_CLAIM_SPARE * _CLAIM_US / max(wall_us, 1.0), _CLAIM_SPARE), _LARGEST_CLAIM_STEP)
            calls = _within(math.ceil(calls * growth), _MOST_CLAIM_CALLS)
        told = f"no batch of up to {calls} calls takes {_CLAIM_US / 1e3:g} ms, so its time cannot be checked"
        raise SideEnded(side.name, failed("not-timed", told))

    def _calls_made(self, side: _Side, asked: int, told: int) -> int:
        """How many calls a batch was. Raises SideEnded: with more than were asked for each looks shorter."""
        most = asked + (_MOST_GRAPH_CALLS - 1 if side.opened["method"] == "graph" else 0)
        if asked <= told <= most:
            return told
        why = f"its process says that of {asked} calls that were asked for {told} were made"
        raise SideEnded(side.name, failed("not-timed", why))

    def _batches(self, side: _Side, calls: int) -> Script:
        """Wall clocks of full batches, the shortest first and each with its answer, and of empty ones."""
        full: list[tuple[float, Fields]] = []
        empty: list[float] = []
        for _ in range(_CLAIM_REPEATS):
            done, wall_us = yield from self._call(side, "time-claim", calls=calls, empty=False)
            full.append((wall_us, done))
            _, wall_us = yield from self._call(side, "time-claim", calls=calls, empty=True)
            empty.append(wall_us)
            is_too_short = full[0][0] - empty[0] < _CLAIM_US
            if is_too_short or full[0][0] > _LONG_CLAIM_US:
                break
        full.sort(key=lambda taken: taken[0])
        return full, empty

    # --- the pairs ---

    def _take_pairs(self) -> Script:
        target_us = self._sample_target_us()
        for side in self._sides.values():
            side.plan_sample(target_us)
        longest_s, began_s = 0.0, self._now_s()
        for taken in range(self.plan.pairs):
            if taken and not self._has_time_for(longest_s, taken):
                return
            order = list(self._sides.values())
            if self._random.random() < 0.5:
                order.reverse()
            for side in order:
                yield from self._unless_baseline(side, self._take_sample(side, target_us, taken))
            now_s = self._now_s()
            longest_s, began_s = max(longest_s, now_s - began_s), now_s

    def _sample_target_us(self) -> float:
        samples = max(self.plan.pairs, 1) * len(self._sides)
        return min(_SAMPLE_US, max(self._left_s(), 0.0) * _PLANNED_SHARE * 1e6 / samples)

    def _has_time_for(self, pair_s: float, taken: int) -> bool:
        """Whether one more pair fits; below the fewest pairs the margin for closing is smaller."""
        closing_s = min(self.plan.wall_s * _CLOSING_SHARE, _LONGEST_CLOSING_S)
        if taken < _FEWEST_PAIRS:
            closing_s /= 4
        return self._left_s() > pair_s + closing_s

    def _take_sample(self, side: _Side, target_us: float, taken: int) -> Script:
        fields = {"cold_calls": side.cold_calls, "warm_calls": side.warm_calls}
        sample, wall_us = yield from self._call(side, "time-sample", **fields)
        side.cold_us.append(sample["cold_us"])
        side.warm_us.append(sample["warm_us"])
        side.empty_us.append(sample["empty_us"])
        side.adapt(wall_us, target_us)
        # Each sample replaces the one that was kept with such a chance that in the end all had the same,
        # however many were taken.
        if side.name == "candidate" and self._random.randrange(taken + 1) == 0:
            kept, _ = yield from self._call(side, "time-keep")
            self._outputs = kept["outputs"]


def _within(count: float, most: int) -> int:
    return int(min(max(count, 1), most))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _told(outcome: Outcome) -> str:
    """An outcome that is not `done`, in one line."""
    if "raised" in outcome:
        raised = outcome["raised"]
        return f"{raised['exception']}: {raised['message']}"
    if "died" in outcome:
        died = outcome["died"]
        return f"its process ended ({died['reason']})"
    return str(outcome["failed"]["message"])
