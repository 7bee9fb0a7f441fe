"""The supervisor's record of one runner process: its socket, its output, its jobs and how it ended."""

import contextlib
import fcntl
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import cuda_errors, messages, procfs
from .channel import Channel, Message

_PIPE_BYTES = 1 << 20
_DEFAULT_TAIL_BYTES = 64 << 10
_READ_BYTES = 256 << 10
# From the end of a runner's socket to the end of its process.
_GRACE_S = 0.5

BLOCKING = "blocking candidate"
"""Kind of a runner on a GPU that waits for every launch: decided before its context opens."""

Outcome = dict[str, Any]
"""`{"done": …}`, `{"raised": …}`, `{"died": …}` or `{"failed": …}`."""


def failed(code: str, message: str) -> Outcome:
    """The outcome of a request that could not be served."""
    return {"failed": {"code": code, "message": messages.clean_text(message)}}


@dataclass
class Limits:
    """Limits of a code runner, as in the protocol."""

    import_wall_s: float
    address_space_bytes: int
    resident_bytes: int
    output_tail_bytes: int
    device_bytes: int = 0
    """Of no meaning without a GPU; 0: no limit of ours."""


@dataclass
class Job:
    """One message to a runner that wants one answer."""

    op: str
    message: Message
    on_outcome: Callable[[Outcome, list[int]], None]
    """Called once, with the descriptors that came along (the callee's to close)."""
    descriptors: list[int] = field(default_factory=list)
    """Sent with the message; the job's own, closed when it was sent or given up."""
    wall_s: float | None = None
    case: str | None = None
    """The case that progress messages belong to."""

    def close_descriptors(self) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


