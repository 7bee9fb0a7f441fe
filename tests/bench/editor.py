"""A minimal editor for measurements: frames on pipes, no library."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty, Queue
from typing import Any

Message = dict[str, Any]


class Editor:
    """One language server and the messages that it sent, each with the time of its arrival."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self.messages: Queue[tuple[float, Message]] = Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.send(
            {
                "id": 1,
                "method": "initialize",
                "params": {
                    "processId": None,
                    "rootUri": None,
                    "capabilities": {"experimental": {"workspaceTrust": True}},
                    "initializationOptions": {"untrustedWorkspace": False},
                },
            }
        )
        self.wait(lambda message: message.get("id") == 1, 20)
        self.send({"method": "initialized", "params": {}})

    def send(self, message: Message) -> None:
        """Writes one frame."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.server.stdin is not None
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.server.stdin.flush()

    def wait(self, wanted: Callable[[Message], bool], limit_s: float) -> float:
        """Time of arrival of the first wanted message, by `time.perf_counter`."""
        deadline = time.perf_counter() + limit_s
        while True:
            try:
                at, message = self.messages.get(timeout=max(deadline - time.perf_counter(), 0.001))
            except Empty:
                raise TimeoutError(f"no such message within {limit_s} s") from None
            if "method" in message and "id" in message:
                self.send({"id": message["id"], "result": None})
            if wanted(message):
                return at

    def open(self, file: Path, text: str) -> None:
        """Opens a document."""
        document = {"uri": file.as_uri(), "languageId": "python", "version": 1, "text": text}
        self.send({"method": "textDocument/didOpen", "params": {"textDocument": document}})

    def save(self, file: Path, text: str, version: int) -> float:
        """Changes the whole document and saves it; the time of the save."""
        document = {"uri": file.as_uri(), "version": version}
        changes = [{"text": text}]
        self.send(
            {
                "method": "textDocument/didChange",
                "params": {"textDocument": document, "contentChanges": changes},
            }
        )
        file.write_text(text)
        at = time.perf_counter()
        self.send(
            {
                "method": "textDocument/didSave",
                "params": {"textDocument": {"uri": file.as_uri()}, "text": text},
            }
        )
        return at

    def close(self) -> None:
        """Ends the server."""
        self.send({"id": 2, "method": "shutdown"})
        self.wait(lambda message: message.get("id") == 2, 20)
        self.send({"method": "exit"})
        self.server.wait(10)

    def _read(self) -> None:
        stream = self.server.stdout
        assert stream is not None
        while header := stream.readline():
            length = int(header.split(b":")[1])
            while stream.readline().strip():
                pass
            self.messages.put((time.perf_counter(), json.loads(stream.read(length))))
