"""One flow of MSAK's throughput1: streams over WebSocket, each in a thread, counted at the receiving end."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import select
import socket
import ssl
import struct
import threading
import time
import uuid
from importlib import metadata
from typing import Any
from urllib.parse import urlencode

from whydrop.measure.engine import EngineError, looked_up
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Rows
from whydrop.measure.runners.msak.counting import Grid
from whydrop.measure.runners.msak.measurements import Measurement, measurement
from whydrop.measure.runners.msak.websocket import WebSocket, WebSocketError
from whydrop.measure.runners.registry import bracketed

PROTOCOL = "net.measurementlab.throughput.v1"
PATHS = {"down": "/throughput/v1/download", "up": "/throughput/v1/upload"}
MOST_S = 25.0
"""Servers end each test after this time (spec.MaxRuntime)."""

_CONNECTS_WITHIN_S = 10.0
_FIRST_MESSAGE_BYTES, _MOST_MESSAGE_BYTES = 1 << 10, 1 << 20
# A message doubles when it is less than this part of what was sent (spec.ScalingFraction).
_SCALING = 16
_MEASURES_EVERY_S = 0.25
_COUNTS_EVERY_S = 0.01
# Behind its planned end: for the server's last measurement and its farewell.
_GRACE_S = 2.0
# struct tcp_info: round-trip time, its variation, threshold and window; all retransmissions.
_TCP_INFO = struct.Struct("=68xIIII16xI")


class Streams:
    """The streams of one flow."""

    def __init__(self, flow: PlannedFlow, number: int, start_ns: int, stopping: threading.Event) -> None:
        self.flow, self.number, self._stopping = flow, number, stopping
        self.count = int(flow.options.get("streams", 1))
        self._to_wall_ns = time.time_ns() - time.monotonic_ns()
        self._start_ns = start_ns
        self._grid = Grid(self.count, start_ns, round(flow.interval_s * 1e9))
        self._lock = threading.Lock()
        self._rows = Rows()
        self.about: dict[str, Any] = {"streams": self.count}
        self.problems: list[str] = []
        self._measurement_id = str(flow.options.get("measurement_id") or uuid.uuid4())

    def run(self) -> None:
        """Run all streams to their end."""
        threads = [
            threading.Thread(target=self._contained, args=(stream,), name=f"msak {self.number}.{stream}", daemon=True)
            for stream in range(self.count)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def take(self, *, is_over: bool) -> Rows:
        """The rows measured since the last call."""
        with self._lock:
            rows, self._rows = self._rows, Rows()
            intervals = list(self._grid.rest() if is_over else self._grid.whole())
        for start_ns, end_ns, size in intervals:
            rows.add(
                "intervals",
                flow=self.number,
                start_ns=start_ns + self._to_wall_ns,
                end_ns=end_ns + self._to_wall_ns,
                payload_bytes=round(size),
                goodput_bps=size * 8e9 / (end_ns - start_ns),
            )
        return rows

    @property
    def payload_bytes(self) -> int:
        """Payload that arrived."""
        return round(self._grid.total_bytes)

    def _contained(self, stream: int) -> None:
        try:
            self._stream(stream)
        except ssl.SSLError as reason:
            self.problems.append(f"TLS: {reason.reason or reason}: the option verify = false accepts any certificate")
        except OSError as reason:
            self.problems.append(reason.strerror or str(reason) or type(reason).__name__)
        except (WebSocketError, EngineError, ValueError) as reason:
            self.problems.append(str(reason))
        finally:
            with self._lock:
                self._grid.end(stream)

    def _stream(self, stream: int) -> None:
        with contextlib.closing(self._connected()) as connection:
            self._stopping.wait(max(0.0, (self._start_ns - time.monotonic_ns()) / 1e9))
            host = f"{bracketed(self.flow.host or '')}:{self._port}"
            agent = f"whydrop/{metadata.version('whydrop')}"
            upgraded = WebSocket.upgraded(connection, host, self._path(), PROTOCOL, agent)
            _Stream(self, stream, upgraded).run(self._length_s(), self._stopping)

    def _length_s(self) -> float:
        return MOST_S if self.flow.duration_s is None else self.flow.duration_s

    @property
    def _port(self) -> int:
        return self.flow.port or 0

    def _path(self) -> str:
        options = self.flow.options
        query: dict[str, Any] = {
            "mid": self._measurement_id,
            "streams": self.count,
            "duration": round(self._length_s() * 1000),
            "client_name": "whydrop",
            "client_os": platform.system().lower(),
        }
        if self.flow.congestion_control is not None:
            query["cc"] = self.flow.congestion_control
        if options.get("access_token"):
            query["access_token"] = options["access_token"]
        return f"{PATHS[self.flow.direction]}?{urlencode(query)}"

    def _connected(self) -> socket.socket:
        flow = self.flow
        family, address = looked_up(flow.host or "", flow.ip_version, self._port)
        plain = socket.socket(family, socket.SOCK_STREAM)
        try:
            plain.settimeout(_CONNECTS_WITHIN_S)
            if flow.interface is not None:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, flow.interface.encode() + b"\0")
            if flow.local_address is not None:
                plain.bind((flow.local_address, 0))
            if flow.congestion_control is not None and flow.direction == "up":
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, flow.congestion_control.encode())
            plain.connect(address)
            if not flow.options.get("tls"):
                return plain
            context = ssl.create_default_context()
            if flow.options.get("verify") is False:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return context.wrap_socket(plain, server_hostname=flow.host)
        except BaseException:
            plain.close()
            raise

    # Called by the streams.

    def arrived(self, stream: int, time_ns: int, total_bytes: int) -> None:
        """Note the payload that a stream has carried."""
        with self._lock:
            self._grid.count(stream, time_ns, total_bytes)

    def sender(self, time_ns: int, columns: dict[str, int]) -> None:
        """Note the sender's tcp_info; of several streams there is none."""
        if columns and self.count == 1:
            with self._lock:
                self._rows.add("tcp_info", flow=self.number, time_ns=time_ns + self._to_wall_ns, **columns)

    def heard(self, found: Measurement) -> None:
        """Note what the server said of a connection."""
        names = {"CC": "congestion_control" if self.flow.direction == "down" else "server_congestion_control",
                 "UUID": "uuid", "LocalAddr": "server_address", "RemoteAddr": "client_address"}  # fmt: skip
        for key, value in found.about.items():
            self.about.setdefault(names[key], value)


