"""A client's end of a WebSocket (RFC 6455) that never blocks, for payload that is counted and not kept."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

_CONTINUED = 0
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MOST_HEAD_BYTES = 16_384
_MOST_TEXT_BYTES = 1 << 20
_READ_BYTES = 1 << 18
# Reads in a row before the caller gets its turn.
_MOST_READS = 32


class WebSocketError(Exception):
    """The server refuses, or breaks the protocol; the message says how."""


@dataclass(frozen=True)
class Event:
    """Something that came.

    Attributes:
        kind: ``TEXT``, ``BINARY`` (some payload), or ``CLOSE``.
        size_bytes: payload.
        text: of a whole text message.
    """

    kind: int
    size_bytes: int
    text: bytes = b""


def frame(kind: int, payload: bytes) -> bytes:
    """A whole message of a client: its payload is masked."""
    key = os.urandom(4)
    repeated = (key * (len(payload) // 4 + 1))[: len(payload)]
    masked = int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")
    return _head(kind, len(payload)) + key + masked.to_bytes(len(payload), "big")


def random_frame(size_bytes: int) -> bytes:
    """A binary message with random payload, which the masked form of other random payload is."""
    return _head(BINARY, size_bytes) + os.urandom(4) + os.urandom(size_bytes)


def _head(kind: int, size_bytes: int) -> bytes:
    first, mask = 0x80 | kind, 0x80
    if size_bytes < 126:
        return struct.pack("!BB", first, mask | size_bytes)
    if size_bytes < 1 << 16:
        return struct.pack("!BBH", first, mask | 126, size_bytes)
    return struct.pack("!BBQ", first, mask | 127, size_bytes)


class WebSocket:
    """A connection that is upgraded already; its socket does not block."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._memory = memoryview(bytearray(_READ_BYTES))
        self._out: deque[memoryview] = deque()
        self._head = bytearray()
        # Frames of control may come between the parts of a message.
        self._text, self._control = bytearray(), bytearray()
        self._kind = self._message_kind = 0
        self._is_last = True
        self._left = 0
        self._early = b""
        self.is_closed = False

    @classmethod
    def upgraded(cls, connection: socket.socket, host: str, path: str, protocol: str, agent: str) -> WebSocket:
        """Upgrade a connection (RFC 6455, 4.1).

        Raises:
            WebSocketError: the server refuses.
            OSError: the connection broke.
        """
        key = base64.b64encode(os.urandom(16))
        lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade",
                 f"Sec-WebSocket-Key: {key.decode()}", "Sec-WebSocket-Version: 13",
                 f"Sec-WebSocket-Protocol: {protocol}", f"User-Agent: {agent}"]  # fmt: skip
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = connection.recv(4096)
            answer += more
            if not more or len(answer) > _MOST_HEAD_BYTES:
                raise WebSocketError("the server ended the connection before it answered the upgrade to WebSocket")
        head, _, rest = answer.partition(b"\r\n\r\n")
        status, *fields = head.split(b"\r\n")
        if status.split(b" ")[1:2] != [b"101"]:
            said = status.decode("ascii", "replace")[:80]
            raise WebSocketError(f"the server refuses the upgrade to WebSocket: {said}")
        wanted = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
        named = (field.partition(b":") for field in fields)
        found = {name.strip().lower(): value.strip() for name, _, value in named}
        if found.get(b"sec-websocket-accept") != wanted:
            raise WebSocketError("the server's answer to the upgrade is none to this request")
        connection.setblocking(False)
        opened = cls(connection)
        opened._early = rest
        return opened

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self.connection.close()

    @property
    def has_early(self) -> bool:
        """True if something came with the answer to the upgrade."""
        return bool(self._early)

    @property
    def waits_to_send(self) -> bool:
        """True if a message is not sent yet."""
        return bool(self._out)

    def send(self, message: bytes) -> None:
        """Queue a whole message, as :func:`frame` makes it."""
        self._out.append(memoryview(message))

    def pump(self) -> None:
        """Send as much as the kernel takes.

        Raises:
            OSError: the connection broke.
        """
        while self._out:
            try:
                sent = self.connection.send(self._out[0])
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return
            rest = self._out[0][sent:]
            if rest:
                self._out[0] = rest
            else:
                self._out.popleft()

    def receive(self) -> Iterator[Event]:
        """Take the events that have come.

        Raises:
            WebSocketError: it breaks the protocol.
            OSError: the connection broke.
        """
        early, self._early = self._early, b""
        if early:
            yield from self._parsed(memoryview(early))
        for _ in range(_MOST_READS):
            try:
                size = self.connection.recv_into(self._memory)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not size:
                self.is_closed = True
                return
            yield from self._parsed(self._memory[:size])

    def _parsed(self, data: memoryview) -> Iterator[Event]:
        while data:
            if self._left:
                taken = min(self._left, len(data))
                yield from self._payload(data[:taken])
                data = data[taken:]
                continue
            wanted = 2 if len(self._head) < 2 else 2 + {126: 2, 127: 8}.get(self._head[1] & 0x7F, 0)
            taken = wanted - len(self._head)
            self._head += data[:taken]
            data = data[taken:]
            if self._head_is_whole():
                yield from self._begun()

    def _head_is_whole(self) -> bool:
        return len(self._head) >= 2 and len(self._head) == 2 + {126: 2, 127: 8}.get(self._head[1] & 0x7F, 0)

    def _begun(self) -> Iterator[Event]:
        """A frame begins."""
        first, second = self._head[0], self._head[1]
        if second & 0x80 or first & 0x70:
            raise WebSocketError("the server breaks the protocol of WebSocket")
        size = second & 0x7F
        if size > 125:
            size = int.from_bytes(self._head[2:], "big")
        self._head.clear()
        self._kind, self._is_last, self._left = first & 0xF, bool(first & 0x80), size
        if self._kind in (TEXT, BINARY):
            self._message_kind = self._kind
        elif self._kind == _CONTINUED:
            self._kind = self._message_kind
        if self._kind != BINARY and size > _MOST_TEXT_BYTES:
            raise WebSocketError(f"the server sent a message of {size} bytes, far more than a measurement takes")
        if not size:
            yield from self._ended()

    def _payload(self, data: memoryview) -> Iterator[Event]:
        self._left -= len(data)
        if self._kind == BINARY:
            yield Event(BINARY, len(data))
        else:
            gathered = self._control if self._kind >= CLOSE else self._text
            gathered += data
            if len(gathered) > _MOST_TEXT_BYTES:
                raise WebSocketError("the server sent a text far longer than a measurement")
        if not self._left:
            yield from self._ended()

    def _ended(self) -> Iterator[Event]:
        """A frame ended."""
        if self._kind == BINARY or not self._is_last:
            return
        gathered = self._control if self._kind >= CLOSE else self._text
        text = bytes(gathered)
        gathered.clear()
        if self._kind == TEXT:
            yield Event(TEXT, len(text), text)
        elif self._kind == PING:
            self.send(frame(PONG, text))
        elif self._kind == CLOSE:
            self.is_closed = True
            yield Event(CLOSE, len(text), text)
