"""Samples of the time of one call: cold and warm, by events or by a CUDA graph, and the host's share.

Nothing is compiled inside a sample: `warm_up` comes first. What a sample is made of is told at `Series` in
the server's `protocol/device.rs`.

The time of a call is the GPU's: before it the GPU is kept busy with flushes while the host submits it. Events
keep what two of them take with nothing in between (about 1 µs, told as `empty_us`), as other
benchmarks do; it is little against the 20 µs from which they are used. By graphs a cold call is a difference
of two graphs: of flushes with the calls and without.
"""

from __future__ import annotations

import math
import secrets
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .event_clock import Clock, Graph

Call = Callable[[], Any]

# User code may replace what the module holds.
_randbelow = secrets.randbelow

_WARM_UP_CALLS = 3
_WARM_UP_US = 25_000.0
# Calls in a row in which nothing was compiled and that were not much slower than the fastest one.
_QUIET_CALLS = 2
_MOST_COMPILING_CALLS = 30
_MOST_SLOW_CALLS = 60
_SLOW_FACTOR = 3.0
_SLOW_US = 5_000.0

_ESTIMATE_US = 1_500.0
_MOST_ESTIMATE_CALLS = 100
_HOST_CALLS = 5
# Calls as long as that are measured once where others are measured several times.
_SLOW_CALL_US = 100_000.0
_COLD_CALLS = 5
# A host is not always equally fast.
_LEAD_MARGIN = 1.5
_MOST_LEADING = 64
_MOST_FLUSHES_A_CALL = 16
# A GPU's queue takes about a thousand launches, and a call may consist of many.
_MOST_LED_CALLS = 32
_EMPTY_PAIRS = 9
_FLUSHES = 5
# Two measurements of the same thing differ by as much.
_HOST_MARGIN = 1.1
# A call that takes so many times as long as the host hides it, also when the host is slower than it was.
_SURELY_LONGER = 4.0

# Below it an event, of about 1 µs, is too coarse a clock.
GRAPH_BELOW_US = 20.0
_COLD_GRAPH_CALLS = 24
_WARM_GRAPH_CALLS = 100
_FEWEST_GRAPH_CALLS = 4
# What capturing one graph may take of the host.
_CAPTURE_US = 4_000.0
# A shorter call left nothing in the graph: the smallest kernel takes twice as long.
_NOTHING_US = 0.4
_NOTHING_REPLAYS = 3
_LONGEST_REASON = 300


class StillCompiling(RuntimeError):
    """Every call compiles something new, so no call can be timed without it."""


class _Kept:
    """What one of the calls of entry 0 returned. Which one is drawn once each has returned."""

    def __init__(self) -> None:
        self.value: Any = None
        self._offered = 0

    def offer(self, returned: Any, is_kept: bool) -> None:
        if is_kept:
            self._offered += 1
            if _randbelow(self._offered) == 0:
                self.value = returned


@dataclass
class _Graphs:
    cold: Graph
    """`cold_calls` times a flush and a call."""
    flushes: Graph
    """The flushes alone."""
    warm: Graph
    """`warm_calls` calls on one entry."""
    cold_calls: int
    warm_calls: int


