"""Imports torch and Triton once and forks the runners. Runs no user code and never touches CUDA."""

import gc
import os
import select
import signal
import socket
import sys
import time
from dataclasses import dataclass

from . import limits, procfs
from .channel import Channel, Message
from .runners import BLOCKING


@dataclass
class Start:
    """What a freshly forked runner is to become."""

    kind: str
    sock: socket.socket


def main(descriptor: int, device: str | None = None) -> None:
    """Import, then fork runners until the supervisor is gone; `device` is the GPU they are for, if any."""
    limits.die_with_parent(os.getppid())
    channel = Channel(socket.socket(fileno=descriptor), blocking=True)
    began = time.perf_counter()
    try:
        _import_everything(on_gpu=device is not None)
    except Exception as error:
        channel.send({"ev": "unavailable", **_import_failure(error)})
        channel.receive()
        return
    import_ms = (time.perf_counter() - began) * 1e3
    # The collector would otherwise write to every imported object, and the pages would no longer be shared.
    gc.collect()
    gc.freeze()
    channel.send({"ev": "warm", "import_ms": import_ms, "resident_bytes": procfs.resident_bytes(os.getpid())})
    start = _Zygote(channel).serve()
    if start is None:
        return
    # Here a runner begins, with nothing of the zygote left on its stack.
    if start.kind == "judge":
        from .judge import serve

        serve(start.sock, device)
    else:
        from .candidate import serve as serve_candidate

        serve_candidate(start.sock, on_gpu=device is not None, blocking=start.kind == BLOCKING)


def _import_everything(*, on_gpu: bool) -> None:
    sys.dont_write_bytecode = True
    if on_gpu:
        os.environ.pop("TRITON_INTERPRET", None)
    else:
        # Decided when Triton is imported: its library functions are interpreted as well.
        os.environ["TRITON_INTERPRET"] = "1"
    import numpy  # noqa: F401
    import torch
    import triton
    import triton.language

    if not on_gpu:
        import triton.runtime.interpreter  # noqa: F401

    torch.set_num_threads(1)
    from . import candidate, judge

    candidate.warm_up(on_gpu=on_gpu)
    judge.warm_up()
    if on_gpu and (torch.cuda.is_initialized() or getattr(torch._C, "_cuda_isInBadFork", bool)()):
        # A context does not survive a fork: every runner would fail.
        raise RuntimeError("CUDA was initialised before the fork")


def _import_failure(error: Exception) -> Message:
    package = (getattr(error, "name", None) or "").partition(".")[0]
    code = {"torch": "no-torch", "triton": "no-triton", "numpy": "no-numpy"}.get(package, "worker-failed")
    message = f"the packages of {sys.executable} cannot be imported: {type(error).__name__}: {error}"
    if isinstance(error, OSError) or (isinstance(error, ImportError) and code == "worker-failed"):
        code = "broken-packages"
        message += f' (repair: "{sys.executable}" -m pip install --force-reinstall torch triton)'
    return {"code": code, "message": message}


class _Zygote:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.names: dict[int, str] = {}
        self.wake_in, self.wake_out = os.pipe()
        for end in (self.wake_in, self.wake_out):
            os.set_blocking(end, False)

    def serve(self) -> Start | None:
        """Fork runners on request. Returns in each runner with its start, in the zygote at the end."""
        signal.set_wakeup_fd(self.wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([self.channel.sock, self.wake_in], [], [])
            if self.wake_in in ready:
                os.read(self.wake_in, 4096)
                self._reap()
            if self.channel.sock in ready:
                requests, is_open = self.channel.receive_available()
                for request, descriptors in requests:
                    start = self._spawn(request, descriptors)
                    if start is not None:
                        return start
                if not is_open:
                    return None

    def _reap(self) -> None:
        while self.names:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            signalled = os.WIFSIGNALED(status)
            self.channel.send(
                {
                    "ev": "exited",
                    "name": self.names.pop(pid, ""),
                    "signal": os.WTERMSIG(status) if signalled else None,
                    "status": None if signalled else os.WEXITSTATUS(status),
                }
            )

    def _spawn(self, request: Message, descriptors: list[int]) -> Start | None:
        sock_descriptor, output = descriptors
        zygote_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become_runner(zygote_pid, output)
            return Start(request["kind"], socket.socket(fileno=sock_descriptor))
        for descriptor in descriptors:
            os.close(descriptor)
        self.names[pid] = request["name"]
        self.channel.send({"ev": "spawned", "name": request["name"], "pid": pid})
        return None

    def _become_runner(self, zygote_pid: int, output: int) -> None:
        os.setsid()
        limits.die_with_parent(zygote_pid)
        # Daemons of user code stay below their runner while it lives, so its memory can be counted whole.
        limits.adopt_orphans()
        limits.forbid_core_dumps()
        limits.prefer_as_victim()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.channel.close()
        os.close(self.wake_in)
        os.close(self.wake_out)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
