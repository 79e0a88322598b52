"""Existing connections to a host as a meter: what they did while the path, and nothing else, limited them.

The kernel's counters (``sock_diag``) of every connection are laid on steps of one length. A step counts if the path
limited at least one connection in all of it: data waited to be sent, and neither the receive window nor the send buffer
was full. Its goodput is that of all connections together, as they share the path. Times in which the applications had
nothing to send, or a window or buffer was full, are left out, and so are the first round trips of each transfer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.act.meter import ETHERNET_BYTES, Judged, Measuring, NoMeasurementError, Reading
from whydrop.measure.far_hosts import FarHost
from whydrop.monitoring.sockets import selection
from whydrop.monitoring.sockets.sampler import Sampler
from whydrop.monitoring.sockets.selection import Wanted
from whydrop.recording import tables
from whydrop.recording.writer import RecordingWriter, folder_for
from whydrop.runtime.cancelling import deferred
from whydrop.text import quantities

LEAST_S = 30.0
# Less time than this that counts is too little to judge by.
_COUNTED_S = 10.0
_STEP_NS = 200_000_000
_POLL_S = 0.1
# After a change: what waited in the queue is lost, and the congestion window recovers from it.
_SETTLES_S, _SETTLES_ROUND_TRIPS = 5.0, 60
# Of each transfer.
_START_ROUND_TRIPS = 20
# A limit that applies for more than this share of an interval is the limit.
_MOST = 0.5
_WHOLE_STEP = 0.95
# All of the time, but for the ends of steps.
_ALL = 0.98
# Without a row for so long, a connection is idle: the sampler writes what changes.
_SILENT_NS = 500_000_000
_COUNTERS = ("acked_bytes", "retransmitted_packets", "sent_data_packets")
_LIMITS = {"receive_window_limited_ns": "the receive window", "send_buffer_limited_ns": "the send buffer"}
_COLUMNS = (
    "flow", "time_ns", "not_sent_bytes", "busy_ns", "srtt_ns", "min_rtt_ns", "mss_bytes", "path_mtu_bytes",
    *_COUNTERS, *_LIMITS,
)  # fmt: skip

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Seen:
    """The growth of connections' counters in a span of time.

    Attributes:
        connections: with rows in that time.
        edges_ns: of the steps.
        counts: for each step, whether the path limited a connection.
        grown: for each step, how much the counters of all connections grew.
        srtt_ns: for each step, the mean of the connections that the path limited; NaN where it limited none.
        limited_s: for how long the path limited one; and each limit of :data:`_LIMITS` the connections, on average.
        mss_bytes, path_mtu_bytes, min_rtt_ns: of the connection that carried most; NaN where there is none.
    """

    connections: int
    edges_ns: NDArray[np.int64]
    counts: NDArray[np.bool_]
    grown: dict[str, Numbers]
    srtt_ns: Numbers
    limits: dict[str, float] = field(default_factory=dict)
    mss_bytes: float = math.nan
    path_mtu_bytes: float = math.nan
    min_rtt_ns: float = math.nan

    @property
    def watched_s(self) -> float:
        """The time that was watched."""
        return float(self.edges_ns[-1] - self.edges_ns[0]) / 1e9 if len(self.edges_ns) else 0.0

    @property
    def counted_s(self) -> float:
        """The time that counts."""
        return float(self.counts.sum()) * _STEP_NS / 1e9

    @property
    def goodput_bps(self) -> float:
        """The payload that was acknowledged in the time that counts, by that time."""
        return float(self.grown["acked_bytes"][self.counts].sum()) * 8 / self.counted_s if self.counted_s else math.nan

    @property
    def retransmitted(self) -> float:
        """The share of the segments that were retransmitted in the time that counts."""
        sent = float(self.grown["sent_data_packets"][self.counts].sum())
        return float(self.grown["retransmitted_packets"][self.counts].sum()) / sent if sent else math.nan


def seen(info: pl.DataFrame, from_ns: int, until_ns: int) -> Seen:
    """Lay the connections of a table ``tcp_info`` on steps from a time to another."""
    edges = np.arange(from_ns, until_ns + 1, _STEP_NS, dtype=np.int64)
    steps = max(0, len(edges) - 1)
    grown = {name: np.zeros(steps) for name in _COUNTERS}
    covered, rtt_sum = np.zeros(steps), np.zeros(steps)
    limits = dict.fromkeys(_LIMITS.values(), 0.0)
    there, most, main = 0, -1.0, None
    rows = tables.conform("tcp_info", info).select(_COLUMNS).filter(pl.col("flow") % 2 == 0)
    for own in rows.partition_by("flow"):
        one = _Connection(own.sort("time_ns"))
        if not steps or one.times[-1] < from_ns or one.times[0] > until_ns:
            continue
        there += 1
        for name in _COUNTERS:
            grown[name] += one.growth(name, edges)
        is_limited = one.limited(edges)
        covered += is_limited
        rtt_sum += np.where(is_limited, one.level("srtt_ns", edges), 0.0)
        for name, words in _LIMITS.items():
            limits[words] += float(one.growth(name, edges).sum()) / 1e9
        if (carried := float(one.growth("acked_bytes", edges).sum())) > most:
            most, main = carried, one
    with np.errstate(invalid="ignore", divide="ignore"):
        srtt = np.where(covered > 0, rtt_sum / covered, np.nan)
    limits = {name: seconds / there for name, seconds in limits.items()} if there else {}
    last = {name: main.last(name) for name in ("mss_bytes", "path_mtu_bytes", "min_rtt_ns")} if main else {}
    return Seen(there, edges, covered > 0, grown, srtt, limits, **last)


class _Connection:
    """The samples of one connection."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self._rows = rows
        self.times = rows["time_ns"].to_numpy().astype(np.int64)

    def growth(self, name: str, edges: NDArray[np.int64]) -> Numbers:
        """The growth of a counter in each step."""
        values = self._column(name, 0.0)
        return np.diff(np.interp(edges, self.times, values))

    def level(self, name: str, edges: NDArray[np.int64]) -> Numbers:
        """A value in the middle of each step."""
        return np.interp((edges[:-1] + edges[1:]) / 2, self.times, self._column(name, 0.0))

    def last(self, name: str) -> float:
        """The last value that is known."""
        known = self._rows[name].drop_nulls()
        return float(known[-1]) if len(known) else math.nan

    def limited(self, edges: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For each step, whether the path limited the connection in all of it, its start apart."""
        if len(self.times) < 2:
            return np.zeros(len(edges) - 1, dtype=bool)
        length = np.diff(self.times).astype(float)
        waits = self._column("not_sent_bytes", 0.0) > 0
        ends = sum(np.diff(self._column(name, 0.0)) for name in _LIMITS)
        # A kernel that does not count its busy time counts no limits either; then what waits must do.
        busy = np.diff(self._column("busy_ns", math.nan))
        is_busy = np.isnan(busy) | (busy > _MOST * length)
        is_limited = waits[:-1] & waits[1:] & (ends <= _MOST * length) & is_busy & (length < _SILENT_NS)
        start_ns = _START_ROUND_TRIPS * self._column("srtt_ns", 0.0)[1:]
        since = _length_of_run(is_limited, length)
        time_ns = np.concatenate([[0.0], np.cumsum(np.where(is_limited & (since > start_ns), length, 0.0))])
        covered = np.diff(np.interp(edges, self.times, time_ns))
        return np.asarray(covered >= _WHOLE_STEP * np.diff(edges))

    def _column(self, name: str, otherwise: float) -> Numbers:
        column = self._rows[name].cast(pl.Float64).fill_null(strategy="forward").fill_null(otherwise)
        return np.asarray(column.to_numpy(), dtype=float)


def _length_of_run(holds: NDArray[np.bool_], length: Numbers) -> Numbers:
    """For each interval, for how long the condition has applied without a break, the interval included."""
    total, found = 0.0, np.zeros(len(length))
    for place, (is_so, one) in enumerate(zip(holds, length, strict=True)):
        total = total + one if is_so else 0.0
        found[place] = total
    return found


@dataclass
class ConnectionsMeter(Measuring):
    """Watches the existing connections to a host; sends nothing itself.

    Attributes:
        host: the far end.
        output: the folder of the recordings.
        length_s: of one measurement, :data:`LEAST_S` at least.
        say: called with the current step, for people.
    """

    host: FarHost
    output: Path
    length_s: float
    say: Callable[[str], None] = lambda _: None
    sends: bool = False
    most_measurements: int = 9
    final_rounds: int = 1
    _shares: list[float] = field(default_factory=list)
    _round_trip_s: float | None = None

    def __post_init__(self) -> None:
        self.length_s = max(self.length_s, LEAST_S)

    @property
    def cannot_pace(self) -> str:
        """The sockets are not ours."""
        return (
            "existing connections keep their own pace, so nothing can be searched for without a change of this host: "
            "leave out --dry-run, or give --rate"
        )

    def judged(self) -> Judged:
        """The share of the time that counts, and what that does to the intervals."""
        share = sum(self._shares) / len(self._shares) if self._shares else 0.0
        wider = 1 / math.sqrt(share) if share else math.inf
        words = (
            f"Judged by the existing connections to {self.host.name}, in the time in which the path limited them "
            f"({quantities.percent(share)} of it); times without data to send, or with a full receive window or send "
            "buffer, do not count."
        )
        if share < _ALL:
            words += f" For that alone, intervals are {wider:.2f} times as wide as with load of one's own."
        return Judged("connections", f"{words} Connections that come and go widen the intervals.", wider)

    def lasts_at_least(self, length_s: float) -> None:
        """Watch for as long as this."""
        self.length_s = max(self.length_s, length_s)

    def reading(self, title: str, **_: Any) -> Reading:
        """Watch, and read what the connections did."""
        folder, found = self._watch(title)
        frame_bytes = found.path_mtu_bytes + ETHERNET_BYTES
        rtt_s = found.min_rtt_ns / 1e9
        return Reading(found.goodput_bps, found.retransmitted, found.mss_bytes, frame_bytes, rtt_s, folder)

    def loaded(self, title: str, **_: Any) -> Path:
        """Watch; nothing is sent."""
        return self._watch(title)[0]

    def _watch(self, title: str) -> tuple[Path, Seen]:
        known_s = self._round_trip_s
        settles_s = 0.0 if known_s is None else max(_SETTLES_S, _SETTLES_ROUND_TRIPS * known_s)
        self.say(title)
        address = self.host.address or self.host.name
        with deferred() as signals:
            sampler = Sampler(Wanted(networks=tuple(selection.networks(address))), _POLL_S)
            try:
                with signals.allowed():
                    time.sleep(settles_s)
                    from_ns = time.time_ns()
                    time.sleep(self.length_s)
                    until_ns = time.time_ns()
            finally:
                sampler.stop()
        found = seen(sampler.take().frames.get("tcp_info", tables.empty("tcp_info")), from_ns, until_ns)
        self.check(title, found)
        self._shares.append(found.counted_s / found.watched_s)
        self._round_trip_s = found.min_rtt_ns / 1e9
        return self.written(title, found), found

    def check(self, title: str, found: Seen) -> None:
        """Raise where there is too little to judge by."""
        watched = quantities.duration(found.watched_s)
        if not found.connections:
            raise NoMeasurementError(
                f"{title}: this host had no TCP connection to {self.host.name} in {watched}: start what loads the "
                "path, or name a far end that takes data (--far-end)"
            )
        if found.counted_s >= _COUNTED_S:
            return
        also = [f"{name} for {quantities.duration(seconds)}" for name, seconds in found.limits.items() if seconds > 1]
        limits = f" On average {' and '.join(also)} limited a connection." if also else ""
        raise NoMeasurementError(
            f"{title}: {quantities.plural(found.connections, 'connection')} to {self.host.name}, but the path limited "
            f"them for {quantities.duration(found.counted_s)} of {watched} only; to judge, "
            f"{quantities.duration(_COUNTED_S)} are needed.{limits} For the rest the applications had nothing to send, "
            "or a transfer had just begun. "
            "Watch for longer (--duration), at a time of more load, or name a far end that takes data (--far-end)"
        )

    def written(self, title: str, found: Seen) -> Path:
        """A recording in which all connections are one flow, with the steps that count."""
        frames = _frames(found)
        begin_ns, end_ns = int(found.edges_ns[0]), int(found.edges_ns[-1])
        test = {
            "test": "connections", "title": f"Existing connections to {self.host.name}", "step_s": _STEP_NS / 1e9,
            "parameters": {"connections": found.connections, "counted_s": found.counted_s},
        }  # fmt: skip
        metadata = {
            "name": "connections",
            "title": title,
            "note": "",
            "started_ns": begin_ns,
            "test": test,
            "hosts": {},
        }
        writer = RecordingWriter(folder_for(self.output, "connections", begin_ns, title), metadata)
        flow = {
            "flow": 0, "name": f"Connections to {self.host.name}", "kind": "tcp", "direction": "up",
            "runner": "kernel", "host": self.host.name, "start_ns": begin_ns, "end_ns": end_ns, "status": "complete",
            "payload_bytes": int(frames["intervals"]["payload_bytes"].sum()), "facts": "{}",
        }  # fmt: skip
        writer.append("flows", pl.DataFrame([flow], schema_overrides={"flow": pl.Int32}))
        for name, frame in frames.items():
            writer.append(name, frame)
        writer.update({"ended_ns": end_ns, "failures": [], "warnings": []})
        return writer.finish("complete")


def _frames(found: Seen) -> dict[str, pl.DataFrame]:
    places = np.flatnonzero(found.counts)
    starts, ends = found.edges_ns[places], found.edges_ns[places + 1]
    acked = np.rint(found.grown["acked_bytes"][places]).astype(np.int64)
    intervals = {"start_ns": starts, "end_ns": ends, "payload_bytes": acked, "goodput_bps": acked * 8e9 / _STEP_NS}
    sums = {
        name: np.rint(np.cumsum(found.grown[name][places])).astype(np.int64)
        for name in ("retransmitted_packets", "sent_data_packets")
    }
    info = {
        "time_ns": ends, **sums, "srtt_ns": np.rint(found.srtt_ns[places]).astype(np.int64),
        "acked_bytes": np.cumsum(acked),
    }  # fmt: skip
    levels = {name: round(getattr(found, name)) for name in ("mss_bytes", "path_mtu_bytes", "min_rtt_ns")}
    constant = {name: pl.lit(value, pl.Int64) for name, value in {**levels, "flow": 0}.items()}
    return {
        "intervals": pl.DataFrame(intervals).with_columns(flow=pl.lit(0, pl.Int32)),
        "tcp_info": pl.DataFrame(info).with_columns(**constant),
    }