class _Stream:
    """One stream, from its upgrade to its end."""

    def __init__(self, flow: Streams, stream: int, web: WebSocket) -> None:
        self.flow, self.stream, self.web = flow, stream, web
        self.is_up = flow.flow.direction == "up"
        self.began_ns = time.monotonic_ns()
        self.sent = 0
        self._measured_ns = self._counted_ns = self.began_ns
        self._size = _FIRST_MESSAGE_BYTES
        self._message = os.urandom(self._size)

    def run(self, length_s: float, stopping: threading.Event) -> None:
        """Send or receive until the time is over, or the server ends it."""
        end_ns = self.began_ns + round(length_s * 1e9)
        while not self.web.is_closed and not stopping.is_set():
            now_ns = time.monotonic_ns()
            if now_ns >= end_ns + (0 if self.is_up else round(_GRACE_S * 1e9)):
                break
            self._measure(now_ns)
            if self.is_up and not self.web.waits_to_send:
                self._send_more()
            self._exchange(0.05)
        self._part(stopping)

    def _part(self, stopping: threading.Event) -> None:
        """Say farewell, and wait shortly for the server's last measurement."""
        with contextlib.suppress(OSError):
            # A message that is half sent must be completed first.
            self.web.send_close("Done sending")
            until_ns = time.monotonic_ns() + round(_GRACE_S * 1e9)
            while time.monotonic_ns() < until_ns and not stopping.is_set():
                if self.web.is_closed and not self.web.waits_to_send:
                    break
                self._exchange(0.05)
        if not self.is_up:
            self.flow.arrived(self.stream, time.monotonic_ns(), self.web.received_bytes)

    def _exchange(self, wait_s: float) -> None:
        one = self.web.connection
        pending = isinstance(one, ssl.SSLSocket) and one.pending() > 0
        writing = [one] if self.web.waits_to_send else []
        readable, writable, _ = select.select([one], writing, [], 0 if pending else wait_s)
        if writable:
            self.web.pump()
        if readable or pending:
            for text in self.web.receive():
                self._take(text)
        now_ns = time.monotonic_ns()
        if not self.is_up and now_ns - self._counted_ns >= _COUNTS_EVERY_S * 1e9:
            self._counted_ns = now_ns
            self.flow.arrived(self.stream, now_ns, self.web.received_bytes)

    def _take(self, text: bytes) -> None:
        found = measurement(text)
        if found is None:
            return
        self.flow.heard(found)
        if not self.is_up:
            self.flow.sender(time.monotonic_ns(), found.tcp_info)
        elif found.elapsed_ns is not None and found.received_bytes is not None:
            self.flow.arrived(self.stream, self.began_ns + found.elapsed_ns, found.received_bytes)

    def _measure(self, now_ns: int) -> None:
        """Send a measurement of this end, as the protocol has it, and note this end's TCP if it sends."""
        if now_ns - self._measured_ns < _MEASURES_EVERY_S * 1e9:
            return
        self._measured_ns = now_ns
        counts = {"BytesSent": self.sent, "BytesReceived": self.web.received_bytes}
        text = json.dumps({"Application": counts, "ElapsedTime": (now_ns - self.began_ns) // 1000}).encode()
        self.web.send_text(text)
        self.sent += len(text)
        if self.is_up:
            self.flow.sender(now_ns, _own_tcp(self.web.connection))

    def _send_more(self) -> None:
        self.web.send_binary(self._message)
        self.sent += self._size
        if self._size < _MOST_MESSAGE_BYTES and self._size <= self.sent // _SCALING:
            self._size *= 2
            self._message = os.urandom(self._size)


def _own_tcp(connection: socket.socket) -> dict[str, int]:
    """Columns of ``tcp_info`` from this host's kernel."""
    try:
        raw = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        rtt_us, variation_us, threshold, window, again = _TCP_INFO.unpack(raw)
    except (OSError, struct.error):
        return {}
    known = {"srtt_ns": rtt_us * 1000, "rtt_variation_ns": variation_us * 1000, "congestion_window_packets": window,
             "retransmitted_packets": again}  # fmt: skip
    return known | ({"slow_start_threshold_packets": threshold} if threshold < 0x7FFFFFFF else {})
