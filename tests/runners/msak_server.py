"""A server of MSAK's throughput1 and latency1, written after its protocol (https://github.com/m-lab/msak).

As msak-server's: paths, sub-protocol, the options that it wants, messages and when it sends them, who closes. Its
WebSocket is its own, so that a mistake of the client is not shared.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

PROTOCOL = "net.measurementlab.throughput.v1"
KINDS = {"/throughput/v1/download": "download", "/throughput/v1/upload": "upload"}
INFO = {
    "State": 1, "RTT": 20_000, "RTTVar": 1_000, "MinRTT": 18_000, "SndCwnd": 42, "SndSsThresh": 2_147_483_647,
    "SndMSS": 1448, "TotalRetrans": 3, "BytesAcked": 1_000_000, "PacingRate": -1, "DeliveryRate": 1_250_000,
    "BusyTime": 250_000,
}  # fmt: skip


@dataclass
class Server:
    """The server's ports, what it saw, and what it does wrong on purpose.

    Attributes:
        port, udp_port: where it listens.
        rate_bps: at which it sends; ``None``: as fast as it can.
        lose: numbers of probes of latency1 that it never sends, and of answers that it ignores.
        requests: paths with their queries.
    """

    port: int = 0
    udp_port: int = 0
    rate_bps: float | None = None
    lose: tuple[set[int], set[int]] = (set(), set())
    refuse: bytes | None = None
    babble: bytes | None = None
    session_s: float = 5.0
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    client_measurements: list[dict[str, Any]] = field(default_factory=list)
    closed_by_client: int = 0
    sessions: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    sent_at: dict[str, list[float]] = field(default_factory=dict)


@contextlib.contextmanager
def msak_server(**how: Any) -> Iterator[Server]:
    """A server on ports of its own."""
    server, over = Server(**how), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        tcp.settimeout(0.05)
        udp.settimeout(0.05)
        server.port, server.udp_port = tcp.getsockname()[1], udp.getsockname()[1]
        threads = [threading.Thread(target=_accept, args=(server, tcp, over)),
                   threading.Thread(target=_probes, args=(server, udp, over))]  # fmt: skip
        for thread in threads:
            thread.start()
        try:
            yield server
        finally:
            over.set()
            for thread in threads:
                thread.join()


def _accept(server: Server, tcp: socket.socket, over: threading.Event) -> None:
    threads = []
    while not over.is_set():
        with contextlib.suppress(TimeoutError):
            connection, _ = tcp.accept()
            threads.append(threading.Thread(target=_serve, args=(server, connection, over)))
            threads[-1].start()
    for thread in threads:
        thread.join()


def _serve(server: Server, connection: socket.socket, over: threading.Event) -> None:
    with connection, contextlib.suppress(OSError):
        connection.settimeout(10)
        head = b""
        while b"\r\n\r\n" not in head:
            more = connection.recv(4096)
            if not more:
                return
            head += more
        first, *fields = head.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        address = urlsplit(first.split()[1])
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        server.requests.append((address.path, query))
        named = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in fields)}
        if server.refuse is not None:
            connection.sendall(server.refuse)
        elif address.path in KINDS:
            _throughput(server, connection, KINDS[address.path], query, named, over)
        else:
            _latency_request(server, connection, address.path, query)


def _throughput(
    server: Server, connection: socket.socket, kind: str, query: dict[str, str], fields: dict[str, str],
    over: threading.Event,
) -> None:  # fmt: skip
    bad = "mid" not in query or "streams" not in query or fields.get("sec-websocket-protocol") != PROTOCOL
    if bad or query.get("cc", "bbr") not in ("reno", "cubic", "bbr"):
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        return
    key = fields["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key).digest()).decode()
    connection.sendall(
        f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n".encode()
    )
    one = _Served(server, connection)
    reader = threading.Thread(target=one.read)
    reader.start()
    length_s = min(int(query.get("duration", "5000")) / 1000, 25.0)
    one.write(kind == "download", length_s, over)
    reader.join()


class _Served:
    """One WebSocket of the server."""

    def __init__(self, server: Server, connection: socket.socket) -> None:
        self.server, self.connection = server, connection
        self.began = time.monotonic()
        self.received = self.sent = 0
        self.is_first = True
        self.over = threading.Event()

    def read(self) -> None:
        with contextlib.suppress(OSError), self.connection.makefile("rb") as file:
            while len(head := file.read(2)) == 2:
                assert head[1] & 0x80, "a client masks"
                size = head[1] & 0x7F
                if size == 126:
                    size = struct.unpack("!H", file.read(2))[0]
                elif size == 127:
                    size = struct.unpack("!Q", file.read(8))[0]
                mask = file.read(4)
                kind = head[0] & 0xF
                left = size
                payload = b""
                while left:
                    part = file.read1(min(left, 65_536))
                    if not part:
                        break
                    left -= len(part)
                    if kind in (1, 2):
                        self.received += len(part)
                    payload += part if kind != 2 else b""
                text = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
                if kind == 1:
                    self.server.client_measurements.append(json.loads(text))
                elif kind == 8:
                    assert text[:2] == struct.pack("!H", 1000)
                    self.server.closed_by_client += 1
                    break
        self.over.set()

    def write(self, is_download: bool, length_s: float, over: threading.Event) -> None:
        size, next_s = 1024, 0.1
        if self.server.babble is not None:
            self.connection.sendall(self.server.babble)
        with contextlib.suppress(OSError):
            while (now_s := time.monotonic() - self.began) < length_s and not self.over.is_set() and not over.is_set():
                if now_s >= next_s:
                    next_s += random.uniform(0.1, 0.15)
                    self._message(1, json.dumps(self._measurement(now_s)).encode())
                elif is_download and not self._is_ahead(now_s, size):
                    self._message(2, os.urandom(64) + bytes(size - 64))
                    if size < 1 << 20 and size <= self.sent // 16:
                        size *= 2
                else:
                    time.sleep(0.002)
            self._message(8, struct.pack("!H", 1000) + b"Done sending")
            self.over.wait(2)

    def _is_ahead(self, now_s: float, size: int) -> bool:
        rate = self.server.rate_bps
        return rate is not None and (self.sent + size) * 8 > rate * now_s

    def _measurement(self, now_s: float) -> dict[str, Any]:
        said: dict[str, Any] = {
            "Application": {"BytesSent": self.sent, "BytesReceived": self.received},
            "Network": {},
            "ElapsedTime": int(now_s * 1e6),
            "TCPInfo": {**INFO, "ElapsedTime": int(now_s * 1e6)},
        }
        if self.is_first:
            said |= {"CC": "bbr", "UUID": "host_1_2", "LocalAddr": "127.0.0.1:8080", "RemoteAddr": "127.0.0.1:5"}
        self.is_first = False
        return said

    def _message(self, kind: int, payload: bytes) -> None:
        size = len(payload)
        length = (
            bytes([size]) if size < 126 else struct.pack("!BH", 126, size) if size < 65_536 else
            struct.pack("!BQ", 127, size)
        )  # fmt: skip
        self.connection.sendall(bytes([0x80 | kind]) + length + payload)
        if kind != 8:
            self.sent += size


def _latency_request(server: Server, connection: socket.socket, path: str, query: dict[str, str]) -> None:
    mid = query.get("mid")
    if path == "/latency/v1/authorize" and mid:
        server.sessions[mid], server.sent_at[mid] = [], []
        body, status = json.dumps({"Type": "c2s", "ID": mid, "Seq": 0}).encode(), b"200 OK"
    elif path == "/latency/v1/result" and mid in server.sessions:
        trips = server.sessions[mid]
        summary = {"ID": mid, "StartTime": "2026-01-01T00:00:00Z", "RoundTrips": trips, "PacketsSent": len(trips),
                   "PacketsReceived": sum(not one.get("Lost") for one in trips)}  # fmt: skip
        body, status = json.dumps(summary).encode(), b"200 OK"
    else:
        body, status = b"", b"404 Not Found" if path.startswith("/latency") else b"400 Bad Request"
    connection.sendall(
        b"HTTP/1.1 "
        + status
        + b"\r\nConnection: close\r\nContent-Length: "
        + str(len(body)).encode()
        + b"\r\n\r\n"
        + body
    )


def _probes(server: Server, udp: socket.socket, over: threading.Event) -> None:
    threads = []
    while not over.is_set():
        try:
            data, client = udp.recvfrom(2048)
        except (TimeoutError, ConnectionRefusedError):
            continue
        now = time.monotonic()
        packet = json.loads(data)
        trips, times = server.sessions.get(packet["ID"]), server.sent_at.get(packet["ID"])
        if trips is None or times is None:
            continue
        if packet["Type"] == "c2s":
            threads.append(threading.Thread(target=_send_probes, args=(server, udp, client, packet["ID"], over)))
            threads[-1].start()
        elif packet["Seq"] < len(times) and packet["Seq"] not in server.lose[1]:
            trips[packet["Seq"]] = {"RTT": int((now - times[packet["Seq"]]) * 1e6)}
    for thread in threads:
        thread.join()


def _send_probes(server: Server, udp: socket.socket, client: Any, mid: str, over: threading.Event) -> None:
    end = time.monotonic() + server.session_s
    number = 0
    while time.monotonic() < end and not over.is_set():
        server.sent_at[mid].append(time.monotonic())
        server.sessions[mid].append({"RTT": 0, "Lost": True})
        if number not in server.lose[0]:
            with contextlib.suppress(OSError):
                udp.sendto(json.dumps({"Type": "s2c", "ID": mid, "Seq": number}).encode(), client)
        number += 1
        time.sleep(random.uniform(0.01, 0.04))
