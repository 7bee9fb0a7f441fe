"""How long the server takes from a keystroke to what it shows, in a file of 5,000 lines and in real ones.

usage: python tests/bench/lints.py WARPSMITH [RECORD.json] [FILE.py …]

Without files a synthetic one is typed in: 46 kernels, each with the function that launches it. Three things
are timed, each as an editor sees it:

- `open_to_lens`: from the first `didOpen` to the lenses, in a server that has just started, 10 servers;
- `finding`: each keystroke makes a range of a kernel in the middle legal or illegal, until the diagnostics of
  that version are there;
- `typing`: a line of code is typed into that kernel, character by character, and taken back: most of these
  texts are broken. Diagnostics come only when they change, so the answer to a request behind the keystroke is
  waited for: the loop answers it when it has looked at the text.

Each keystroke has two figures: the time on the clock, which is longer where other programs want the same
cores, and the CPU time that all threads of the server took for it. The figures are those of the build that is
measured: a debug build is many times slower than a release build. Nothing is asserted.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from editor import Editor

KERNELS = 46
LINES = 5_000
KEYSTROKES = 400
SERVERS = 10
URI = "file:///bench/kernels.py"
TYPED = "    extra = tl.load(x_ptr + row * x_row_stride + tl.arange(0, BLOCK), mask=(n > 0), other='é')\n"

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"
KERNEL = """

@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block in (64, 128) for warps in (4, 8)],
    key=["n"],
)
@triton.jit
def kernel_NUMBER(x_ptr, y_ptr, n, x_row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], dtype=tl.float32)
"""
STEP = """    # step STEP of NUMBER
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row_stride + offsets, mask=offsets < n, other=0.0)
        scaled = x.to(tl.float32) * tl.exp(x.to(tl.float32) - STEP)
        total += tl.where(offsets < n, scaled, 0.0)
"""
TAIL = """    tl.store(y_ptr + row, tl.sum(total, axis=0))


def launch_NUMBER(x):
    y = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    kernel_NUMBER[(x.shape[0],)](x, y, x.shape[1], x.stride(0))
    return y
