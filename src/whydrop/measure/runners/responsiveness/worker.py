"""A process that makes the load, or one that sends probes on new connections; two, so that neither delays the other.

The first line on its standard input is the job, as JSON; each further line is a command (``begin``, ``connect``,
``rate``, ``stop``). It prints one JSON document a line. It ends when its input does, such as when its parent is gone.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whydrop.measure.runners.responsiveness.connection import READ, Connection, Place, Request, tls_round_trips

# The lateness of the loop is that of what it handles; looked at often, but not so often that it delays anything.
_LOOK_EVERY_NS = 10_000_000
# Probes without an answer at the same time: on a path of seconds they must not pile up.
_MOST_UNANSWERED = 64
_PROBE_TIMEOUT_NS = 20_000_000_000
_FAR_NS = 1 << 62
_SCHEDULED = Path("/proc/self/schedstat")


class _Timer:
    """Something that is done at a time, and again after it."""

    def __init__(self, due_ns: int, act: Callable[[int], int]) -> None:
        """``act`` is called with the time at which it was due, and returns the next such time."""
        self.due_ns, self.act = due_ns, act


def _waited_ns() -> int:
    """Time for which this process was ready to run and got no processor; 0 where the kernel does not count it."""
    try:
        return int(_SCHEDULED.read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0


class Worker:
    """The loop that both kinds of processes share."""

    def __init__(self, job: dict[str, Any]) -> None:
        place = job["place"]
        self.place = Place(**{**place, "address": tuple(place["address"])})
        self.job = job
        self.context: ssl.SSLContext = self.place.context()
        self.selector = selectors.DefaultSelector()
        self.connections: dict[int, Connection] = {}
        self.start_ns = 0
        self.piece_ns = int(job["piece_ns"])
        # Of the wall clock, for what is written.
        self.epoch_ns = time.time_ns() - time.monotonic_ns()
        self.pairs_per_s = float(job["pairs_per_s"])
        self._late_ns: list[int] = []
        self._used_ns, self._used_at_ns = time.process_time_ns(), time.monotonic_ns()
        self._waited_ns = _waited_ns()
        self._input = b""
        self._more: set[Connection] = set()
        self._running = True
        self.timers: list[_Timer] = []

    def run(self) -> None:
        """Work until the command to stop."""
        self.selector.register(sys.stdin.fileno(), READ, None)
        while self._running:
            self._act()
            due_ns = min((timer.due_ns for timer in self.timers), default=_FAR_NS)
            wait_s = 0.0 if self._more else min(1.0, max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
            ready = [(key.data, events) for key, events in self.selector.select(wait_s)]
            seen = {connection for connection, _ in ready}
            ready += [(connection, READ) for connection in self._more if connection not in seen]
            for connection, events in ready:
                if connection is None:
                    self._command()
                elif not connection.is_closed and connection.ready(events):
                    self._more.add(connection)
                else:
                    self._more.discard(connection)
        for connection in list(self.connections.values()):
            connection.close()

    def say(self, **what: Any) -> None:
        """Print one document."""
        os.write(sys.stdout.fileno(), json.dumps(what, separators=(",", ":")).encode() + b"\n")

    def wall_ns(self, at_ns: int) -> int:
        """A time of the monotonic clock as one since the epoch."""
        return at_ns + self.epoch_ns

    def _begin(self, start_ns: int) -> None:
        self.start_ns = self._used_at_ns = start_ns
        self._used_ns, self._waited_ns = time.process_time_ns(), _waited_ns()
        self.timers = [
            _Timer(start_ns, self._look),
            _Timer(start_ns + self.piece_ns, self._tell),
            _Timer(start_ns + int(self.job["first_probe_ns"]), self._probe),
        ]

    def _act(self) -> None:
        now_ns = time.monotonic_ns()
        for timer in self.timers:
            if timer.due_ns <= now_ns:
                timer.due_ns = timer.act(timer.due_ns)

    def _look(self, due_ns: int) -> int:
        now_ns = time.monotonic_ns()
        self._late_ns.append(now_ns - due_ns)
        return now_ns + _LOOK_EVERY_NS

    def _tell(self, due_ns: int) -> int:
        now_ns, used_ns, waited_ns = time.monotonic_ns(), time.process_time_ns(), _waited_ns()
        elapsed_ns = max(1, now_ns - self._used_at_ns)
        late = self._late_ns
        self.say(
            event="piece",
            start_ns=self.wall_ns(self._used_at_ns),
            end_ns=self.wall_ns(now_ns),
            late_ns=sum(late) // len(late) if late else None,
            processor=(used_ns - self._used_ns) / elapsed_ns,
            waited=(waited_ns - self._waited_ns) / elapsed_ns,
            **self.counted(),
        )
        self._late_ns.clear()
        self._used_ns, self._waited_ns, self._used_at_ns = used_ns, waited_ns, now_ns
        self.give_up(now_ns)
        # A host that slept does not make up for what it missed.
        return max(due_ns, now_ns - self.piece_ns) + self.piece_ns

    def _probe(self, due_ns: int) -> int:
        if self.pairs_per_s <= 0:
            return time.monotonic_ns() + _LOOK_EVERY_NS
        self.probe()
        gap_ns = round(1e9 / self.pairs_per_s)
        return max(due_ns + gap_ns, time.monotonic_ns() - gap_ns)

    def _command(self) -> None:
        data = os.read(sys.stdin.fileno(), 1 << 16)
        if not data:
            self._running = False
            return
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            command = json.loads(line)
            if command["do"] == "stop":
                self._running = False
            elif command["do"] == "begin":
                self._begin(int(command["start_ns"]))
            elif command["do"] == "rate":
                self.pairs_per_s = float(command["pairs_per_s"])
            elif command["do"] == "connect":
                self.connect(int(command["count"]))

    # What each kind does.

    def connect(self, count: int) -> None:
        """Open further connections."""

    def counted(self) -> dict[str, Any]:
        """Count what was transferred since the last piece."""
        return {}

    def probe(self) -> None:
        """Send one probe."""

    def give_up(self, now_ns: int) -> None:
        """End probes that take too long."""

    def fetched(self, began_ns: int, request: Request | None, at_ns: int, error: str | None, **times: Any) -> None:
        """Print a probe."""
        self.say(
            event="probe",
            start_ns=self.wall_ns(began_ns),
            duration_ns=at_ns - began_ns,
            first_byte_ns=None if request is None else request.first_byte_ns,
            status=None if request is None else request.status,
            payload_bytes=0 if request is None else request.payload_bytes,
            error=error,
            **times,
        )


class LoadWorker(Worker):
    """Load-generating connections, and probes on them."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self._counted: dict[int, int] = {}
        self._probes: dict[tuple[int, int], Request] = {}

    def connect(self, count: int) -> None:
        """Open further connections, up to the most that may be."""
        for _ in range(count):
            number = len(self.connections) + 1
            if number > int(self.job["most_connections"]):
                return
            connection = Connection(number, self.place, self.context, self.selector, self)
            self.connections[number] = connection
            connection.begin()

    def opened(self, connection: Connection) -> None:
        """Begin its transfer."""
        self.say(event="opened", connection=connection.number, tls=connection.tls_version)
        self._transfer(connection)

    def answered(self, connection: Connection, request: Request, at_ns: int, error: str | None) -> None:
        """Of a probe: how long it took; of a transfer: the next one."""
        if not request.is_load:
            self._probes.pop((connection.number, request.stream), None)
            self.fetched(request.began_ns, request, at_ns, error)
        elif error is not None:
            self.failed(connection, error)
        elif self.job["direction"] == "up":
            self.failed(connection, "the server answered the upload before its end: it must read and discard all of it")
        else:
            self._transfer(connection)

    def failed(self, connection: Connection, why: str) -> None:
        """Say that the load is no longer whole."""
        if self._running:
            self.say(event="failed", connection=connection.number, why=why)
            self._running = False

    def counted(self) -> dict[str, Any]:
        """Bytes of each connection since the last piece."""
        found = {}
        for number, connection in self.connections.items():
            total = connection.received_bytes if self.job["direction"] == "down" else connection.acked_bytes()
            found[number] = max(0, total - self._counted.get(number, 0))
            self._counted[number] = max(total, self._counted.get(number, 0))
        return {"bytes": found}

    def probe(self) -> None:
        """Ask for the small object on one of the connections, whichever it is."""
        able = [one for one in self.connections.values() if one.is_open and one.takes_requests]
        if not able or len(self._probes) >= _MOST_UNANSWERED:
            return
        connection = random.choice(able)
        request = connection.fetch(str(self.job["small_url"]))
        if request is not None and not connection.is_closed:
            self._probes[connection.number, request.stream] = request

    def give_up(self, now_ns: int) -> None:
        """Count requests that take too long as failed; a late answer is not counted again."""
        for key, request in list(self._probes.items()):
            if now_ns - request.began_ns > _PROBE_TIMEOUT_NS:
                del self._probes[key]
                self.connections[key[0]].forget(request)
                self.fetched(request.began_ns, request, now_ns, f"no answer within {_PROBE_TIMEOUT_NS // 10**9} s")

    def _transfer(self, connection: Connection) -> None:
        begin = connection.upload if self.job["direction"] == "up" else _fetch_load(connection)
        if begin(str(self.job["load_url"])) is None and not connection.is_closed:
            self.failed(connection, "the server takes no more requests on the connection")


