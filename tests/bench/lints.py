"""How long the server takes from a keystroke to the static findings of a 5,000-line file.

usage: python tests/bench/lints.py [WARPSMITH] [KEYSTROKES]

Each keystroke makes one range of the last kernel legal or illegal, so each brings one notification. The
figures are those of the build that is measured: a debug build is many times slower than a release build.
Nothing is asserted.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from editor import Editor

LINES = 5_000
KERNEL = """

@triton.autotune(configs=[triton.Config({"BLOCK": block}) for block in (64, 128)], key=["n"])
@triton.jit
def kernel_NUMBER(x_ptr, y_ptr, n, x_row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_row_stride + offsets, mask=offsets < n, other=0.0)
        total += x.to(tl.float32) * tl.exp(x.to(tl.float32))
    tl.store(y_ptr + row, tl.sum(total, axis=0))


def launch_NUMBER(x):
    y = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    kernel_NUMBER[(x.shape[0],)](x, y, x.shape[1], x.stride(0))
    return y
"""
LAST = """

@triton.jit
def last(x_ptr):
    tl.store(x_ptr + tl.arange(0, 64), 0)
"""


def text_of(lines: int) -> str:
    """A file of at least so many lines."""
    text = "import torch\nimport triton\nimport triton.language as tl\n"
    number = 0
    while text.count("\n") < lines:
        text += KERNEL.replace("NUMBER", str(number))
        number += 1
    return text + LAST


def main() -> None:
    """Measures and prints."""
    root = Path(__file__).parents[2]
    binary = sys.argv[1] if len(sys.argv) > 1 else str(root / "target" / "debug" / "warpsmith")
    keystrokes = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    text = text_of(LINES)
    line = text.count("\n") - 1
    column = text.splitlines()[-1].index("64")
    editor = Editor([binary, "lsp"], dict(os.environ))
    uri = "file:///bench/kernels.py"
    document = {"uri": uri, "languageId": "python", "version": 1, "text": text}
    editor.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})
    times_ms: list[float] = []
    for keystroke in range(keystrokes):
        version = keystroke + 2
        start = {"line": line, "character": column}
        end = {"line": line, "character": column + 2}
        change = {"range": {"start": start, "end": end}, "text": "65" if keystroke % 2 == 0 else "64"}
        began = time.perf_counter()
        editor.send(
            {
                "method": "textDocument/didChange",
                "params": {
                    "textDocument": {"uri": uri, "version": version},
                    "contentChanges": [change],
                },
            }
        )
        arrived = editor.wait(
            lambda message, version=version: (
                message.get("method") == "textDocument/publishDiagnostics"
                and message["params"].get("version") == version
            ),
            60,
        )
        times_ms.append((arrived - began) * 1e3)
    times_ms.sort()
    p99 = times_ms[min(len(times_ms) - 1, int(len(times_ms) * 0.99))]
    median = statistics.median(times_ms)
    print(f"{text.count(chr(10))} lines, {keystrokes} keystrokes, {binary}")
    print(f"keystroke to findings: median {median:.1f} ms, p99 {p99:.1f} ms")
    editor.close()


if __name__ == "__main__":
    main()