"""
ODD = "    tl.store(x_ptr + tl.arange(0, 64), 0)\n"


def synthetic() -> str:
    """46 kernels in some 5,000 lines."""
    steps = (LINES // KERNELS - KERNEL.count("\n") - TAIL.count("\n")) // STEP.count("\n")
    text = HEAD
    for number in range(KERNELS):
        body = "".join(STEP.replace("STEP", str(step)) for step in range(steps))
        text += (KERNEL + body + TAIL).replace("NUMBER", str(number))
    return text


def with_odd_store(text: str) -> tuple[str, int, str]:
    """The text with one store more in the kernel nearest to the middle, its line, and the store."""
    lines = text.splitlines(keepends=True)
    kernels = [at for at, line in enumerate(lines) if line.strip().startswith("@triton.jit")]
    if not kernels:
        sys.exit("there is no kernel in this file")
    at = min(kernels, key=lambda line: abs(line - len(lines) // 2))
    # The first line of the body: behind the signature, and behind a docstring that would follow it.
    while not lines[at].split("#")[0].rstrip().endswith(":"):
        at += 1
    lines.insert(at + 1, ODD)
    return "".join(lines), at + 1, ODD


class Typist:
    """A document of a server that is being edited."""

    def __init__(self, binary: str, text: str) -> None:
        self.editor = Editor([binary, "lsp"], dict(os.environ))
        self.version = 1
        self.request = 100
        self.cpu_ms: list[float] = []
        began = time.perf_counter()
        document = {"uri": URI, "languageId": "python", "version": 1, "text": text}
        self.editor.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
        self.open_to_lens_ms = (self.answer() - began) * 1e3

    def answer(self) -> float:
        """When a request is answered."""
        self.request += 1
        asked = self.request
        params = {"textDocument": {"uri": URI}}
        self.editor.send({"id": asked, "method": "textDocument/codeLens", "params": params})
        return self.editor.wait(lambda message: message.get("id") == asked and "result" in message, 60)

    def replace(self, start: tuple[int, int], end: tuple[int, int], text: str) -> float:
        """Sends an edit; when it was sent."""
        self.version += 1
        places = [{"line": line, "character": column} for line, column in (start, end)]
        change = {"range": {"start": places[0], "end": places[1]}, "text": text}
        params = {"textDocument": {"uri": URI, "version": self.version}, "contentChanges": [change]}
        began = time.perf_counter()
        self.editor.send({"method": "textDocument/didChange", "params": params})
        return began

    def cpu(self) -> float:
        """Milliseconds that the threads of the server have run."""
        tasks = Path(f"/proc/{self.editor.server.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e6

    def published(self) -> float:
        """When the diagnostics of this version are there."""
        version = self.version
        return self.editor.wait(
            lambda message: (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"].get("version") == version
            ),
            60,
        )

    def timed(self, keystroke: Callable[[], float], shown: Callable[[], float]) -> tuple[float, float]:
        """The times of one keystroke in milliseconds: on the clock, and of the CPU."""
        before = self.cpu()
        began = keystroke()
        elapsed_ms = (shown() - began) * 1e3
        return elapsed_ms, self.cpu() - before

    def toggle(self, line: int, column: int) -> list[tuple[float, float]]:
        """Makes a range legal and illegal in turns."""
        put = lambda size: self.replace((line, column), (line, column + 2), size)  # noqa: E731
        sizes = ["64" if keystroke % 2 else "65" for keystroke in range(KEYSTROKES)]
        return [self.timed(lambda size=size: put(size), self.published) for size in sizes]

    def type(self, line: int) -> list[tuple[float, float]]:
        """Types lines and takes them back, one character a keystroke."""
        times: list[tuple[float, float]] = []
        columns = range(len(TYPED) - 1)
        put = lambda at: self.replace((line, at), (line, at), TYPED[at])  # noqa: E731
        take = lambda at: self.replace((line, at), (line, at + 1), "")  # noqa: E731
        while len(times) < KEYSTROKES:
            self.replace((line, 0), (line, 0), "\n")
            self.answer()
            times.extend(self.timed(lambda at=at: put(at), self.answer) for at in columns)
            times.extend(self.timed(lambda at=at: take(at), self.answer) for at in reversed(columns))
            self.replace((line, 0), (line + 1, 0), "")
        return times[:KEYSTROKES]


def summary(times_ms: list[float]) -> dict[str, Any]:
    """What is said of several times."""
    ordered = sorted(times_ms)
    return {
        "n": len(ordered),
        "p50_ms": round(statistics.median(ordered), 2),
        "p99_ms": round(ordered[int((len(ordered) - 1) * 0.99)], 2),
        "max_ms": round(ordered[-1], 2),
    }


def of_keystrokes(times: list[tuple[float, float]]) -> dict[str, Any]:
    """Both figures of keystrokes."""
    return {"clock": summary([clock for clock, _ in times]), "cpu": summary([cpu for _, cpu in times])}


def measure(binary: str, name: str, text: str) -> dict[str, Any]:
    """All figures of one text."""
    text, line, odd = with_odd_store(text)
    opened = []
    for _ in range(SERVERS):
        typist = Typist(binary, text)
        opened.append(typist.open_to_lens_ms)
        typist.editor.close()
    typist = Typist(binary, text)
    finding = typist.toggle(line, odd.index("64"))
    typing = typist.type(line)
    typist.editor.close()
    return {
        "file": name,
        "lines": text.count("\n"),
        "bytes": len(text.encode()),
        "kernels": text.count("@triton.jit"),
        "open_to_lens": summary(opened),
        "finding": of_keystrokes(finding),
        "typing": of_keystrokes(typing),
    }


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    models = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    return {
        "cpu": models[0].split(":", 1)[1].strip() if models else platform.processor(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "system": platform.platform(terse=True),
    }


def main() -> None:
    """Measures, prints and writes the record."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary = str(Path(sys.argv[1]).resolve())
    files = [Path(argument) for argument in sys.argv[2:] if argument.endswith(".py")]
    records = [Path(argument) for argument in sys.argv[2:] if argument.endswith(".json")]
    texts = [(file.name, file.read_text()) for file in files] or [("synthetic", synthetic())]
    root = Path(__file__).parents[2]
    commit = subprocess.run(
        ["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    record = {
        "schema": "warpsmith.bench.keystrokes/1",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "machine": machine(),
        "files": [measure(binary, name, text) for name, text in texts],
    }
    text = json.dumps(record, indent=1) + "\n"
    for path in records:
        path.write_text(text)
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