def _fetch_load(connection: Connection) -> Callable[[str], Request | None]:
    return lambda url: connection.fetch(url, is_load=True)


class ProbeWorker(Worker):
    """Probes on new connections: handshakes of TCP and TLS, and a request."""

    def __init__(self, job: dict[str, Any]) -> None:
        super().__init__(job)
        self._next = 1

    def probe(self) -> None:
        """Open a connection for one request."""
        if len(self.connections) >= _MOST_UNANSWERED:
            return
        connection = Connection(self._next, self.place, self.context, self.selector, self)
        self._next += 1
        self.connections[connection.number] = connection
        connection.begin()

    def opened(self, connection: Connection) -> None:
        """Ask for the small object."""
        if connection.fetch(str(self.job["small_url"])) is None and not connection.is_closed:
            self._end(connection, None, time.monotonic_ns(), "the server takes no request")

    def answered(self, connection: Connection, request: Request, at_ns: int, error: str | None) -> None:
        """It is complete."""
        self._end(connection, request, at_ns, error)

    def failed(self, connection: Connection, why: str) -> None:
        """It will never be."""
        self._end(connection, None, time.monotonic_ns(), why)

    def give_up(self, now_ns: int) -> None:
        """Close those that take too long."""
        for connection in list(self.connections.values()):
            if now_ns - connection.began_ns > _PROBE_TIMEOUT_NS:
                self._end(connection, None, now_ns, f"no answer within {_PROBE_TIMEOUT_NS // 10**9} s")

    def _end(self, connection: Connection, request: Request | None, at_ns: int, error: str | None) -> None:
        if self.connections.pop(connection.number, None) is None:
            return
        tcp_ns = connection.connected_ns - connection.began_ns if connection.connected_ns else None
        tls_ns = connection.secured_ns - connection.connected_ns if connection.secured_ns else None
        # A request is made at once when the connection is ready; what its making took is none of the path's.
        began_ns = connection.began_ns
        if request is not None and request.first_byte_ns is not None:
            request.first_byte_ns += request.began_ns - began_ns
        trips = tls_round_trips(connection.tls_version) if tls_ns is not None else None
        self.fetched(began_ns, request, at_ns, error, tcp_ns=tcp_ns, tls_ns=tls_ns, tls_round_trips=trips)
        connection.close()


def main() -> None:
    """Read the job and do it."""
    # Without a buffer, which would hold back the commands behind the job.
    with os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0) as raw:
        job = json.loads(raw.readline())
    worker = (LoadWorker if job["role"] == "load" else ProbeWorker)(job)
    worker.say(event="ready")
    worker.run()


if __name__ == "__main__":
    main()
