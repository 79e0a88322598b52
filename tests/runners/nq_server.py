"""A server of the responsiveness test for tests: as the draft wants it, or with a fault of its own."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import h2.config
import h2.connection
import h2.events
import h2.exceptions

_CHUNK = bytes(1 << 14)


@dataclass
class Faults:
    """Behaviours that are wrong.

    Attributes:
        configuration: the text at ``/.well-known/nq``; ``{port}`` is filled in.
        statuses: by path.
        protocols: offered by ALPN.
        closes_after_bytes: of a download, when the connection is closed.
        slow_s: how long the answer to a small request takes.
        small_is_silent: there is none.
        answers_upload_early: before its end.
    """

    configuration: str | None = None
    statuses: dict[str, int] = field(default_factory=dict)
    protocols: tuple[str, ...] = ("h2", "http/1.1")
    closes_after_bytes: int | None = None
    slow_s: float = 0.0
    answers_upload_early: bool = False
    small_is_silent: bool = False


def configuration_of(port: int, **changes: Any) -> dict[str, Any]:
    """A right configuration, with changes; ``None`` leaves a URL out."""
    base = f"https://127.0.0.1:{port}"
    urls = {
        "small_download_url": f"{base}/small",
        "large_download_url": f"{base}/large",
        "upload_url": f"{base}/upload",
    }
    urls |= {key: value for key, value in changes.items() if key in urls}
    rest = {key: value for key, value in changes.items() if key not in urls}
    return {"version": 1, "urls": {key: value for key, value in urls.items() if value is not None}, **rest}


class NqServer:
    """A server on a port of 127.0.0.1, one thread for each connection; gone at the end of the block."""

    def __init__(self, crt: Path, key: Path, faults: Faults | None = None, port: int = 0) -> None:
        self.faults = faults or Faults()
        self.uploaded_bytes = 0
        self.requests: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port = self._listener.getsockname()[1]
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(crt, key)
        self._context.set_alpn_protocols(list(self.faults.protocols))
        self._over = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        # A thread that waits in accept() wakes up only by a connection.
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        self._listener.close()

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError, h2.exceptions.H2Error), plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._context.wrap_socket(plain, server_side=True) as connection:
                if connection.selected_alpn_protocol() == "h2":
                    _Session(self, connection).run(self._over)
                else:
                    self._http1(connection)

    def _http1(self, connection: ssl.SSLSocket) -> None:
        request = connection.recv(65536).decode()
        if not request:
            return
        path = request.split()[1]
        self.requests.append(path)
        status, body = self.answer(path)
        connection.sendall(
            f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        )

    def answer(self, path: str) -> tuple[int, bytes]:
        """Status and body of what is small."""
        status = self.faults.statuses.get(path, 200)
        if path == "/.well-known/nq":
            text = self.faults.configuration
            filled = json.dumps(configuration_of(self.port)) if text is None else text.replace("{port}", str(self.port))
            return status, filled.encode()
        return status, b"x"


class _Session:
    def __init__(self, server: NqServer, connection: ssl.SSLSocket) -> None:
        self.server, self.socket = server, connection
        self.http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.load: int | None = None
        self.sent = 0
        self.due: list[tuple[float, int, str]] = []

    def run(self, over: threading.Event) -> None:
        self.http.initiate_connection()
        self.http.increment_flow_control_window(1 << 24)
        self._flush()
        while not over.is_set():
            self.socket.settimeout(0.002 if self.load is not None or self.due else 0.1)
            try:
                data = self.socket.recv(1 << 16)
            except (TimeoutError, ssl.SSLWantReadError):
                data = None
            if data == b"":
                return
            for event in self.http.receive_data(data) if data else ():
                self._take(event)
            for one in [one for one in self.due if one[0] <= time.monotonic()]:
                self.due.remove(one)
                self._respond(one[1], one[2])
            self._fill()
            self._flush()
            limit = self.server.faults.closes_after_bytes
            if limit is not None and self.sent > limit:
                return

    def _take(self, event: Any) -> None:
        if isinstance(event, h2.events.RequestReceived):
            path = dict(event.headers)[":path"]
            self.server.requests.append(path)
            if path == "/small" and self.server.faults.small_is_silent:
                return
            if path == "/small" and self.server.faults.slow_s:
                self.due.append((time.monotonic() + self.server.faults.slow_s, event.stream_id, path))
                return
            self._respond(event.stream_id, path)
        elif isinstance(event, h2.events.DataReceived):
            self.server.uploaded_bytes += len(event.data or b"")
            with contextlib.suppress(h2.exceptions.StreamClosedError):
                self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)

    def _respond(self, stream: int, path: str) -> None:
        status, body = self.server.answer(path)
        if path == "/upload" and status == 200 and not self.server.faults.answers_upload_early:
            return
        self.http.send_headers(stream, [(":status", str(status))])
        if path == "/large" and status == 200:
            self.load = stream
        else:
            self.http.send_data(stream, body, end_stream=True)

    def _fill(self) -> None:
        for _ in range(4):
            if self.load is None:
                return
            size = min(len(_CHUNK), self.http.local_flow_control_window(self.load), self.http.max_outbound_frame_size)
            if size <= 0:
                return
            self.http.send_data(self.load, _CHUNK[:size])
            self.sent += size

    def _flush(self) -> None:
        data = self.http.data_to_send()
        if data:
            self.socket.settimeout(10)
            self.socket.sendall(data)
