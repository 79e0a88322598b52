"""One flow of MSAK's latency1: the server sends probes over UDP, this end returns them, and the server has the results.

A server probes for five seconds, at random intervals of 10 to 40 ms; longer flows are several sessions in a row. The
round trips are the server's. A lost probe that came here was lost in the direction to the server.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from typing import Any
from urllib.parse import urlencode

from whydrop.measure.engine import looked_up
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Rows
from whydrop.measure.runners.registry import bracketed

AUTHORIZE, RESULT = "/latency/v1/authorize", "/latency/v1/result"
UDP_PORT = 1053

_SESSION_S = 5.0
# For the last probes of a session to come, and to get back.
_GRACE_S = 0.5
_MEAN_INTERVAL_S = 0.025
_HTTP_TIMEOUT_S = 10.0
_MOST_ROUND_TRIPS = 10_000
_MOST_RESULT_BYTES = 4 << 20
_SILENT_S = 2.0


class LatencyError(Exception):
    """The server refuses or does not answer; the message says what to do."""


class Sessions:
    """The sessions of one flow."""

    def __init__(self, flow: PlannedFlow, number: int, start_ns: int, stopping: threading.Event) -> None:
        self.flow, self.number, self._stopping = flow, number, stopping
        self._start_ns = start_ns
        self._to_wall_ns = time.time_ns() - time.monotonic_ns()
        self._lock = threading.Lock()
        self._rows = Rows()
        self._sequence = 0
        self.answered = self.probes = 0
        self.about: dict[str, Any] = {}

    def take(self) -> Rows:
        """The rows measured since the last call."""
        with self._lock:
            rows, self._rows = self._rows, Rows()
        return rows

    def run(self) -> None:
        """Run sessions until the time of the flow is over.

        Raises:
            LatencyError: a session failed.
        """
        self._stopping.wait(max(0.0, (self._start_ns - time.monotonic_ns()) / 1e9))
        length_s = self.flow.duration_s
        end_ns = None if length_s is None else self._start_ns + round(length_s * 1e9)
        while not self._stopping.is_set() and (end_ns is None or time.monotonic_ns() < end_ns):
            self._session(end_ns)

    def _session(self, end_ns: int | None) -> None:
        options = self.flow.options
        query = {"mid": str(options.get("measurement_id") or uuid.uuid4())}
        if options.get("access_token"):
            query["access_token"] = str(options["access_token"])
        kickoff = self._get(AUTHORIZE, query)
        if not kickoff:
            raise LatencyError("the server authorised the latency test without a packet to begin with")
        came, began_ns = self._echo(kickoff, end_ns)
        self._keep(self._round_trips(query), came, began_ns)

    def _echo(self, kickoff: bytes, end_ns: int | None) -> tuple[dict[int, int], int]:
        """Return the server's probes; when each came, by its number, and when the session began."""
        port = int(self.flow.options.get("udp_port", UDP_PORT))
        family, address = looked_up(self.flow.host or "", self.flow.ip_version, port)
        came: dict[int, int] = {}
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            if self.flow.interface is not None:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, self.flow.interface.encode() + b"\0")
            if self.flow.local_address is not None:
                one.bind((self.flow.local_address, 0))
            one.connect(address)
            one.settimeout(0.1)
            began_ns = time.monotonic_ns()
            until_ns = began_ns + round((_SESSION_S + _GRACE_S) * 1e9)
            if end_ns is not None:
                until_ns = min(until_ns, end_ns + round(_GRACE_S * 1e9))
            one.send(kickoff)
            while not self._stopping.is_set() and time.monotonic_ns() < until_ns:
                try:
                    probe = one.recv(2048)
                    now_ns = time.monotonic_ns()
                    one.send(probe)
                except TimeoutError:
                    if not came and time.monotonic_ns() - began_ns > _SILENT_S * 1e9:
                        raise LatencyError(f"no probe came from UDP port {port}: let the firewall pass it") from None
                    continue
                except ConnectionRefusedError:
                    raise LatencyError(f"UDP port {port} is closed: set the option udp_port to the server's") from None
                number = _number(probe)
                if number is not None and (end_ns is None or now_ns <= end_ns):
                    came.setdefault(number, now_ns)
        return came, began_ns

    def _round_trips(self, query: dict[str, str]) -> list[dict[str, Any]]:
        try:
            found = json.loads(self._get(RESULT, query))
        except (ValueError, RecursionError):
            raise LatencyError("the server's result is no JSON") from None
        trips = found.get("RoundTrips") if isinstance(found, dict) else None
        if not isinstance(trips, list):
            raise LatencyError("the server's result has no round trips")
        return [one if isinstance(one, dict) else {} for one in trips[:_MOST_ROUND_TRIPS]]

    def _keep(self, trips: list[dict[str, Any]], came: dict[int, int], began_ns: int) -> None:
        """Rows of a session, up to the last probe that came within the time of the flow."""
        last = max(came, default=-1)
        trips = trips[: last + 1] if self.flow.duration_s is not None and came else trips
        with self._lock:
            for number, trip in enumerate(trips):
                rtt_us = trip.get("RTT")
                is_known = isinstance(rtt_us, int) and not isinstance(rtt_us, bool) and 0 <= rtt_us < 10**9
                answered = is_known and not trip.get("Lost")
                rtt_ns = int(rtt_us) * 1000 if answered else None  # type: ignore[arg-type]
                # The server sent it half a round trip before it came here, as far as both directions take as long.
                at_ns = _time_of(number, came, began_ns) - (rtt_ns or 0) // 2 + self._to_wall_ns
                self.probes += 1
                self.answered += answered
                self._rows.add(
                    "probes", flow=self.number, sequence=self._sequence, scheduled_ns=at_ns, sent_ns=at_ns,
                    received_ns=None if rtt_ns is None else at_ns + rtt_ns, rtt_ns=rtt_ns,
                    # The probe goes from the server to this host, and back.
                    fate="ok" if answered else "lost-up" if number in came else "lost-down",
                )  # fmt: skip
                self._sequence += 1

    def _get(self, path: str, query: dict[str, str]) -> bytes:
        import urllib3

        options = self.flow.options
        scheme = "https" if options.get("tls") else "http"
        url = f"{scheme}://{bracketed(self.flow.host or '')}:{self.flow.port}{path}?{urlencode(query)}"
        certificates = "CERT_NONE" if options.get("verify") is False else "CERT_REQUIRED"
        try:
            with urllib3.PoolManager(cert_reqs=certificates, retries=False, timeout=_HTTP_TIMEOUT_S) as pool:
                answer = pool.request("GET", url, preload_content=False)
                content = bytes(answer.read(_MOST_RESULT_BYTES))
                answer.release_conn()
        except urllib3.exceptions.HTTPError as reason:
            said = str(reason).rpartition(": ")[2] or type(reason).__name__
            raise LatencyError(f"port {self.flow.port}: {said}: start msak-server there, or set the port") from None
        if answer.status != 200:
            raise LatencyError(f"the server answers {path} with HTTP status {answer.status}")
        return content


def _number(probe: bytes) -> int | None:
    try:
        found = json.loads(probe)
    except (ValueError, RecursionError):
        return None
    number = found.get("Seq") if isinstance(found, dict) and found.get("Type") == "s2c" else None
    return number if isinstance(number, int) and 0 <= number < _MOST_ROUND_TRIPS else None


def _time_of(number: int, came: dict[int, int], began_ns: int) -> int:
    """When a probe came; of one that did not, from the one before it by the mean interval."""
    if number in came:
        return came[number]
    before = max((one for one in came if one < number), default=None)
    if before is None:
        return began_ns + round(number * _MEAN_INTERVAL_S * 1e9)
    return came[before] + round((number - before) * _MEAN_INTERVAL_S * 1e9)
