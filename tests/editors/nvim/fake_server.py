#!/usr/bin/env python3
"""A stand-in for warpsmith: speaks the editor's side of its contract and runs no kernel.

Its judge is one rule that the tests know: a load or store without a mask is out of bounds. It answers like
the real program to `lsp`, `doctor`, `doctor --json` and `--version`.

`FAKE_STEP_MS` is how long each of the three steps of a check takes; `FAKE_LOG` names a file that gets every
message from the editor, one JSON object a line; `FAKE_SLOW_FIRST_LENS_MS` holds the answer to the first
request for lenses. With `FAKE_TIMED` it also has a GPU: what passed has a time in its lens. Behind the line
of `def kernel_fn` there is one always.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from pathlib import Path
from typing import Any

KERNEL = re.compile(r"@triton\.jit\s*\ndef\s+(?P<name>\w+)")
ACCESS = re.compile(r"tl\.(load|store)\((?!.*\bmask=)")
STEPS = 3
STEP_S = int(os.environ.get("FAKE_STEP_MS", "30")) / 1000
SLOW_FIRST_LENS_S = int(os.environ.get("FAKE_SLOW_FIRST_LENS_MS", "0")) / 1000
TIME = "1.83× torch (412 ± 3 µs · f16 4096×4096 · 91 % of a copy of these bytes)"
SHORT_TIME = "1.83× torch · 412 µs"
IN_LENS = f" · {TIME}" if os.environ.get("FAKE_TIMED") else ""
VERSION = os.environ.get("FAKE_VERSION", "0.1.0")
DOCTOR = [
    {"name": "python", "state": "found", "detail": "3.11"},
    {"name": "gpu", "state": "missing", "detail": "no NVIDIA driver", "remedy": "install one"},
]
Message = dict[str, Any]


class Document:
    """One open file with what is known of it."""

    def __init__(self, uri: str, version: int, text: str) -> None:
        self.uri, self.version, self.text = uri, version, text
        self.judged: str | None = None
        """The text that the verdict belongs to."""
        self.bad_lines: list[int] = []

    def kernels(self) -> list[tuple[str, int]]:
        """Name and 0-based line of each kernel."""
        found = KERNEL.finditer(self.text)
        return [(match["name"], self.text.count("\n", 0, match.start("name"))) for match in found]

    def title(self) -> str:
        """What the lenses say; a verdict of another text is marked."""
        if self.judged is None:
            return "▶ check"
        stale = "" if self.judged == self.text else " (stale)"
        passed = f"✓ torch ref · 3 shapes · f32{IN_LENS}"
        return ("✗ wrong: out-of-bounds" if self.bad_lines else passed) + stale

    def hints(self) -> list[Message]:
        """The time behind the function that launches; nothing of what is wrong or was not judged."""
        if self.judged is None or self.bad_lines:
            return []
        stale = "" if self.judged == self.text else " (stale)"
        lines = enumerate(self.text.split("\n"))
        return [
            {
                "position": {"line": number, "character": len(line)},
                "label": SHORT_TIME + stale,
                "paddingLeft": True,
            }
            for number, line in lines
            if line.startswith("def kernel_fn(")
        ]


class Server:
    """The protocol side."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.cancelled = threading.Event()
        self.job: threading.Thread | None = None
        self.ids = iter(range(1, 1 << 30))
        self.writing = threading.Lock()
        self.lens_requests = 0

    def send(self, message: Message) -> None:
        """Writes one message."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        with self.writing:
            sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            sys.stdout.buffer.flush()

    def notify(self, method: str, params: Message) -> None:
        """Sends a notification."""
        self.send({"method": method, "params": params})

    def ask(self, method: str, params: Message | None = None) -> None:
        """Sends a request whose answer does not matter."""
        self.send({"id": f"fake-{next(self.ids)}", "method": method, "params": params})

    def serve(self) -> int:
        """Answers until `exit`."""
        while (message := read_message()) is not None:
            record(message)
            if message.get("method") == "exit":
                return 0
            self.handle(message)
        return 1

    def handle(self, message: Message) -> None:
        """Takes one message from the editor."""
        method, params = message.get("method"), message.get("params") or {}
        if method in ("textDocument/didOpen", "textDocument/didChange"):
            item = params["textDocument"]
            text = item["text"] if method.endswith("didOpen") else params["contentChanges"][-1]["text"]
            self.edited(item["uri"], item["version"], text)
        elif method == "textDocument/didSave":
            self.check(params["textDocument"]["uri"])
        elif method == "window/workDoneProgress/cancel":
            self.cancelled.set()
        elif "id" in message and method:
            self.answer(message["id"], method, params)

    def edited(self, uri: str, version: int, text: str) -> None:
        """Keeps the newest text."""
        document = self.documents.setdefault(uri, Document(uri, version, text))
        document.version, document.text = version, text

    def answer(self, number: int | str, method: str, params: Message) -> None:
        """Answers one request."""
        if method == "initialize":
            self.send({"id": number, "result": initialize_result()})
        elif method == "textDocument/codeLens":
            self.answer_lenses(number, params["textDocument"]["uri"])
        elif method == "textDocument/inlayHint":
            document = self.documents[params["textDocument"]["uri"]]
            self.send({"id": number, "result": document.hints()})
        elif method == "workspace/executeCommand":
            self.execute(number, params)
        else:
            self.send({"id": number, "result": None})

    def answer_lenses(self, number: int | str, uri: str) -> None:
        """Answers with the lenses of now; the first answer may be held back."""
        document = self.documents[uri]
        reply = {"id": number, "result": [lens(document, name, line) for name, line in document.kernels()]}
        self.lens_requests += 1
        if self.lens_requests == 1 and SLOW_FIRST_LENS_S:
            threading.Timer(SLOW_FIRST_LENS_S, self.send, [reply]).start()
        else:
            self.send(reply)

    def execute(self, number: int | str, params: Message) -> None:
        """Runs `warpsmith.check` or `warpsmith.cancel`."""
        target = params["arguments"][0]
        uri, kernel = target["uri"], target.get("kernel")
        if params["command"] == "warpsmith.cancel":
            self.cancelled.set()
        elif kernel is not None and kernel not in dict(self.documents[uri].kernels()):
            self.send({"id": number, "error": {"code": -32602, "message": f"no kernel {kernel}"}})
            return
        else:
            self.check(uri)
        self.send({"id": number, "result": {"job": 1}})

    def check(self, uri: str) -> None:
        """Starts a check of the text of now; a running one is cancelled first."""
        self.cancelled.set()
        if self.job:
            self.job.join()
        self.cancelled = threading.Event()
        document = self.documents[uri]
        job = (document, document.text, self.cancelled)
        self.job = threading.Thread(target=self.run, args=job, daemon=True)
        self.job.start()

    def run(self, document: Document, text: str, cancelled: threading.Event) -> None:
        """The job: progress, then diagnostics, then new lenses."""
        token = f"job-{next(self.ids)}"
        self.ask("window/workDoneProgress/create", {"token": token})
        name = document.uri.rsplit("/", 1)[-1]
        self.progress(token, kind="begin", title=f"checking {name}", cancellable=True, percentage=0)
        for step in range(1, STEPS + 1):
            if cancelled.wait(STEP_S):
                self.progress(token, kind="end", message="cancelled")
                return
            done = f"{step}/{STEPS} M={step} N=127 · f32"
            self.progress(token, kind="report", message=done, percentage=100 * step // STEPS)
        lines = text.split("\n")
        document.judged, document.bad_lines = text, [n for n, line in enumerate(lines) if ACCESS.search(line)]
        found = [diagnostic(line, len(lines[line])) for line in document.bad_lines]
        self.notify(
            "textDocument/publishDiagnostics",
            {"uri": document.uri, "version": document.version, "diagnostics": found},
        )
        self.progress(token, kind="end", message=document.title())
        self.ask("workspace/codeLens/refresh")
        self.ask("workspace/inlayHint/refresh")

    def progress(self, token: str, **value: object) -> None:
        """Sends one progress message."""
        self.notify("$/progress", {"token": token, "value": value})


def diagnostic(line: int, width: int) -> Message:
    """The one finding that there is."""
    return {
        "range": {"start": {"line": line, "character": 0}, "end": {"line": line, "character": width}},
        "severity": 1,
        "source": "warpsmith",
        "code": "out-of-bounds",
        "message": "store of element 1000 of y, which has 1000 (M=1 N=1000 · f32)",
    }


def lens(document: Document, name: str, line: int) -> Message:
    """The lens of one kernel."""
    place = {"line": line, "character": 4}
    command = {
        "title": document.title(),
        "command": "warpsmith.check",
        "arguments": [{"uri": document.uri, "kernel": name}],
    }
    return {"range": {"start": place, "end": place}, "command": command}


def initialize_result() -> Message:
    """What the real server offers, as far as the plug-in depends on it."""
    return {
        "capabilities": {
            "positionEncoding": "utf-8",
            "textDocumentSync": {"openClose": True, "change": 1, "save": {"includeText": True}},
            "codeLensProvider": {},
            "inlayHintProvider": True,
            "executeCommandProvider": {"commands": ["warpsmith.check", "warpsmith.cancel"]},
        },
        "serverInfo": {"name": "warpsmith", "version": VERSION},
    }


def read_message() -> Message | None:
    """The next message from the editor; `None` at the end of the stream."""
    length = 0
    while (header := sys.stdin.buffer.readline().strip()) != b"":
        name, _, value = header.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return json.loads(sys.stdin.buffer.read(length)) if length else None


def record(message: Message) -> None:
    """Keeps a message for the test to read."""
    if path := os.environ.get("FAKE_LOG"):
        with Path(path).open("a", encoding="utf-8") as log:
            log.write(json.dumps(message) + "\n")


def main() -> int:
    """Command line, as far as the plug-in uses it."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        print(f"warpsmith {VERSION}")
    elif arguments == ["doctor", "--json"]:
        print(json.dumps({"schema": "warpsmith.doctor/1", "can_check": True, "checks": DOCTOR}))
    elif arguments[:1] == ["doctor"]:
        print("\n".join(f"{check['name']}: {check['detail']}" for check in DOCTOR))
        print("\n".join([*arguments[1:], os.environ.get("WARPSMITH_PYTHON", "")]).strip())
    elif arguments == ["lsp"]:
        return Server().serve()
    else:
        return 64
    return 0


if __name__ == "__main__":
    sys.exit(main())
