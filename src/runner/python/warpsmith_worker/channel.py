"""Messages between our own processes: JSON objects with file descriptors, over a stream socket.

A frame is a header (length of the JSON in bytes, number of descriptors) and the JSON. Descriptors travel
with the first byte of their frame, so both ends see them in the frames' order.
"""

import array
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

_HEADER = struct.Struct("<II")
_MAX_BODY_BYTES = 16 << 20
_MAX_DESCRIPTORS = 250
_READ_BYTES = 256 << 10


class ChannelError(Exception):
    """The other end sent something that is no frame."""


class Channel:
    """One end of a socket pair. The supervisor's ends are non-blocking, the others block."""

    def __init__(self, sock: socket.socket, *, blocking: bool) -> None:
        sock.setblocking(blocking)
        self.sock = sock
        self._received = bytearray()
        self._received_descriptors: deque[int] = deque()
        self._unsent: deque[tuple[memoryview, list[int]]] = deque()

    def send(self, message: Message, descriptors: Sequence[int] = ()) -> None:
        """Send a message; on a non-blocking end what does not fit waits for `flush`.

        Raises OSError when the other end is gone.
        """
        body = json.dumps(message, allow_nan=False).encode("ascii")
        frame = memoryview(_HEADER.pack(len(body), len(descriptors)) + body)
        # Copies, so that the caller may close its own while a frame waits.
        self._unsent.append((frame, [os.dup(descriptor) for descriptor in descriptors]))
        self.flush()

    def flush(self) -> None:
        """Send as much as fits of what waits."""
        while self._unsent:
            frame, descriptors = self._unsent[0]
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            try:
                sent = self.sock.sendmsg([frame], ancillary if descriptors else [])
            except BlockingIOError:
                return
            _close_all(descriptors)
            if sent == len(frame):
                self._unsent.popleft()
            else:
                self._unsent[0] = (frame[sent:], [])

    @property
    def has_unsent(self) -> bool:
        """Whether `flush` should be called once the socket is writable."""
        return bool(self._unsent)

    def receive(self) -> tuple[Message, list[int]] | None:
        """Wait for the next message with its descriptors (the caller's to close); None at the end."""
        while True:
            message = self._next_message()
            if message is not None:
                return message
            if not self._read():
                return None

    def receive_available(self) -> tuple[list[tuple[Message, list[int]]], bool]:
        """The messages that are there without waiting, and whether the other end is still open.

        Raises ChannelError on garbage.
        """
        is_open = True
        try:
            is_open = self._read()
        except BlockingIOError:
            pass
        except ConnectionError:
            is_open = False
        messages = []
        while (message := self._next_message()) is not None:
            messages.append(message)
        return messages, is_open

    def close(self) -> None:
        """Close the socket and every descriptor that nobody took."""
        _close_all(list(self._received_descriptors))
        self._received_descriptors.clear()
        for _frame, descriptors in self._unsent:
            _close_all(descriptors)
        self._unsent.clear()
        self.sock.close()

    def _read(self) -> bool:
        ancillary_bytes = socket.CMSG_SPACE(_MAX_DESCRIPTORS * array.array("i").itemsize)
        data, ancillary, _flags, _address = self.sock.recvmsg(
            _READ_BYTES, ancillary_bytes, socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                descriptors = array.array("i")
                descriptors.frombytes(payload[: len(payload) - len(payload) % descriptors.itemsize])
                self._received_descriptors.extend(descriptors)
        self._received += data
        return bool(data)

    def _next_message(self) -> tuple[Message, list[int]] | None:
        if len(self._received) < _HEADER.size:
            return None
        body_bytes, descriptor_count = _HEADER.unpack_from(self._received)
        if body_bytes > _MAX_BODY_BYTES or descriptor_count > _MAX_DESCRIPTORS:
            raise ChannelError(f"a frame of {body_bytes} bytes with {descriptor_count} descriptors")
        end = _HEADER.size + body_bytes
        if len(self._received) < end:
            return None
        body = bytes(self._received[_HEADER.size : end])
        del self._received[:end]
        if len(self._received_descriptors) < descriptor_count:
            raise ChannelError("a frame without its descriptors")
        descriptors = [self._received_descriptors.popleft() for _ in range(descriptor_count)]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError) as error:
            _close_all(descriptors)
            raise ChannelError(f"not JSON: {error}") from error
        if not isinstance(message, dict):
            _close_all(descriptors)
            raise ChannelError("not a JSON object")
        return message, descriptors


def _close_all(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
    descriptors.clear()
