"""How long a verdict takes, and where the time goes.

    WARPSMITH_PYTHON=… python tests/bench/first_verdict.py target/release/warpsmith [OUT.json] [--warm]

Measures on this machine, with nothing else running:

- cold: `warpsmith check --stage smoke` as a process of its own, with its timeline;
- all: the same with all stages, for each starter;
- warm: in a language server that has checked before, from the save to the Error of a wrong kernel, and to the
  end of the check of a right one (all stages);
- resident memory of the server alone, and of everything below it.

`--warm` leaves out what needs fresh processes. Where there is a GPU, kernels run there, and a right one is
timed before its check ends.

Nothing is asserted. Figures are medians with the smallest and largest of `n` repeats.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from editor import Editor

ROOT = Path(__file__).resolve().parents[2]
STARTERS = ["softmax", "rmsnorm", "matmul"]
COLD_REPEATS = 5
WARM_REPEATS = 5
STAGE_REPEATS = 3
CHECK_LIMIT_S = 120
# Nobody saves sooner after a verdict; the processes that the check before used are replaced meanwhile.
PAUSE_S = 2.0


def spread(values_ms: list[float]) -> dict[str, float]:
    """Median and extremes."""
    return {
        "n": len(values_ms),
        "median_ms": round(statistics.median(values_ms), 1),
        "min_ms": round(min(values_ms), 1),
        "max_ms": round(max(values_ms), 1),
    }


def check(binary: str, arguments: list[str], environment: dict[str, str]) -> tuple[float, dict[str, Any]]:
    """Wall clock of one check in milliseconds, and its summary."""
    began = time.perf_counter()
    process = subprocess.run(
        [binary, "check", "--json", "--no-setup", *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    elapsed_ms = (time.perf_counter() - began) * 1e3
    return elapsed_ms, json.loads(process.stdout.splitlines()[-1])


def measure_checks(binary: str, environment: dict[str, str]) -> dict[str, Any]:
    """Fresh processes: the smoke stage of softmax, and all stages of every starter."""
    softmax = str(ROOT / "kernels/triton/softmax.py")
    smoke = [check(binary, ["--stage", "smoke", softmax], environment) for _ in range(COLD_REPEATS)]
    phases = {
        phase: spread([summary["timeline_ms"][phase] for _, summary in smoke])
        for phase in smoke[0][1]["timeline_ms"]
    }
    everything = {}
    for name in STARTERS:
        file = str(ROOT / f"kernels/triton/{name}.py")
        runs = [check(binary, [file], environment) for _ in range(STAGE_REPEATS)]
        everything[name] = {**spread([elapsed for elapsed, _ in runs]), "cases": runs[0][1]["cases"]}
    return {
        "cold_smoke_softmax": {**spread([elapsed for elapsed, _ in smoke]), "timeline": phases},
        "cold_all_stages": everything,
    }


def is_verdict(message: dict[str, Any], errors: bool) -> bool:
    """Diagnostics with an Error that is not marked stale, or none at all."""
    if message.get("method") != "textDocument/publishDiagnostics":
        return False
    diagnostics = message["params"]["diagnostics"]
    fresh = [d for d in diagnostics if d["severity"] == 1 and not d["message"].startswith("(stale)")]
    return bool(fresh) if errors else not diagnostics


def measure_server(binary: str, environment: dict[str, str]) -> dict[str, Any]:
    """Saves that alternate between a wrong and a right softmax, in one server."""
    right = (ROOT / "kernels/triton/softmax.py").read_text()
    wrong = right.replace("result, mask=inside)", "result)")
    assert right != wrong
    to_error, to_clear = [], []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "softmax.py"
        file.write_text(right)
        editor = Editor([binary, "lsp"], environment)
        editor.open(file, right)
        for repeat in range(WARM_REPEATS + 1):
            # The repeat's number makes each text new: an unchanged one is answered from memory.
            time.sleep(PAUSE_S)
            saved = editor.save(file, f"{wrong}\n\nREPEAT = {repeat}\n", 2 * repeat + 2)
            at = editor.wait(lambda message: is_verdict(message, errors=True), CHECK_LIMIT_S)
            time.sleep(PAUSE_S)
            saved_again = editor.save(file, f"{right}\n\nREPEAT = {repeat}\n", 2 * repeat + 3)
            cleared = editor.wait(lambda message: is_verdict(message, errors=False), CHECK_LIMIT_S)
            if repeat > 0:
                to_error.append((at - saved) * 1e3)
                to_clear.append((cleared - saved_again) * 1e3)
        memory = resident(editor.server.pid)
        editor.close()
    return {
        "warm_save_to_error": spread(to_error),
        "warm_save_to_passed_all_stages": spread(to_clear),
        "memory": memory,
    }


def resident(pid: int) -> dict[str, float]:
    """Resident set of the server, and the proportional set of everything below it, in MB."""
    below, frontier = [], [pid]
    while frontier:
        parent = frontier.pop()
        for task in Path(f"/proc/{parent}/task").iterdir():
            children = [int(child) for child in (task / "children").read_text().split()]
            below += children
            frontier += children
    return {
        "server_resident_mb": round(_field(f"/proc/{pid}/status", "VmRSS:") / 1e3, 1),
        "processes_below": len(below),
        "below_proportional_mb": round(
            sum(_field(f"/proc/{child}/smaps_rollup", "Pss:") for child in below) / 1e3, 1
        ),
    }


def _field(path: str, name: str) -> int:
    """A value in kB of a file of /proc."""
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def environment_of(binary: str, environment: dict[str, str]) -> dict[str, Any]:
    """What the figures depend on."""
    _, summary = check(
        binary, ["--stage", "smoke", "--dtype", "f32", str(ROOT / "kernels/triton/softmax.py")], environment
    )
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": {
            "cpu": models[0].split(":", 1)[1].strip() if models else platform.processor(),
            "cores": os.cpu_count(),
            "gpu": summary["provenance"]["gpu"],
            "system": platform.platform(terse=True),
        },
        "provenance": summary["provenance"],
    }


def main() -> None:
    """Runs everything and prints (and writes) the record."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--warm"]
    binary, warm_only = str(Path(arguments[0]).resolve()), "--warm" in sys.argv
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "XDG_CACHE_HOME": f"{home}/cache", "XDG_STATE_HOME": f"{home}/state"}
        record = {
            "schema": "warpsmith.bench.first-verdict/1",
            **environment_of(binary, environment),
            **({} if warm_only else measure_checks(binary, environment)),
            **measure_server(binary, environment),
        }
    text = json.dumps(record, indent=2) + "\n"
    if len(arguments) > 1:
        Path(arguments[1]).write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
