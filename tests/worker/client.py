"""Starts the worker as the server does and speaks its protocol; for tests only."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORKER = ROOT / "src/runner/python/main.py"

LIMITS = {
    "import_wall_s": 60.0,
    "address_space_bytes": 16 << 30,
    "resident_bytes": 8 << 30,
    "output_tail_bytes": 65536,
    "device_bytes": 0,
}
TOLERANCE = {
    "reference_factor": 4.0,
    "absolute_ulp": 2.0**-20,
    "row_rms_factor": 2.0**-20,
    "tf32_row_rms_factor": 2.0**-9,
    "condition_factor": 0.0,
}
NORMAL = {"normal": {"mean": 0.0, "std": 1.0}}
SOFTMAX = "import torch\ndef run(x):\n    return torch.softmax(x.float(), -1).to(x.dtype)\n"
DOUBLE = "def run(x):\n    return x * 2\n"
JUDGE_WALL_S = 60.0
_PATIENCE_S = 120.0


class Worker:
    """A supervisor process, its replies by id, and a scratch folder for user files."""

    def __init__(
        self,
        python: str = sys.executable,
        environment: dict[str, str] | None = None,
        device: tuple[str, str] | None = None,
        main_file: Path = WORKER,
    ) -> None:
        """`device`: the GPU that it is started for, its name for people and what CUDA calls it."""
        self.folder = Path(tempfile.mkdtemp(prefix="warpsmith-test-"))
        on_device = ["--device", device[0], "--visible", device[1]] if device else []
        with open(self.folder / "stderr.txt", "wb") as stderr:
            self.process = subprocess.Popen(
                [python, "-I", "-X", "utf8", str(main_file), *on_device],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **(environment or {})},
            )
        self.buffer = b""
        self.replies: dict[int, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.next_id = 0
        self.names = 0

    def close(self) -> None:
        """End it the way the server does: close its stdin."""
        self.process.stdin.close()
        self.process.wait(timeout=10)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def stderr(self) -> str:
        return (self.folder / "stderr.txt").read_text(errors="replace")

    # --- protocol ---

    def send(self, op: str, **fields: Any) -> int:
        self.next_id += 1
        line = json.dumps({"id": self.next_id, "op": op, **fields})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return self.next_id

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        return self.reply_to(self.send(op, **fields))

    def reply_to(self, request_id: int) -> dict[str, Any]:
        while request_id not in self.replies:
            self._read()
        reply = self.replies.pop(request_id)
        outcomes = [key for key in reply if key != "id"]
        if len(outcomes) != 1:
            raise AssertionError(f"a reply has one outcome: {reply}")
        return reply

    def event(self, kind: str) -> dict[str, Any]:
        while not (found := [event for event in self.events if event["ev"] == kind]):
            self._read()
        return found[0]

    def _read(self) -> None:
        ready, _, _ = select.select([self.process.stdout], [], [], _PATIENCE_S)
        if not ready:
            raise AssertionError(f"the worker says nothing; its stderr:\n{self.stderr()}")
        data = os.read(self.process.stdout.fileno(), 1 << 20)
        if not data:
            raise AssertionError(f"the worker ended; its stderr:\n{self.stderr()}")
        *lines, self.buffer = (self.buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "ev" in message:
                self.events.append(message)
            else:
                if message["id"] in self.replies:
                    raise AssertionError(f"two replies to one request: {message}")
                self.replies[message["id"]] = message

    # --- conveniences ---

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def write(self, source: str, name: str = "kernel.py") -> Path:
        """Write a user file in a folder of its own."""
        folder = self.folder / self.fresh("user")
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        return path

    def open_file(self, path: Path, runner: str | None = None, **changes: Any) -> dict[str, Any]:
        """Open a copy of the file, as the server does."""
        copy = self.folder / self.fresh("copy") / path.name
        copy.parent.mkdir()
        shutil.copy(path, copy)
        limits = {**LIMITS, **{key: changes.pop(key) for key in list(changes) if key in LIMITS}}
        fields = {
            "runner": runner or self.fresh("runner"),
            "path": str(path),
            "text_path": str(copy),
            "entry": "kernel_fn",
            "search_paths": [],
            "environment": {},
            "limits": limits,
        }
        return self.ask("open", **{**fields, **changes})

    def open_source(self, source: str, runner: str, **changes: Any) -> dict[str, Any]:
        return self.open_file(self.write(source), runner, **changes)

    def define(
        self,
        name: str,
        reference: str,
        reference_f64: str | None = None,
        wall_s: float = JUDGE_WALL_S,
        *,
        is_named: bool = False,
    ) -> dict[str, Any]:
        sources = {"reference": reference, "reference_f64": reference_f64, "is_named": is_named}
        return self.ask("define", definition=name, **sources, wall_s=wall_s)

    def prepare(
        self, definition: str, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], **more: Any
    ) -> str:
        """Prepare a case that must succeed; returns its name."""
        case = self.fresh("case")
        reply = self.ask(
            "prepare",
            case=case,
            definition=definition,
            seed=more.get("seed", 7),
            inputs=inputs,
            outputs=outputs,
            wall_s=JUDGE_WALL_S,
        )
        if reply.get("done") != {}:
            raise AssertionError(f"prepare: {reply}")
        return case

    def run_fields(self, runner: str, case: str, **changes: Any) -> dict[str, Any]:
        fields = {
            "runner": runner,
            "case": case,
            "arguments": [{"parameter": "x", "input": "x"}],
            "wall_s": 60.0,
            "interpreter": {"max_programs": None, "compare_values": True},
            "hold": False,
        }
        return {**fields, **changes}

    def run_case(self, runner: str, case: str, **changes: Any) -> dict[str, Any]:
        return self.ask("run", **self.run_fields(runner, case, **changes))

    def compare(self, case: str, outputs: int = 1, **changes: Any) -> dict[str, Any]:
        tolerance = changes.pop("tolerance", TOLERANCE)
        fields = {
            "tolerances": [tolerance] * outputs,
            "written_only": False,
            "null_candidates": False,
            "wall_s": JUDGE_WALL_S,
            "exact_if_agree": False,
        }
        return self.ask("compare", case=case, **{**fields, **changes})


def tensor(name: str, shape: list[int], dtype: str = "float32", **changes: Any) -> dict[str, Any]:
    """A tensor input, contiguous unless `strides` are given."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    spec = {
        "kind": "tensor",
        "name": name,
        "dtype": dtype,
        "shape": shape,
        "strides": strides,
        "fill": NORMAL,
    }
    return {**spec, **changes}


def scalar(name: str, value: Any) -> dict[str, Any]:
    return {"kind": "scalar", "name": name, "value": value}


def output(name: str, shape: list[int], dtype: str = "float32") -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": shape}


def processes_below(pid: int) -> list[int]:
    """Every living descendant of a process."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields and fields[0] != "Z":
                parents[int(name)] = int(fields[1])
    found, level = [], [pid]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        found.extend(level)
    return found


def stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat after the command's name: state, parent, …"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if (fields := stat_fields(pid)) and fields[0] not in ("Z", "X")]


def wait_until_gone(pids: list[int], seconds: float) -> list[int]:
    """Those that still live after that time."""
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive(pids)
