"""The supervisor's side of the zygote: starts it and asks it for runners."""

import os
import socket
import subprocess
import sys

from .channel import Channel
from .device_start import Device
from .runners import Output, Runner

# One thread each: several cases may run at once, and a process with threads must not fork.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_WITHOUT_GPU = {
    "TRITON_INTERPRET": "1",
    # Nothing here may open a context on a GPU; what runs here runs on the CPU.
    "CUDA_VISIBLE_DEVICES": "",
}
# Triton looks whether they are there, and a runner decides itself whether it waits for launches.
_NOT_ON_GPU = ("TRITON_INTERPRET", "CUDA_LAUNCH_BLOCKING")


def environment_of(device: Device | None, inherited: dict[str, str]) -> dict[str, str]:
    """Environment of the zygote and its runners. On a GPU they see that one, as number 0, and no other."""
    if device is None:
        return {**inherited, **_ENVIRONMENT, **_WITHOUT_GPU}
    kept = {name: value for name, value in inherited.items() if name not in _NOT_ON_GPU}
    only = {"CUDA_VISIBLE_DEVICES": device.visible, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**kept, **_ENVIRONMENT, **only}


class ZygoteLink:
    """A running zygote process."""

    def __init__(self, device: Device | None = None) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, blocking=False)
        self.output = Output()
        self.is_warm = False
        main_file = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "main.py")
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-B",
                "-X",
                "utf8",
                main_file,
                str(theirs.fileno()),
                *([device.name] if device else []),
            ],
            env=environment_of(device, dict(os.environ)),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self.output.write_end,
            stderr=self.output.write_end,
            start_new_session=True,
        )
        theirs.close()
        self.output.give_away_write_end()

    @property
    def pid(self) -> int:
        return self._process.pid

    def spawn(self, runner: Runner) -> None:
        """Ask for a runner; it gets its socket and the pipe for its output."""
        if runner.their_socket is None:
            raise ValueError(f"{runner.name} was spawned already")
        descriptors = [runner.their_socket.fileno(), runner.output.write_end]
        self.channel.send({"op": "spawn", "name": runner.name, "kind": runner.kind}, descriptors)
        runner.their_socket.close()
        runner.their_socket = None
        runner.output.give_away_write_end()

    def end(self) -> str:
        """Kill it if it lives, reap it, and give back the end of what it printed."""
        self._process.kill()
        self._process.wait()
        self.output.read(most_reads=64)
        self.channel.close()
        self.output.close()
        return self.output.text()
