"""One HTTP/2 connection over TLS that never waits: what is ready is read and written, and each step is timed."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

# What a server may send before it hears of what was taken: large, so that TCP's own window is the limit.
_STREAM_WINDOW_BYTES = 1 << 24
_CONNECTION_WINDOW_BYTES = 1 << 26
_READ_BYTES = 1 << 16
# Of one connection before others have their turn.
_MOST_AT_ONCE_BYTES = 1 << 18
# The kernel asks for more of an upload when so much is left that it has not sent: a request waits for no more.
_NOT_SENT_BYTES = 1 << 15
_TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)
# In struct tcp_info of linux/tcp.h.
_BYTES_ACKED_AT, _BYTES_ACKED_LENGTH = 120, 8

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class ConnectionFailedError(Exception):
    """A connection, or a request on it, failed; the message says why."""


@dataclass(frozen=True)
class Place:
    """An address to connect to, and the name of the server.

    Attributes:
        address: with the port, as ``socket.connect`` takes it.
        name: of the server, for its certificate.
    """

    family: int
    address: tuple[Any, ...]
    name: str
    verify: bool
    local_address: str | None = None
    interface: str | None = None

    def context(self) -> ssl.SSLContext:
        """Settings of TLS: HTTP/2 or nothing."""
        context = ssl.create_default_context()
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        return context


@dataclass
class Request:
    """A request that waits for its answer; times are of ``time.monotonic_ns``."""

    stream: int
    began_ns: int
    is_load: bool
    first_byte_ns: int | None = None
    status: int | None = None
    payload_bytes: int = 0


class Listener(Protocol):
    """The owner of a connection, to which it reports."""

    def opened(self, connection: Connection) -> None:
        """TLS is ready."""

    def answered(self, connection: Connection, request: Request, at_ns: int, error: str | None) -> None:
        """A request has its whole answer, or will never have it."""

    def failed(self, connection: Connection, why: str) -> None:
        """The connection is of no use any more; it is closed."""


class Connection:
    """One connection, from its first packet on.

    Attributes:
        began_ns, connected_ns, secured_ns: when it began, and when the handshakes of TCP and TLS were complete.
        received_bytes: payload of all answers.
    """

    def __init__(
        self, number: int, place: Place, context: ssl.SSLContext, selector: selectors.BaseSelector, listener: Listener
    ) -> None:
        self.number = number
        self.received_bytes = 0
        self.began_ns = self.connected_ns = self.secured_ns = 0
        self.is_open = self.is_closed = False
        self.takes_requests = True
        self.tls_version = ""
        self._place, self._context, self._selector, self._listener = place, context, selector, listener
        self._requests: dict[int, Request] = {}
        self._upload: int | None = None
        self._unsent = bytearray()
        self._socket: socket.socket | ssl.SSLSocket | None = None
        self._watched = 0
        settings = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self._http = h2.connection.H2Connection(settings)

    # What its owner does.

    def begin(self) -> None:
        """Send the first packet; whatever fails is reported."""
        try:
            plain = socket.socket(self._place.family, socket.SOCK_STREAM)
            self._socket = plain
            plain.setblocking(False)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _NOT_SENT_BYTES)
            if self._place.interface is not None:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self._place.interface.encode() + b"\0")
            if self._place.local_address is not None:
                plain.bind((self._place.local_address, 0))
            self.began_ns = time.monotonic_ns()
            status = plain.connect_ex(self._place.address)
            if status not in (0, errno.EINPROGRESS):
                raise OSError(status, os.strerror(status))
            self._watch(WRITE)
        except OSError as reason:
            self._fail(plain_words(reason))

    def fetch(self, url: str, *, is_load: bool = False) -> Request | None:
        """Ask for a URL; ``None`` where the server takes no more requests at the moment."""
        return self._ask("GET", url, is_load=is_load, ends=True)

    def upload(self, url: str) -> Request | None:
        """Begin to send without an end."""
        request = self._ask("POST", url, is_load=True, ends=False)
        if request is not None:
            self._upload = request.stream
            self._fill()
            self._flush()
        return request

    def acked_bytes(self) -> int:
        """Bytes that the far end's TCP has acknowledged, with what TLS and HTTP/2 add to the payload."""
        if self._socket is None or self.is_closed:
            return 0
        length = _BYTES_ACKED_AT + _BYTES_ACKED_LENGTH
        told = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, length)
        return int.from_bytes(told[_BYTES_ACKED_AT:length], "little") if len(told) >= length else 0

    def forget(self, request: Request) -> None:
        """Report nothing more of a request."""
        self._requests.pop(request.stream, None)

    def close(self) -> None:
        """Let it go, without a word to the server."""
        if self.is_closed:
            return
        self.is_closed, self.is_open = True, False
        if self._socket is not None:
            if self._watched:
                self._selector.unregister(self._socket)
            self._socket.close()

    def ready(self, events: int) -> bool:
        """Go on after the selector reported ``events``; true if there is more to read at once."""
        try:
            if not self.connected_ns:
                self._connected()
            elif not self.secured_ns:
                self._shake_hands()
            else:
                if events & WRITE:
                    self._flush()
                if events & READ:
                    return self._read()
        except (OSError, ValueError, h2.exceptions.H2Error, ConnectionFailedError) as reason:
            self._fail(plain_words(reason))
        return False

    # How it goes on.

    def _connected(self) -> None:
        now_ns = time.monotonic_ns()
        assert self._socket is not None
        problem = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise OSError(problem, os.strerror(problem))
        self.connected_ns = now_ns
        self._selector.unregister(self._socket)
        self._watched = 0
        self._socket = self._context.wrap_socket(
            self._socket, server_hostname=self._place.name, do_handshake_on_connect=False
        )
        self._shake_hands()

    def _shake_hands(self) -> None:
        assert isinstance(self._socket, ssl.SSLSocket)
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._watch(READ)
            return
        except ssl.SSLWantWriteError:
            self._watch(WRITE)
            return
        self.secured_ns = time.monotonic_ns()
        self.tls_version = self._socket.version() or ""
        if self._socket.selected_alpn_protocol() != "h2":
            raise ConnectionFailedError("the server speaks no HTTP/2 over TLS (ALPN): it must offer h2")
        self._open()

    def adopt(self, connected: socket.socket) -> None:
        """Speak HTTP/2 over a socket that is connected, and does not block; without TLS."""
        self._socket = connected
        self.began_ns = self.connected_ns = self.secured_ns = time.monotonic_ns()
        self._open()

    def _open(self) -> None:
        self._http.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _STREAM_WINDOW_BYTES,
            },
        )
        self._http.initiate_connection()
        self._http.increment_flow_control_window(_CONNECTION_WINDOW_BYTES)
        self.is_open = True
        self._watch(READ)
        self._listener.opened(self)
        self._flush()

    def _ask(self, method: str, url: str, *, is_load: bool, ends: bool) -> Request | None:
        if not self.is_open or not self.takes_requests:
            return None
        parts = urlsplit(url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        headers = [(":method", method), (":scheme", parts.scheme), (":authority", parts.netloc), (":path", path)]
        headers += [("accept-encoding", "identity")] if ends else [("content-type", "application/octet-stream")]
        try:
            stream = self._http.get_next_available_stream_id()
            request = Request(stream, time.monotonic_ns(), is_load)
            self._http.send_headers(stream, headers, end_stream=ends)
        except (h2.exceptions.TooManyStreamsError, h2.exceptions.NoAvailableStreamIDError):
            return None
        self._requests[stream] = request
        try:
            self._flush()
        except (OSError, h2.exceptions.H2Error) as reason:
            self._fail(plain_words(reason))
        return request

    def _fill(self) -> None:
        """Put as much of the upload behind what is unsent as may be sent at once."""
        while self._upload is not None and len(self._unsent) < _NOT_SENT_BYTES:
            window = self._http.local_flow_control_window(self._upload)
            size = min(window, self._http.max_outbound_frame_size, len(_ZEROS))
            if size <= 0:
                return
            self._http.send_data(self._upload, _ZEROS[:size])
            self._unsent += self._http.data_to_send()

    def _flush(self) -> None:
        """Send what waits; what the kernel does not take now is sent when it does."""
        if self.is_closed or self._socket is None:
            return
        self._unsent += self._http.data_to_send()
        try:
            while self._unsent:
                sent = self._socket.send(self._unsent)
                del self._unsent[:sent]
                if self._upload is not None and not self._writable():
                    break
                self._fill()
        except (ssl.SSLWantWriteError, BlockingIOError):
            pass
        except ssl.SSLWantReadError:
            self._watch(READ)
            return
        self._watch(READ | WRITE if self._unsent or self._may_send() else READ)

    def _writable(self) -> bool:
        """False: the kernel has enough that it has not sent."""
        assert self._socket is not None
        with selectors.PollSelector() as one:
            one.register(self._socket, WRITE)
            return bool(one.select(0))

    def _may_send(self) -> bool:
        return self._upload is not None and bool(self._http.local_flow_control_window(self._upload) > 0)

    def _read(self) -> bool:
        assert self._socket is not None
        taken = 0
        while taken < _MOST_AT_ONCE_BYTES:
            try:
                data = self._socket.recv(_READ_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError):
                break
            if not data:
                raise ConnectionFailedError("the server closed the connection")
            taken += len(data)
            self._take(data)
            if self.is_closed:
                return False
        if self._upload is not None:
            self._fill()
        self._flush()
        return taken >= _MOST_AT_ONCE_BYTES

    def _take(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        for event in self._http.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self._data(event)
            elif isinstance(event, h2.events.ResponseReceived):
                request = self._requests.get(event.stream_id)
                if request is not None:
                    request.first_byte_ns = now_ns - request.began_ns
                    request.status = _status(event.headers)
            elif isinstance(event, h2.events.StreamEnded):
                self._answered(event.stream_id, now_ns, None)
            elif isinstance(event, h2.events.StreamReset):
                self._answered(event.stream_id, now_ns, f"the server reset the request ({_name(event.error_code)})")
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.takes_requests = False
                if event.error_code:
                    raise ConnectionFailedError(f"the server ended the connection ({_name(event.error_code)})")

    def _data(self, event: h2.events.DataReceived) -> None:
        stream = int(event.stream_id or 0)
        self._http.acknowledge_received_data(int(event.flow_controlled_length or 0), stream)
        request = self._requests.get(stream)
        size = len(event.data or b"")
        if request is not None:
            request.payload_bytes += size
        self.received_bytes += size

    def _answered(self, stream: int | None, at_ns: int, error: str | None) -> None:
        request = self._requests.pop(stream or 0, None)
        if request is None:
            return
        if request.stream == self._upload:
            self._upload = None
        if error is None and request.status != 200:
            error = f"status {request.status}"
        self._listener.answered(self, request, at_ns, error)

    def _watch(self, events: int) -> None:
        assert self._socket is not None
        if events == self._watched or self.is_closed:
            return
        if self._watched:
            self._selector.modify(self._socket, events, self)
        else:
            self._selector.register(self._socket, events, self)
        self._watched = events

    def _fail(self, why: str) -> None:
        if self.is_closed:
            return
        self.close()
        now_ns = time.monotonic_ns()
        for stream in list(self._requests):
            self._answered(stream, now_ns, why)
        self._listener.failed(self, why)


_ZEROS = bytes(1 << 14)


def _status(headers: Any) -> int | None:
    found: Mapping[str, str] = dict(headers or ())
    text = str(found.get(":status", ""))
    return int(text) if text.isdecimal() and len(text) == 3 else None


def _name(code: Any) -> str:
    try:
        return str(h2.errors.ErrorCodes(code).name)
    except ValueError:
        return f"error {code}"


def tls_round_trips(version: str) -> int:
    """Round trips until a connection of this version of TLS may send data.

    >>> tls_round_trips("TLSv1.3"), tls_round_trips("TLSv1.2")
    (1, 2)
    """
    return 1 if version == "TLSv1.3" else 2


def plain_words(reason: BaseException) -> str:
    """Why something failed, as a person can act on it."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"TLS: the certificate is not trusted: {reason.verify_message}"
    if isinstance(reason, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "the server closed the connection"
    if isinstance(reason, ssl.SSLError):
        name = (reason.reason or str(reason)).replace("_", " ").lower()
        if "alert no application protocol" in name:
            return "the server speaks no HTTP/2 over TLS (ALPN): it must offer h2"
        return f"TLS: {name}"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return " ".join(str(reason).split())[:300] or type(reason).__name__
