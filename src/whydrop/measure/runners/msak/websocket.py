"""A client's end of a WebSocket (RFC 6455) that never blocks: the protocol is that of `websockets`, the socket is ours.

Payload is counted as it comes: at a low rate, a message of one megabyte takes longer than an interval.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections import deque
from collections.abc import Iterator

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

_READ_BYTES = 1 << 18
# Twice the longest message of a measurement.
_MOST_MESSAGE_BYTES = 1 << 21
# Reads in a row before the caller gets its turn.
_MOST_READS = 32
_NORMAL_CLOSURE = 1000
_END_OF_HEAD = b"\r\n\r\n"


class WebSocketError(Exception):
    """The server refuses, or breaks the protocol; the message says how."""


class WebSocket:
    """A connection that is upgraded already; its socket does not block.

    Attributes:
        received_bytes: payload of binary and text messages so far, parts of messages included.
    """

    def __init__(self, connection: socket.socket, protocol: ClientProtocol) -> None:
        self.connection = connection
        self.received_bytes = 0
        self._protocol = protocol
        self._out: deque[memoryview] = deque()
        self._text = bytearray()
        self._is_text = self._is_over = False

    @classmethod
    def upgraded(cls, connection: socket.socket, host: str, path: str, protocol: str, agent: str) -> WebSocket:
        """Upgrade a connection (RFC 6455, 4.1).

        Raises:
            WebSocketError: the server refuses.
            OSError: the connection broke.
        """
        uri = parse_uri(f"ws://{host}{path}")
        spoken = ClientProtocol(uri, subprotocols=[Subprotocol(protocol)], max_size=_MOST_MESSAGE_BYTES)
        request = spoken.connect()
        request.headers["User-Agent"] = agent
        spoken.send_request(request)
        connection.sendall(b"".join(spoken.data_to_send()))
        answer = b""
        while spoken.state is State.CONNECTING and spoken.handshake_exc is None:
            if more := connection.recv(4096):
                answer += more
                spoken.receive_data(more)
            else:
                spoken.receive_eof()
                break
        if not answer:
            raise WebSocketError("the server ended the connection before it answered the upgrade to WebSocket")
        if spoken.handshake_exc is not None:
            raise WebSocketError(_refusal(spoken.handshake_exc))
        connection.setblocking(False)
        opened = cls(connection, spoken)
        # Messages may come with the answer.
        opened.received_bytes = len(answer) - answer.index(_END_OF_HEAD) - len(_END_OF_HEAD)
        return opened

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self.connection.close()

    @property
    def is_closed(self) -> bool:
        """True if the server has ended it."""
        return self._is_over or self._protocol.state is State.CLOSED or self._protocol.close_rcvd is not None

    @property
    def waits_to_send(self) -> bool:
        """True if a message is not sent yet."""
        return bool(self._out)

    def send_text(self, text: bytes) -> None:
        """Queue a text message."""
        self._protocol.send_text(text)
        self._queue()

    def send_binary(self, payload: bytes) -> None:
        """Queue a binary message."""
        self._protocol.send_binary(payload)
        self._queue()

    def send_close(self, reason: str) -> None:
        """Queue the farewell, behind a message that is half sent."""
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(_NORMAL_CLOSURE, reason)
            self._queue()

    def _queue(self) -> None:
        self._out.extend(memoryview(data) for data in self._protocol.data_to_send() if data)

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

    def receive(self) -> Iterator[bytes]:
        """Take what has come: yield whole text messages, and count payload.

        Raises:
            WebSocketError: it breaks the protocol.
            OSError: the connection broke.
        """
        yield from self._events()
        for _ in range(_MOST_READS):
            try:
                data = self.connection.recv(_READ_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                self._is_over = True
                return
            self.received_bytes += len(data)
            self._protocol.receive_data(data)
            yield from self._events()

    def _events(self) -> Iterator[bytes]:
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self.received_bytes -= _overhead_bytes(event)
                yield from self._texts(event)
        self._queue()
        if self._protocol.parser_exc is not None and not self._is_over and self._protocol.close_rcvd is None:
            raise WebSocketError(f"the server breaks the protocol of WebSocket: {self._protocol.parser_exc}")

    def _texts(self, frame: Frame) -> Iterator[bytes]:
        """The text message that a frame completes."""
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY):
            self._is_text = frame.opcode is Opcode.TEXT
        if not self._is_text or frame.opcode not in (Opcode.TEXT, Opcode.CONT):
            return
        self._text += frame.data
        if len(self._text) > _MOST_MESSAGE_BYTES:
            raise WebSocketError("the server sent a text far longer than a measurement")
        if frame.fin:
            text = bytes(self._text)
            self._text.clear()
            yield text


def _overhead_bytes(frame: Frame) -> int:
    """Bytes of a server's frame beside payload; of a control frame, all of it."""
    size = len(frame.data)
    head = 2 if size < 126 else 4 if size < 1 << 16 else 10
    return head if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT) else head + size


def _refusal(reason: Exception) -> str:
    if isinstance(reason, InvalidStatus):
        answer: Response = reason.response
        return f"the server refuses the upgrade to WebSocket: HTTP status {answer.status_code} {answer.reason_phrase}"
    if isinstance(reason, InvalidHandshake):
        return f"the server's answer to the upgrade to WebSocket is wrong: {reason}"
    return f"the server's answer to the upgrade to WebSocket is none: {reason}"
