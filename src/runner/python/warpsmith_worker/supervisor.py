"""The launched process: JSON lines on stdio, runners behind it.

One thread, one selector. It never imports user code nor torch. Every request gets exactly one reply; when
stdin ends, everything below it is killed and it leaves.
"""

import contextlib
import json
import os
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from . import PROTOCOL_VERSION, limits, messages, own_files, procfs
from .cases import Cases
from .channel import ChannelError, Message
from .device_start import Device, DeviceStart
from .environment import Unavailable, installed_versions, unusable_reason
from .requests import Requests
from .runners import Job, Outcome, Runner, failed, tell_assertion
from .zygote_link import ZygoteLink

_READ_BYTES = 1 << 20
_MEMORY_POLL_S = 0.1
_PROGRESS_EVERY_S = 0.1
_SWEEP_EVERY_S = 0.01
_SWEEP_AT_MOST_S = 2.0
_GOODBYE_AT_MOST_S = 2.5
_MOST_ZYGOTE_DEATHS = 3
_SPARES = 1
# A time needs two processes at once, and a context takes a quarter of a second.
_SPARES_ON_A_GPU = 2
# Of a socket whose process ended, so that what it said before counts.
_LAST_READS = 64


def main(device: str | None = None, visible: str | None = None) -> None:
    """Run until stdin ends or SIGTERM; `device` names the GPU for people, `visible` for CUDA, if any."""
    protocol_out = os.dup(1)
    # Nothing but the protocol may reach the reader of stdout.
    os.dup2(2, 1)
    limits.adopt_orphans()
    gpu = Device(device, visible) if device is not None and visible is not None else None
    supervisor = Supervisor(protocol_in=0, protocol_out=protocol_out, device=gpu)
    status = 1
    try:
        supervisor.run()
        status = 0
    except Exception:
        # A fault of ours: the server sees stdout end. Nothing may survive this process all the same.
        traceback.print_exc()
    kill_descendants()
    os._exit(status)


