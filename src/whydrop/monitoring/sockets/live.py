"""Connections of this host as they are now: successive states as data, without a recording."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

import polars as pl

from whydrop.monitoring.sockets import limits
from whydrop.monitoring.sockets.connections import Connections
from whydrop.monitoring.sockets.sampler import Sampler
from whydrop.monitoring.sockets.selection import Wanted

# Each state has a new reading of each connection, even if a poll or two are late.
_POLLS_PER_STATE = 4

_I64, _F64, _TEXT = pl.Int64(), pl.Float64(), pl.String()

#: Columns of a state; what the kernel does not report is null.
COLUMNS = {
    "flow": pl.Int32(),
    "local": _TEXT,
    "remote": _TEXT,
    "process": _TEXT,
    "pid": _I64,
    "state": _TEXT,
    "limit": _TEXT,
    "sent_bps": _F64,
    "received_bps": _F64,
    "retransmitted": _I64,
    "retransmitted_packets": _I64,
    "srtt_ns": _I64,
    "min_rtt_ns": _I64,
    "congestion_window_packets": _I64,
    "congestion_control": _TEXT,
}

#: What each limit means, of the time since the reading before.
VERDICTS = {
    limits.RECEIVE_WINDOW: "The receiver's window stops the sender: the program there reads slowly, or its receive "
    "buffer is too small for this path.",
    limits.SEND_BUFFER: "The send buffer of this host is full before the congestion window is: it is too small for "
    "this path.",
    limits.APPLICATION: "The program on this host limits it: for more than half of the time it has nothing to send.",
    limits.LOSS_RECOVERY: "Packets are missing or late: the sender repairs losses.",
    limits.SLOW_START: "The congestion window grows in slow start.",
    limits.CONGESTION_WINDOW: "The congestion window limits it: the path carries no more, as the congestion control "
    "sees it.",
    limits.PACING: "No window and no buffer is full: the sender waits for its pacing rate, as far as the kernel's "
    "counters show.",
    limits.IDLE: "Nothing moves.",
    limits.RECEIVING: "This host mostly receives: what limits the other end cannot be seen here.",
    limits.UNKNOWN: "Unknown: there is one reading so far, or this kernel does not count what limits a sender.",
}


@dataclass(frozen=True)
class LiveState:
    """The connections of this host at a moment.

    Attributes:
        time_ns: of the state, since the Unix epoch.
        connections: one row each, those that carry most first: ``local`` and ``remote`` end, ``process`` and ``pid``
            (null if they belong to another user, or the process is gone), ``state`` of TCP, ``limit`` (as ``whydrop
            watch`` names it), payload acknowledged and received as ``sent_bps`` and ``received_bps``, packets
            ``retransmitted`` since the state before and ``retransmitted_packets`` in all, ``srtt_ns``, ``min_rtt_ns``,
            ``congestion_window_packets`` and ``congestion_control``. ``flow`` is the same in all states.
        warnings: limit what is seen.
    """

    time_ns: int
    connections: pl.DataFrame
    warnings: tuple[str, ...] = ()


class LiveWatch:
    """States of the connections of this host, one after the other; iterate over it, and close it at the end."""

    def __init__(self, wanted: Wanted, every_s: float = 1.0) -> None:
        """Begin.

        Args:
            wanted: which connections.
            every_s: from one state to the next.

        Raises:
            SamplingError: the kernel does not list its sockets.
        """
        if not every_s > 0:
            raise ValueError(f"every_s={every_s}: expected a time above 0")
        self._every_s = every_s
        self._connections = Connections()
        self._board = limits.Board()
        self._sampler = Sampler(wanted, every_s / _POLLS_PER_STATE)
        self._due_s = time.monotonic() + every_s
        self._is_open = True

    def __enter__(self) -> LiveWatch:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, reason: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __iter__(self) -> Iterator[LiveState]:
        """The states from now on, until it is closed."""
        while self._is_open:
            yield self.next_state()

    def close(self) -> None:
        """Ask the kernel no more."""
        if self._is_open:
            self._is_open = False
            self._sampler.stop()

    def next_state(self) -> LiveState:
        """Wait for the next state."""
        now_s = time.monotonic()
        time.sleep(max(0.0, self._due_s - now_s))
        # States that a pause of the whole process left out do not follow in a hurry.
        self._due_s = max(self._due_s, now_s) + self._every_s
        taken = self._sampler.take()
        self._connections.take(taken)
        self._board.take(taken.frames.get("tcp_info"), self._connections)
        standing = self._sampler.standing()
        warnings = (f"a poll of the sockets failed: {standing['problem']}",) if standing["problem"] else ()
        return LiveState(time.time_ns(), _rows(self._board, self._connections), warnings)


def _rows(board: limits.Board, connections: Connections) -> pl.DataFrame:
    known = []
    for flow, connection in connections.there.items():
        local, remote = connection.ends
        pid, process, _ = connection.owner or (None, None, None)
        known.append((flow, local, remote, process, pid))
    names = {name: COLUMNS[name] for name in ("flow", "local", "remote", "process", "pid")}
    rows = board.rows(connections).join(pl.DataFrame(known, schema=names, orient="row"), on="flow")
    load = pl.sum_horizontal(pl.col(name).fill_null(0) for name in ("sent_bps", "received_bps"))
    rows = rows.sort(load, "acked_bytes", "flow", descending=[True, True, False], nulls_last=True)
    return rows.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
