"""What opening a kernel costs: until the lens is there, and while nothing is done.

    WARPSMITH_PYTHON=… python tests/bench/opening.py BINARY OUT.json --commit C [--nvim NVIM] [--vscode]

- at the server: from `didOpen` to the answer with the lens, in a fresh process (its start counted apart) and
  in one that runs;
- the same of a kernel of 5,000 lines;
- an idle server: resident memory, and processor time in 20 s;
- `--nvim`: in Neovim, see `nvim_open.lua`, with fresh caches: the worker starts with the first save;
- `--vscode`: in VS Code, see `vscode_open.mjs`, whose variables must be set; the size of VSCODE_VSIX.

Nothing is asserted. The load of the machine before and after is in the record: figures of a busy machine are
upper bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from editor import Editor
from first_verdict import environment_of, resident

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "kernels/triton/softmax.py"
REPEATS = 30
NVIM_REPEATS = 5
VSCODE_REPEATS = 3
IDLE_S = 20


def spread(values_ms: list[float]) -> dict[str, float]:
    """Median, 95th percentile and extremes."""
    ordered = sorted(values_ms)
    return {
        "n": len(ordered),
        "median_ms": round(statistics.median(ordered), 2),
        "p95_ms": round(ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))], 2),
        "min_ms": round(ordered[0], 2),
        "max_ms": round(ordered[-1], 2),
    }


def open_to_lens(editor: Editor, file: Path, text: str, request: int) -> float:
    """Milliseconds from the open to the answer with a lens, asked for at once as editors do."""
    began = time.perf_counter()
    editor.open(file, text)
    document = {"textDocument": {"uri": file.as_uri()}}
    editor.send({"id": request, "method": "textDocument/codeLens", "params": document})
    at = editor.wait(lambda message: message.get("id") == request and bool(message.get("result")), 30)
    return (at - began) * 1e3


def long_kernel(lines: int) -> str:
    """The starter, with more functions that do the same until it has so many lines."""
    text = KERNEL.read_text()
    number = 0
    while text.count("\n") < lines:
        number += 1
        body = "    total = 0\n    for one in range(x):\n        total += one * y\n    return total\n"
        text += f"\n\ndef host_{number}(x, y):\n{body}"
    return text


def measure_server(binary: str) -> dict[str, Any]:
    """In processes of their own and in one that runs; then what an idle one costs."""
    text, long_text = KERNEL.read_text(), long_kernel(5000)
    started, fresh, warm, long_opened = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        home = {"XDG_CACHE_HOME": folder, "XDG_STATE_HOME": folder}
        environment = {**os.environ, **home}
        for _ in range(REPEATS):
            began = time.perf_counter()
            editor = Editor([binary, "lsp"], environment)
            started.append((time.perf_counter() - began) * 1e3)
            fresh.append(open_to_lens(editor, Path(folder) / "kernel.py", text, 100))
            editor.close()
        editor = Editor([binary, "lsp"], environment)
        for number in range(REPEATS):
            warm.append(open_to_lens(editor, Path(folder) / f"kernel{number}.py", text, 100 + number))
        for number in range(REPEATS):
            file = Path(folder) / f"long{number}.py"
            long_opened.append(open_to_lens(editor, file, long_text, 1000 + number))
        editor.close()
        editor = Editor([binary, "lsp"], environment)
        open_to_lens(editor, Path(folder) / "kernel.py", text, 100)
        before = processor_ticks(editor.server.pid)
        time.sleep(IDLE_S)
        ticks = processor_ticks(editor.server.pid) - before
        idle = {
            **resident(editor.server.pid),
            "seconds": IDLE_S,
            "processor_ms": ticks * 1000 // os.sysconf("SC_CLK_TCK"),
        }
        editor.close()
    return {
        "start_to_initialized": spread(started),
        "open_to_lens_fresh": spread(fresh),
        "open_to_lens_warm": spread(warm),
        "open_to_lens_5000_lines": {**spread(long_opened), "lines": long_text.count("\n")},
        "idle": idle,
    }


def processor_ticks(pid: int) -> int:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def measure_nvim(binary: str, nvim: str) -> dict[str, Any]:
    """Fresh Neovims with fresh caches."""
    runs = []
    for _ in range(NVIM_REPEATS):
        with tempfile.TemporaryDirectory() as home:
            script = [str(ROOT / "tests/bench/nvim_open.lua"), str(KERNEL), "10"]
            environment = {
                **os.environ,
                "XDG_CACHE_HOME": home,
                "XDG_STATE_HOME": home,
                "WARPSMITH_BIN": binary,
                "WARPSMITH_TEST_SERVER": "real",
            }
            ran = subprocess.run(
                [nvim, "--clean", "-u", str(ROOT / "tests/editors/nvim/init.lua"), "-l", *script],
                capture_output=True,
                text=True,
                check=True,
                env=environment,
            )
            said = ran.stdout + ran.stderr
            runs.append(json.loads(next(line for line in said.splitlines() if line.startswith("{"))))
    return {
        "open_to_lens_with_start_of_the_server": spread([run["first_open_ms"] for run in runs]),
        "open_to_lens": spread([each for run in runs for each in run["later_open_ms"]]),
        "first_save_to_error": spread([run["first_verdict_ms"] for run in runs]),
    }


def measure_vscode() -> dict[str, Any]:
    """Fresh VS Codes with fresh caches. Modules are found above a script, so scripts are copied below."""
    runs = []
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        (root / "node_modules").symlink_to(os.environ["VSCODE_MODULES"])
        shutil.copytree(ROOT / "tests/editors/vscode", root / "editors/vscode")
        (root / "bench").mkdir()
        script = shutil.copy(ROOT / "tests/bench/vscode_open.mjs", root / "bench")
        for repeat in range(VSCODE_REPEATS):
            home = str(root / f"home{repeat}")
            environment = {**os.environ, "XDG_CACHE_HOME": home, "XDG_STATE_HOME": home}
            ran = subprocess.run(
                [os.environ["VSCODE_NODE"], str(script), str(KERNEL), "7"],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
            )
            if ran.returncode == 0:
                runs.append(json.loads(ran.stdout.splitlines()[-1]))
            else:
                print(ran.stderr[-2000:], file=sys.stderr)
    return {
        "package_bytes": Path(os.environ["VSCODE_VSIX"]).stat().st_size,
        "activation": spread([run["activation_ms"] for run in runs]),
        "workbench": spread([run["workbench_ms"] for run in runs]),
        "window_to_first_lens": spread([run["first_lens_ms"] for run in runs]),
        "tab_to_lens": spread([each for run in runs for each in run["later_open_ms"]]),
        "first_save_to_error": spread([run["first_verdict_ms"] for run in runs]),
    }


def main() -> None:
    """Writes the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("out", type=Path)
    parser.add_argument("--commit", required=True, help="of the binary")
    parser.add_argument("--nvim")
    parser.add_argument("--vscode", action="store_true")
    given = parser.parse_args()
    binary = str(Path(given.binary).resolve())
    record: dict[str, Any] = {
        "schema": "warpsmith.bench.opening/1",
        **environment_of(binary, dict(os.environ)),
        "commit": given.commit,
        "load_before": os.getloadavg(),
        "server": measure_server(binary),
    }
    if given.nvim:
        record["nvim"] = measure_nvim(binary, given.nvim)
    if given.vscode:
        record["vscode"] = measure_vscode()
    record["load_after"] = os.getloadavg()
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