class Output:
    """Reads a runner's stdout and stderr from a pipe and keeps the newest bytes."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        # The limit of all pipes together may be reached.
        with contextlib.suppress(OSError, AttributeError):
            fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        self.tail_bytes = _DEFAULT_TAIL_BYTES
        self._tail = bytearray()
        self.is_open = True

    def read(self, most_reads: int = 16) -> None:
        """Read what is there, at most `most_reads` buffers, so that one runner cannot hold up the others."""
        for _ in range(most_reads):
            if not self.is_open:
                return
            try:
                data = os.read(self.read_end, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self.is_open = False
            self._tail += data
            if len(self._tail) > self.tail_bytes:
                del self._tail[: len(self._tail) - self.tail_bytes]

    def text(self) -> str:
        """The end of what was printed."""
        return bytes(self._tail).decode("utf-8", "replace")

    def give_away_write_end(self) -> None:
        """Close our copy of the end that the runner writes to."""
        if self.write_end >= 0:
            os.close(self.write_end)
            self.write_end = -1

    def close(self) -> None:
        self.give_away_write_end()
        if self.read_end >= 0:
            os.close(self.read_end)
            self.read_end = -1
        self.is_open = False


class Runner:
    """One process forked by the zygote: the judge or a candidate."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, blocking=False)
        self.their_socket: socket.socket | None = theirs
        self.output = Output()
        self.limits: Limits | None = None
        self.pid: int | None = None
        self._pidfd: int | None = None
        self.jobs: deque[Job] = deque()
        self.current: Job | None = None
        self.deadline: float | None = None
        self.stop_reason: str | None = None
        """Why we killed it: `timeout`, `memory`, `killed` or `exit` (it broke the protocol)."""
        self.is_for_timing = False
        """No spare is started before it is closed."""
        self.oom_kills_before = procfs.oom_kills()
        self.note = ""
        """A sentence of ours that goes under its output."""
        self.shown_paths: tuple[str, str] | None = None
        """What stands in its output, and what people should read instead: the copy's path, the file's."""
        self.death: Outcome | None = None
        self.is_broken = False
        """Its socket is of no more use; its end is awaited."""

    def spawned(self, pid: int) -> None:
        """The zygote forked it."""
        self.pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except OSError:
            # Gone already (its end is on the way), or a kernel without pidfd.
            self._pidfd = None
        if self.stop_reason:
            self._kill()

    def submit(self, job: Job) -> None:
        """Queue a job; a dead runner answers at once."""
        if self.death is not None:
            job.close_descriptors()
            job.on_outcome(self.death, [])
        else:
            self.jobs.append(job)
            self.start_next()

    def start_next(self) -> None:
        """Send the next job when nothing runs. Its wall clock starts now."""
        is_usable = self.pid is not None and not self.is_broken and self.stop_reason is None
        if self.current or not self.jobs or not is_usable:
            return
        job = self.current = self.jobs.popleft()
        self.deadline = None if job.wall_s is None else time.monotonic() + job.wall_s
        # When it is ending, its socket says so as well.
        with contextlib.suppress(OSError):
            self.channel.send({"op": job.op, **job.message}, job.descriptors)
        job.close_descriptors()

    def finish(self, outcome: Outcome, descriptors: list[int]) -> None:
        """The current job has its answer."""
        job, self.current, self.deadline = self.current, None, None
        if job is not None:
            job.on_outcome(outcome, descriptors)
        self.start_next()

    def stop(self, reason: str, note: str = "") -> None:
        """Kill the process and its group; jobs are answered once its end is confirmed."""
        if self.death is None and self.stop_reason is None:
            self.stop_reason = reason
            self.note = note
            self._kill()

    def _kill(self) -> None:
        if self.pid is None:
            return
        try:
            if self._pidfd is not None:
                # Fails when the zygote has reaped it: only then could its number name someone else.
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def hang_up(self) -> None:
        """Its socket ended, normally because it is ending: wait for that, but not for long."""
        self.is_broken = True
        self.deadline = time.monotonic() + _GRACE_S

    def ended(self, signal_number: int | None, status: int | None, outcome: Outcome | None = None) -> None:
        """The process is gone: answer whatever it still owes, with `outcome` when given."""
        self.output.read(most_reads=64)
        self.death = outcome or {"died": self._how_it_died(signal_number, status)}
        self.close()
        owed = [self.current, *self.jobs]
        self.current, self.deadline = None, None
        self.jobs.clear()
        for job in owed:
            if job is not None:
                job.close_descriptors()
                job.on_outcome(self.death, [])

    def _how_it_died(self, signal_number: int | None, status: int | None) -> dict[str, Any]:
        output = messages.clean_text(self.shown_output())
        reason = self.stop_reason
        if reason == "exit":
            # The signal was ours.
            signal_number = None
        elif (
            reason is None and signal_number == signal.SIGKILL and procfs.oom_kills() > self.oom_kills_before
        ):
            reason = "memory"
        elif reason is None:
            reason = "signal" if signal_number is not None else "exit"
        return {"reason": reason, "signal": signal_number, "status": status, "output": output}

    def shown_output(self) -> str:
        """The end of its output for people, with the user's own path in it."""
        text = self.output.text()
        if self.shown_paths:
            text = text.replace(*self.shown_paths)
        return f"{text}\n{self.note}" if self.note else text

    def memory_over_limit(self) -> bool:
        """Whether it and its descendants hold more resident memory than allowed."""
        if self.pid is None or self.limits is None:
            return False
        members = [self.pid, *procfs.descendants(self.pid)]
        limit = self.limits.resident_bytes
        # Forked helpers share most pages, so only the costlier proportional figure decides.
        return (
            sum(map(procfs.resident_bytes, members)) > limit
            and sum(map(procfs.proportional_bytes, members)) > limit
        )

    def close(self) -> None:
        """Close every descriptor of ours."""
        self.is_broken = True
        self.channel.close()
        self.output.close()
        if self.their_socket is not None:
            self.their_socket.close()
            self.their_socket = None
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def tell_assertion(answer: Outcome, runner: Runner) -> None:
    """Put the text of a device-side assertion into the message: the driver only prints it."""
    raised = answer.get("raised")
    if raised is None or raised["code"] != "device-assert":
        return
    runner.output.read()
    found = cuda_errors.assertion_in(runner.shown_output())
    if found is None:
        return
    line, file, number = found
    raised["message"] = f"{line} ({raised['message']})"
    if runner.shown_paths and file == runner.shown_paths[1]:
        raised["place"] = {"file": file, "line": number}