class Supervisor:
    """Dispatches requests, watches the runners, answers."""

    def __init__(self, protocol_in: int, protocol_out: int, device: Device | None = None) -> None:
        self.protocol_in = protocol_in
        self.protocol_out = protocol_out
        self.device = device
        self.device_start = DeviceStart(self) if device is not None else None
        self.is_warm = False
        """Whether runners may be asked; without a GPU once the zygote is."""
        self.selector = selectors.DefaultSelector()
        self.unread = bytearray()
        self.unavailable: Unavailable | None = None
        self.waiting_for_warm: list[Message] = []
        self.zygote: ZygoteLink | None = None
        self.zygote_deaths = 0
        self.own_files = own_files.digest()
        self.judge: Runner | None = None
        self.spares: list[Runner] = []
        """Warm and unused; on a GPU with a context."""
        self.runners: dict[str, Runner] = {}
        self.by_name: dict[str, Runner] = {}
        """Every live runner by the name that the zygote knows."""
        self.spawned = 0
        self.cases = Cases()
        self.requests = Requests(self)
        self.progress_sent: dict[str, float] = {}
        self.next_memory_poll = 0.0
        self.sweep_until: float | None = None
        self.after_sweep: list[Callable[[], None]] = []
        self.leaving = False

    # --- loop ---

    def run(self) -> None:
        self._watch_signals()
        self.selector.register(self.protocol_in, selectors.EVENT_READ, self._read_requests)
        versions = installed_versions()
        self._say(
            {
                "ev": "ready",
                "protocol": PROTOCOL_VERSION,
                "pid": os.getpid(),
                "python": ".".join(map(str, sys.version_info[:3])),
                **vars(versions),
                **({} if self.device is None else {"device": self.device.name}),
            }
        )
        reason = unusable_reason(versions, sys.executable)
        if reason:
            self.become_unavailable(reason)
        else:
            self._start_zygote()
        while not self.leaving:
            for key, _events in self.selector.select(self._pause_s()):
                # A callback may have unregistered this one.
                if key.fd in self.selector.get_map():
                    key.data()
            self._tick()

    def _watch_signals(self) -> None:
        wake_in, wake_out = os.pipe()
        os.set_blocking(wake_in, False)
        os.set_blocking(wake_out, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

        def read_signals() -> None:
            numbers = os.read(wake_in, 4096)
            if any(number != signal.SIGCHLD for number in numbers):
                self.leaving = True
            else:
                self._start_sweep()

        self.selector.register(wake_in, selectors.EVENT_READ, read_signals)

    def _pause_s(self) -> float | None:
        now = time.monotonic()
        moments = [runner.deadline for runner in self.by_name.values() if runner.deadline is not None]
        if self._busy_candidates():
            moments.append(self.next_memory_poll)
        if self.sweep_until is not None:
            moments.append(now + _SWEEP_EVERY_S)
        return max(0.0, min(moments) - now) if moments else None

    def _busy_candidates(self) -> list[Runner]:
        return [runner for runner in self.runners.values() if runner.current is not None]

    def _tick(self) -> None:
        now = time.monotonic()
        for runner in list(self.by_name.values()):
            if runner.deadline is not None and now >= runner.deadline:
                runner.deadline = None
                # Without a socket it had its grace to end by itself.
                runner.stop("exit" if runner.is_broken else "timeout")
            self._watch_channel(runner)
        if now >= self.next_memory_poll:
            self.next_memory_poll = now + _MEMORY_POLL_S
            for runner in self._busy_candidates():
                if runner.memory_over_limit():
                    runner.stop("memory")
        if self.sweep_until is not None:
            self._sweep()

    # --- stdio ---

    def _say(self, line: dict[str, Any]) -> None:
        data = memoryview(json.dumps(line, allow_nan=False).encode("ascii") + b"\n")
        try:
            while data:
                data = data[os.write(self.protocol_out, data) :]
        except OSError:
            self.leaving = True

    def reply(self, request: Message, outcome: Outcome) -> None:
        self._say({"id": request["id"], **outcome})

    def _read_requests(self) -> None:
        try:
            data = os.read(self.protocol_in, _READ_BYTES)
        except OSError:
            data = b""
        if not data:
            self.leaving = True
            return
        self.unread += data
        while (end := self.unread.find(b"\n")) >= 0:
            line = bytes(self.unread[:end])
            del self.unread[: end + 1]
            if line.strip():
                self._accept_line(line)

    def _accept_line(self, line: bytes) -> None:
        try:
            request = json.loads(line)
            if not isinstance(request["id"], int):
                raise TypeError("`id` is not a number")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            print(f"warpsmith worker: a line that is no request: {error}", file=sys.stderr, flush=True)
            return
        if self.unavailable:
            self.reply(request, failed(self.unavailable.code, self.unavailable.message))
        elif self.zygote is None or not self.zygote.is_warm or not self.is_warm:
            self.waiting_for_warm.append(request)
        else:
            self.requests.serve(request)

    # --- processes ---

    def _start_zygote(self) -> None:
        self.zygote = ZygoteLink(self.device)
        self.selector.register(self.zygote.channel.sock, selectors.EVENT_READ, self._hear_zygote)
        self.selector.register(self.zygote.output.read_end, selectors.EVENT_READ, self.zygote.output.read)

    def _hear_zygote(self) -> None:
        zygote = self.zygote
        if zygote is None:
            return
        try:
            heard, is_open = zygote.channel.receive_available()
        except ChannelError:
            heard, is_open = [], False
        for message, _descriptors in heard:
            self._obey_zygote(message)
        if not is_open and self.unavailable is None:
            self._zygote_died(zygote)

    def _obey_zygote(self, message: Message) -> None:
        kind = message["ev"]
        if kind == "warm":
            self.zygote.is_warm = True
            if self.device_start is not None:
                self.device_start.begin(message)
            else:
                self.become_warm(message)
        elif kind == "unavailable":
            self.become_unavailable(Unavailable(message["code"], message["message"]))
        elif kind == "spawned":
            runner = self.by_name[message["name"]]
            runner.spawned(message["pid"])
            runner.start_next()
        elif kind == "exited":
            self._runner_ended(self.by_name[message["name"]], message["signal"], message["status"])

    def _zygote_died(self, zygote: ZygoteLink) -> None:
        """Its runners die with it; a new one is started, unless that keeps happening."""
        orphaned = list(self.by_name.values())
        for source in (zygote.channel.sock, zygote.output.read_end):
            if source in self.selector.get_map():
                self.selector.unregister(source)
        output = zygote.end()
        self.zygote = None
        self.zygote_deaths += 1
        message = f"the process that imports torch and Triton ended: {output[-4096:].strip()}"
        if not zygote.is_warm or self.zygote_deaths >= _MOST_ZYGOTE_DEATHS:
            self.become_unavailable(Unavailable("worker-failed", message))
        elif own_files.digest() != self.own_files:
            told = f"{message}; it is not started again because warpsmith's own files were changed meanwhile"
            self.become_unavailable(Unavailable("worker-failed", told))
        else:
            self._start_zygote()
        for runner in orphaned:
            self._runner_ended(runner, None, None, outcome=failed("worker-failed", message))

    def become_warm(self, message: Message) -> None:
        """Runners can be forked from now on."""
        self.is_warm = True
        self._say(message)
        self.ensure_spares()
        waiting, self.waiting_for_warm = self.waiting_for_warm, []
        for request in waiting:
            self.requests.serve(request)

    def become_unavailable(self, reason: Unavailable) -> None:
        """Every request is answered with this reason from now on."""
        self.unavailable = reason
        self._say({"ev": "unavailable", "code": reason.code, "message": messages.clean_text(reason.message)})
        waiting, self.waiting_for_warm = self.waiting_for_warm, []
        for request in waiting:
            self.reply(request, failed(reason.code, reason.message))

    def spawn(self, kind: str) -> Runner:
        self.spawned += 1
        runner = Runner(f"{kind}-{self.spawned}", kind)
        if self.zygote is None:
            runner.ended(None, None, outcome=failed("worker-failed", "no process can be forked any more"))
            return runner
        self.by_name[runner.name] = runner
        self.zygote.spawn(runner)
        self.selector.register(runner.channel.sock, selectors.EVENT_READ, lambda: self._hear_runner(runner))
        self.selector.register(
            runner.output.read_end, selectors.EVENT_READ, lambda: self._read_output(runner)
        )
        return runner

    def take_spare(self) -> Runner:
        """The spare that was started first, or without any a new process."""
        return self.spares.pop(0) if self.spares else self.spawn("candidate")

    def ensure_spares(self) -> None:
        """Start what is missing, unless a context that opens would be waited for."""
        if self.zygote is None or not self.zygote.is_warm:
            return
        if any(runner.is_for_timing for runner in self.runners.values()):
            return
        while len(self.spares) < (_SPARES if self.device is None else _SPARES_ON_A_GPU):
            self.spares.append(self.spawn("candidate"))

    def _read_output(self, runner: Runner) -> None:
        runner.output.read()
        if not runner.output.is_open:
            self.selector.unregister(runner.output.read_end)

    def _watch_channel(self, runner: Runner) -> None:
        """Wait for room in a socket only while something waits to be sent."""
        if runner.is_broken:
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if runner.channel.has_unsent else 0)
        key = self.selector.get_map().get(runner.channel.sock)
        if key is not None and key.events != wanted:
            self.selector.modify(runner.channel.sock, wanted, key.data)

    def _hear_runner(self, runner: Runner) -> None:
        try:
            runner.channel.flush()
            heard, is_open = runner.channel.receive_available()
            for message, descriptors in heard:
                self._hear_message(runner, message, descriptors)
        except (ChannelError, messages.Malformed) as error:
            is_open = False
            runner.stop("exit", f"(it broke the worker's protocol: {error})")
        except OSError:
            is_open = False
        if not is_open and not runner.is_broken:
            self.selector.unregister(runner.channel.sock)
            runner.hang_up()

    def _hear_message(self, runner: Runner, message: Message, descriptors: list[int]) -> None:
        job = runner.current
        if runner.kind == "judge":
            runner.finish(message, descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)
        if "progress" in message:
            self._forward_progress(job, messages.PROGRESS(message["progress"]))
        elif job is None:
            raise messages.Malformed("an answer to nothing")
        else:
            answer = messages.candidate_answer(job.op, message)
            if self.device is not None:
                tell_assertion(answer, runner)
            runner.finish(answer, [])

    def _forward_progress(self, job: Job | None, progress: Message) -> None:
        if job is None or job.case is None:
            return
        now = time.monotonic()
        if now - self.progress_sent.get(job.case, 0.0) >= _PROGRESS_EVERY_S:
            self.progress_sent[job.case] = now
            self._say({"ev": "progress", "case": job.case, **progress})

    def _runner_ended(
        self, runner: Runner, signal_number: int | None, status: int | None, outcome: Outcome | None = None
    ) -> None:
        for _ in range(_LAST_READS):
            if not runner.is_broken:
                self._hear_runner(runner)
        for source in (runner.channel.sock, runner.output.read_end):
            if source in self.selector.get_map():
                self.selector.unregister(source)
        del self.by_name[runner.name]
        if runner in self.spares:
            self.spares.remove(runner)
        if runner is self.judge:
            self.judge = None
            outcome = outcome or _end_of_judge(runner, signal_number, status)
            self.cases.lose_all(outcome)
        runner.ended(signal_number, status, outcome)
        self._start_sweep()

    # --- what user code left behind ---

    def _start_sweep(self) -> None:
        self.sweep_until = time.monotonic() + _SWEEP_AT_MOST_S
        self._sweep()

    def _sweep(self) -> None:
        """Kill the processes that ended runners left behind: they are children of ours by now."""
        own = self.zygote.pid if self.zygote is not None else None
        strays = [pid for pid in procfs.children(os.getpid()) if pid != own]
        for pid in strays:
            _kill_and_reap(pid)
        if not strays or time.monotonic() >= (self.sweep_until or 0.0):
            self.sweep_until = None
            ready, self.after_sweep = self.after_sweep, []
            for action in ready:
                action()

    def when_swept(self, action: Callable[[], None]) -> None:
        self.after_sweep.append(action)
        self._start_sweep()


def _end_of_judge(runner: Runner, signal_number: int | None, status: int | None) -> Outcome:
    if runner.stop_reason == "timeout" and runner.current is not None:
        job = runner.current
        message = f"our own step `{job.op}` did not end within {job.wall_s:g} s and was stopped"
        return failed("judge-timeout", message)
    how = f"signal {signal_number}, status {status}: {runner.output.text()[-2048:]}"
    return failed("judge-died", f"the judge's process ended ({how})")


def kill_descendants() -> None:
    """Kill what is below this process. Orphans become its children, so no child left means none at all."""
    deadline = time.monotonic() + _GOODBYE_AT_MOST_S
    while (children := procfs.children(os.getpid())) and time.monotonic() < deadline:
        for pid in procfs.descendants(os.getpid()):
            _kill(pid)
        for pid in children:
            _kill_and_reap(pid)
        time.sleep(0.002)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _kill_and_reap(pid: int) -> None:
    _kill(pid)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