class Sampler:
    """Times `calls`, which do the same on different memory. A call of entry 0 of each sample is kept."""

    def __init__(
        self, clock: Clock, calls: list[Call], spoil: Callable[[Any], None] = lambda _returned: None
    ) -> None:
        """`spoil` overwrites what a graph returned, so that its next replay has to write it anew."""
        self.clock = clock
        self.calls = calls
        self._spoil = spoil
        self.graphs: _Graphs | None = None
        self.graph_refused = ""
        self.is_host_bound = False
        self.is_paced_by_host = False
        """Whether calls in a row take as long as the host takes to submit them."""
        self.host_us = self.call_us = 0.0
        self.empty_us = self.flush_us = 0.0
        self._fastest_us = 0.0
        self.last: Any = None
        """What a call of entry 0 in the latest sample returned."""

    # --- before the first sample ---

    def warm_up(self, compiled: Callable[[], int]) -> None:
        """Call until nothing new is compiled; `compiled` counts what was. Raises StillCompiling."""
        began, fastest = self.clock.now_us(), float("inf")
        done = quiet = compiling = slow = 0
        while True:
            before, start = compiled(), self.clock.now_us()
            self.calls[done % len(self.calls)]()
            self.clock.synchronise()
            took = self.clock.now_us() - start
            done += 1
            if compiled() != before:
                compiling, quiet = compiling + 1, 0
                if compiling >= _MOST_COMPILING_CALLS:
                    raise StillCompiling(f"{compiling} of {done} calls compiled something new")
            elif took > _SLOW_FACTOR * fastest + _SLOW_US and slow < _MOST_SLOW_CALLS:
                slow, quiet = slow + 1, 0
            else:
                quiet += 1
            fastest = min(fastest, took)
            is_long_enough = self.clock.now_us() - began >= _WARM_UP_US
            if done >= _WARM_UP_CALLS and quiet >= _QUIET_CALLS and is_long_enough:
                self._fastest_us = fastest
                return

    def decide(self) -> None:
        """Estimate a call and choose how samples are taken."""
        self._make_room()
        self._measure_host()
        self._measure_empty()
        cold_us = self._cold_estimate()
        estimate = self._batch(1)
        count = min(int(_ESTIMATE_US / max(*estimate, 1.0)), _MOST_ESTIMATE_CALLS)
        if count > 1:
            estimate = self._batch(count)
        self.call_us = max(estimate)
        self.is_paced_by_host = estimate[0] <= _HOST_MARGIN * self.host_us
        # While the flush runs, the host submits the call.
        self.is_host_bound = self.flush_us + cold_us <= _HOST_MARGIN * self.host_us
        if cold_us < GRAPH_BELOW_US or self.is_host_bound:
            self._try_graphs()
            # Nothing is left that would hide the host between warm calls that wait for the GPU.
            self.is_host_bound |= self.graphs is None and self.is_paced_by_host
        self.clock.forget_events()

    def _make_room(self) -> None:
        """One result is kept while others come and go: its memory is not to be asked for in a sample."""
        if self._fastest_us < _SLOW_CALL_US:
            held = [self.calls[-1](), self.calls[-1]()]
            del held
            self.clock.synchronise()

    def _measure_host(self) -> None:
        taken = []
        for _ in range(_HOST_CALLS if self._fastest_us < _SLOW_CALL_US else 1):
            self.clock.synchronise()
            begin = self.clock.now_us()
            self.calls[-1]()
            taken.append(self.clock.now_us() - begin)
        self.clock.synchronise()
        self.host_us = statistics.median(taken)

    def _measure_empty(self) -> None:
        """Two events behind a flush with nothing between them, and the flush."""
        pairs = []
        for _ in range(_EMPTY_PAIRS):
            self.clock.flush()
            pairs.append((self.clock.record(), self.clock.record()))
        self.clock.flush()
        begin = self.clock.record()
        for _ in range(_FLUSHES):
            self.clock.flush()
        end = self.clock.record()
        self.clock.synchronise()
        self.empty_us = statistics.median(self.clock.elapsed_us(*pair) for pair in pairs)
        self.flush_us = self.clock.elapsed_us(begin, end) / _FLUSHES

    def _cold_estimate(self) -> float:
        """µs of a call behind so many flushes that the host had submitted it before they were over."""
        taken = []
        for _ in range(_COLD_CALLS if self._fastest_us < _SLOW_CALL_US else 1):
            self._lead(_LEAD_MARGIN * self.host_us)
            begin = self.clock.record()
            self.calls[-1]()
            end = self.clock.record()
            self.clock.synchronise()
            taken.append(self.clock.elapsed_us(begin, end))
        return statistics.median(taken)

    def _lead(self, host_us: float) -> None:
        """Keep the GPU busy for as long as the host takes, and a little more."""
        for _ in range(min(math.ceil(host_us / max(self.flush_us, 1.0)) + 1, _MOST_LEADING)):
            self.clock.flush()

    def _batch(self, count: int) -> tuple[float, float]:
        """Calls right after one another on one entry: µs a call by events, and on the host until the end."""
        call = self.calls[-1]
        self.clock.synchronise()
        call()
        started = self.clock.now_us()
        begin = self.clock.record()
        for _ in range(count):
            call()
        end = self.clock.record()
        self.clock.synchronise()
        return self.clock.elapsed_us(begin, end) / count, (self.clock.now_us() - started) / count

    # --- graphs ---

    def _try_graphs(self) -> None:
        try:
            graphs = self._capture_graphs()
        except Exception as error:
            # A fault of the GPU itself is none of the capture.
            self.clock.synchronise()
            first_line = (str(error).strip() or "no reason given").splitlines()[0]
            self.graph_refused = f"{type(error).__name__}: {first_line}"[:_LONGEST_REASON]
            return
        cold_us, _ = self._replayed_cold(graphs, _NOTHING_REPLAYS * graphs.cold_calls)
        if cold_us < _NOTHING_US:
            # What a call launches on a stream of its own runs during the capture and never again.
            self.graph_refused = "a replay does nothing on the GPU"
            return
        self.graphs = graphs
        self.call_us = self._replayed_warm(graphs, 1)

    def _capture_graphs(self) -> _Graphs:
        fitting = int(_CAPTURE_US / max(self.host_us, 1.0))
        cold_calls = max(min(fitting, _COLD_GRAPH_CALLS), _FEWEST_GRAPH_CALLS)
        warm_calls = max(min(fitting, _WARM_GRAPH_CALLS), _FEWEST_GRAPH_CALLS)

        def cold() -> Any:
            kept = _Kept()
            returned = None
            for call, is_kept in self._rotation(cold_calls):
                # What the last one returned goes first, as it does without a graph.
                returned = None
                self.clock.flush()
                returned = call()
                kept.offer(returned, is_kept)
            return kept.value

        def flushes() -> None:
            for _ in range(cold_calls):
                self.clock.flush()

        def warm() -> None:
            for _ in range(warm_calls):
                self.calls[-1]()

        capture = self.clock.capture
        graphs = _Graphs(capture(cold), capture(flushes), capture(warm), cold_calls, warm_calls)
        # The first replay of each loads what it needs.
        for graph in (graphs.cold, graphs.flushes, graphs.warm):
            graph.replay()
        self.clock.synchronise()
        return graphs

    def _rotation(self, count: int) -> list[tuple[Call, bool]]:
        """So many calls over the entries in turn, each with whether it is entry 0's; the first one is drawn.

        Nobody can foresee which call of a sample will be compared.
        """
        entries = len(self.calls)
        first = _randbelow(min(entries, count))
        return [(self.calls[(at - first) % entries], (at - first) % entries == 0) for at in range(count)]

    def _keep_busy(self) -> None:
        """Work for the GPU while the host submits the next launch, so that the GPU does not wait for it."""
        self.clock.flush()
        self.clock.flush()

    # --- samples ---

    def sample(self, cold_calls: int, warm_calls: int) -> dict[str, float]:
        """µs a call, cold and warm, and what was taken off (graphs) or is still inside (events)."""
        self.last = None
        self.clock.share_l2()
        if self.graphs is not None:
            # The values may come from the capture, of work that is in no graph.
            self._spoil(self.graphs.cold.returned)
            warm_us = self._replayed_warm(self.graphs, warm_calls)
            cold_us, empty_us = self._replayed_cold(self.graphs, cold_calls)
            self.last = self.graphs.cold.returned
        else:
            warm_us = self._warm(warm_calls)
            cold_us, empty_us = self._cold(cold_calls), self.empty_us
        self.clock.forget_events()
        return {"cold_us": max(cold_us, 0.0), "warm_us": max(warm_us, 0.0), "empty_us": max(empty_us, 0.0)}

    def _warm(self, count: int) -> float:
        if self.call_us > _SURELY_LONGER * self.host_us:
            return self._batch(count)[0]
        # The host submits all of them while the GPU is busy with something else.
        count = min(count, _MOST_LED_CALLS)
        self._lead(_LEAD_MARGIN * self.host_us * (count + 1))
        self.calls[-1]()
        begin = self.clock.record()
        for _ in range(count):
            self.calls[-1]()
        end = self.clock.record()
        self.clock.synchronise()
        return self.clock.elapsed_us(begin, end) / count

    def _cold(self, count: int) -> float:
        pairs, returned, kept = [], None, _Kept()
        # Twice: a host that is slower than usual once must not let the GPU wait.
        self._lead(2 * _LEAD_MARGIN * self.host_us)
        for call, is_kept in self._rotation(count):
            returned = None
            for _ in range(self._flushes_a_call()):
                self.clock.flush()
            begin = self.clock.record()
            returned = call()
            pairs.append((begin, self.clock.record()))
            kept.offer(returned, is_kept)
        self.clock.synchronise()
        self.last = kept.value
        return sum(self.clock.elapsed_us(*pair) for pair in pairs) / count

    def _flushes_a_call(self) -> int:
        """So many that they take longer than the host takes to submit the call behind them."""
        needed = math.ceil(_LEAD_MARGIN * self.host_us / max(self.flush_us, 1.0))
        return min(max(needed, 1), _MOST_FLUSHES_A_CALL)

    def _replayed_cold(self, graphs: _Graphs, count: int) -> tuple[float, float]:
        """µs a call with its flush taken off, and µs a flush."""
        replays = -(-count // graphs.cold_calls)
        events = []
        self._keep_busy()
        for _ in range(replays):
            begin = self.clock.record()
            graphs.cold.replay()
            middle = self.clock.record()
            graphs.flushes.replay()
            events.append((begin, middle, self.clock.record()))
        self.clock.synchronise()
        both = sum(self.clock.elapsed_us(begin, middle) for begin, middle, _ in events)
        flushes = sum(self.clock.elapsed_us(middle, end) for _, middle, end in events)
        calls = replays * graphs.cold_calls
        return (both - flushes) / calls, flushes / calls

    def _replayed_warm(self, graphs: _Graphs, count: int) -> float:
        replays = -(-count // graphs.warm_calls)
        self._keep_busy()
        # Brings back what the flush took.
        graphs.warm.replay()
        begin = self.clock.record()
        for _ in range(replays):
            graphs.warm.replay()
        end = self.clock.record()
        self.clock.synchronise()
        return self.clock.elapsed_us(begin, end) / (replays * graphs.warm_calls)

    # --- what is held against the supervisor's clock ---

    def claim(self, calls: int, *, empty: bool) -> dict[str, float | int]:
        """At least so many calls in a row, or as many times nothing: how many, and µs of all by events."""
        per_turn = 1 if self.graphs is None else self.graphs.warm_calls
        turns = -(-calls // per_turn)
        turn: Call = self.calls[-1] if self.graphs is None else self.graphs.warm.replay
        if empty:
            turn = _nothing
        begin = self.clock.record()
        for _ in range(turns):
            turn()
        end = self.clock.record()
        # Whatever the calls left running anywhere ends before the answer goes out.
        self.clock.synchronise()
        claimed_us = self.clock.elapsed_us(begin, end)
        self.clock.forget_events()
        return {"calls": turns * per_turn, "claimed_us": max(claimed_us, 0.0)}


def _nothing() -> None:
    return None
