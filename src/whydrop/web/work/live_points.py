"""Points of the charts of a running test, made of the rows that it measures."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import polars as pl

from whydrop.measure.plan import PlannedFlow

# Each series is called CHART/NAME; a point is seconds since the Unix epoch, and a value in the unit of its chart. A
# later point of the same time replaces an earlier one: what was late is counted where it belongs.
Points = dict[str, list[tuple[float, float]]]

# The charts, and their units.
UNITS = {
    "up": "Mbit/s",
    "down": "Mbit/s",
    "rtt": "ms",
    "delay-up": "ms",
    "delay-down": "ms",
    "loss": "%",
    "retransmissions": "packets/s",
    "window": "packets",
    "kernel-rtt": "ms",
    "limited": "% of the time",
    "fetches": "ms",
    "values": "",
}

# The series of all flows of a direction together.
TOGETHER = "all flows"

# Of probes that were lost in an unknown direction; there is a line for them only if there are any.
_UNKNOWN = ", direction unknown"

# Lines of a chart, beside the sum: more cannot be distinguished.
_MOST_LINES = 32
# Points of each series that a page which opens late is given; beyond, every second one goes.
_MOST_POINTS = 4_000
# Values of a time are kept so long for what comes late.
_KEPT_NS = 30_000_000_000
_SECOND_NS = 1_000_000_000
# A flow that reports nothing for so long, or for five of its intervals, is named.
_PATIENCE_S = 5.0

# A value and its weight: of what, or of how many.
Value = tuple[float, float]
Reduce = Callable[[Sequence[Value]], float]


def _median(values: Sequence[Value]) -> float:
    return statistics.median(value for value, _ in values)


def _share(values: Sequence[Value]) -> float:
    """In per cent. Packets that came late after all are subtracted from those lost, maybe of a time before."""
    of = sum(weight for _, weight in values)
    return max(0.0, 100 * sum(value for value, _ in values) / of) if of > 0 else 0.0


class _Bins:
    """Values by series and time, reduced to one point for each step."""

    def __init__(self, step_ns: int, reduce: Reduce, lag_ns: int) -> None:
        """A point is given once values are known that are ``lag_ns`` younger, and again where it changes."""
        self._step_ns, self._reduce, self._lag_ns = step_ns, reduce, lag_ns
        self._values: dict[tuple[str, int], list[Value]] = {}
        self._changed: set[tuple[str, int]] = set()
        self._newest_ns = 0

    def add(self, series: str, time_ns: int, value: float, weight: float = 1) -> None:
        """Add a value of a time; what is older than all that is kept is left out."""
        at = time_ns // self._step_ns
        if time_ns < self._newest_ns - _KEPT_NS:
            return
        self._values.setdefault((series, at), []).append((value, weight))
        self._changed.add((series, at))
        self._newest_ns = max(self._newest_ns, time_ns)

    def take(self) -> Points:
        """The points that are new or changed."""
        found: Points = {}
        for key in sorted(self._changed):
            series, at = key
            if (at + 1) * self._step_ns > self._newest_ns - self._lag_ns:
                continue
            time_s = (at + 0.5) * self._step_ns / 1e9
            found.setdefault(series, []).append((time_s, self._reduce(self._values[key])))
            self._changed.discard(key)
        for key in [key for key in self._values if (key[1] + 1) * self._step_ns < self._newest_ns - _KEPT_NS]:
            del self._values[key]
            self._changed.discard(key)
        return found


class KeptPoints:
    """Points by series and time, for pages that open late: of long series fewer of the older ones."""

    def __init__(self) -> None:
        """None yet."""
        self._points: dict[str, dict[float, float]] = {}

    def add(self, new: Points) -> None:
        """Keep points; one of a time that is known replaces it."""
        for series, points in new.items():
            kept = self._points.setdefault(series, {})
            kept.update(points)
            while len(kept) > _MOST_POINTS:
                for time_s in sorted(kept)[: _MOST_POINTS // 2 : 2]:
                    del kept[time_s]

    def all(self) -> Points:
        """All that are kept, each series in order of time."""
        return {series: sorted(points.items()) for series, points in self._points.items()}


class LivePoints:
    """The points of a test so far. Its methods belong to one thread at a time."""

    def __init__(self, flows: Sequence[PlannedFlow]) -> None:
        """No point yet; the flows are numbered in the order of the plan."""
        self._flows = dict(enumerate(flows))
        self._names = {number: flow.name for number, flow in self._flows.items()}
        self._kept = KeptPoints()
        self._lines: defaultdict[str, set[str]] = defaultdict(set)
        self._left_out: set[str] = set()
        steps = [int(flow.interval_s * 1e9) for flow in flows if flow.kind in ("tcp", "udp")]
        self._step_ns = max([200_000_000, *steps])
        scale = 8e3 / self._step_ns  # bytes in a step to Mbit/s
        # Flows report at slightly different times: their sum waits for all of them.
        self._sums = _Bins(self._step_ns, lambda sizes: sum(size for size, _ in sizes) * scale, _SECOND_NS)
        # Probes come every few milliseconds.
        self._delays = _Bins(200_000_000, _median, 200_000_000)
        # That a probe was lost is known a while after its neighbours have come back.
        self._losses = _Bins(_SECOND_NS, _share, _SECOND_NS)
        self._counted: dict[tuple[str, int], tuple[int, int]] = {}
        self._seen: set[str] = set()
        self._heard_s: dict[int, float] = {}

    @property
    def left_out(self) -> int:
        """Series for which their charts have no room."""
        return len(self._left_out)

    def silent(self, elapsed_s: float) -> list[str]:
        """Flows that should measure, and have reported nothing for some time."""
        return [flow.name for number, flow in self._flows.items() if self._is_silent(number, flow, elapsed_s)]

    def _is_silent(self, number: int, flow: PlannedFlow, elapsed_s: float) -> bool:
        # How long a transfer of some bytes takes is unknown, and so is how long a page takes.
        if flow.duration_s is None or flow.kind == "http":
            return False
        patience_s = max(_PATIENCE_S, 5 * max(flow.interval_s, flow.burst_every_s or 0, flow.off_s or 0))
        since_s = max(flow.start_s, self._heard_s.get(number, 0.0))
        return since_s + patience_s < elapsed_s < flow.start_s + flow.duration_s

    def add(self, rows: Mapping[str, pl.DataFrame], elapsed_s: float | None = None) -> Points:
        """The points that new rows bring, or change.

        Sums, delays and losses of the last second wait for what is late. At the end of the test they have not come: the
        recording has them.
        """
        found: Points = {}
        for table, take in self._tables().items():
            if table in rows:
                take(rows[table], found)
                if elapsed_s is not None:
                    self._heard_s |= dict.fromkeys(rows[table]["flow"].unique(), elapsed_s)
        for bins in (self._sums, self._delays, self._losses):
            for series, points in bins.take().items():
                if series.endswith(_UNKNOWN) and not self._is_seen(series, max(value for _, value in points)):
                    continue
                found.setdefault(series, []).extend(points)
        shown = {
            series: [(time_s, round(value, 4)) for time_s, value in points]
            for series, points in found.items()
            if self._has_room(series)
        }
        self._kept.add(shown)
        return shown

    def all(self) -> Points:
        """All points so far, each series in order of time."""
        return self._kept.all()

    def _tables(self) -> dict[str, Callable[[pl.DataFrame, Points], None]]:
        return {
            "flows": self._flow_names,
            "intervals": self._intervals,
            "probes": self._probes,
            "tcp_info": self._tcp_info,
            "bursts": self._bursts,
            "fetches": self._fetches,
            "values": self._values,
        }

    def _flow_names(self, rows: pl.DataFrame, _found: Points) -> None:
        self._names |= dict(rows.select("flow", "name").rows())

    def _has_room(self, series: str) -> bool:
        chart, _, name = series.partition("/")
        lines = self._lines[chart]
        if name == TOGETHER or name in lines:
            return True
        if len(lines) >= _MOST_LINES:
            self._left_out.add(series)
            return False
        lines.add(name)
        return True

    # --- tables ---

    def _intervals(self, rows: pl.DataFrame, found: Points) -> None:
        columns = rows.select("flow", "start_ns", "end_ns", "goodput_bps", "packets", "lost", "delay_ns")
        for flow, start_ns, end_ns, goodput_bps, packets, lost, delay_ns in columns.sort("end_ns").rows():
            name, direction = self._name(flow), self._direction(flow)
            if goodput_bps is not None and direction:
                found.setdefault(f"{direction}/{name}", []).append((end_ns / 1e9, goodput_bps / 1e6))
                self._sum(direction, start_ns, end_ns, goodput_bps)
            if packets is not None and lost is not None:
                self._losses.add(f"loss/{name}", start_ns, lost, packets + lost)
            if delay_ns is not None and direction:
                found.setdefault(f"delay-{direction}/{name}", []).append((end_ns / 1e9, delay_ns / 1e6))

    def _sum(self, direction: str, start_ns: int, end_ns: int, goodput_bps: float) -> None:
        """Share the bytes of an interval among the steps that it covers."""
        if sum(flow.direction == direction and flow.kind in ("tcp", "udp") for flow in self._flows.values()) < 2:
            return
        at_ns = start_ns
        while at_ns < end_ns:
            next_ns = min(end_ns, (at_ns // self._step_ns + 1) * self._step_ns)
            self._sums.add(f"{direction}/{TOGETHER}", at_ns, goodput_bps / 8e9 * (next_ns - at_ns))
            at_ns = next_ns

    def _probes(self, rows: pl.DataFrame, _found: Points) -> None:
        columns = rows.select("flow", "scheduled_ns", "sent_ns", "rtt_ns", "up_ns", "down_ns", "fate")
        for flow, scheduled_ns, sent_ns, rtt_ns, up_ns, down_ns, fate in columns.rows():
            name, time_ns = self._name(flow), sent_ns or scheduled_ns
            if time_ns is None:
                continue
            for chart, delay_ns in (("rtt", rtt_ns), ("delay-up", up_ns), ("delay-down", down_ns)):
                if delay_ns is not None:
                    self._delays.add(f"{chart}/{name}", time_ns, delay_ns / 1e6)
            for direction, lost in _losses(fate, self._flows[flow].kind if flow in self._flows else ""):
                self._losses.add(f"loss/{name}{direction}", time_ns, lost)

    def _tcp_info(self, rows: pl.DataFrame, found: Points) -> None:
        kernel = ("congestion_window_packets", "srtt_ns", "retransmitted_packets")
        limits = {"receive window": "receive_window_limited_ns", "send buffer": "send_buffer_limited_ns"}
        for row in rows.select("flow", "time_ns", *kernel, *limits.values()).sort("time_ns").iter_rows(named=True):
            name, time_ns = self._name(row["flow"]), row["time_ns"]
            if not self._is_due("kernel", row["flow"], time_ns):
                continue
            if row["congestion_window_packets"] is not None:
                found.setdefault(f"window/{name}", []).append((time_ns / 1e9, row["congestion_window_packets"]))
            if row["srtt_ns"] is not None:
                found.setdefault(f"kernel-rtt/{name}", []).append((time_ns / 1e9, row["srtt_ns"] / 1e6))
            per_s = self._rate("retransmissions", row["flow"], time_ns, row["retransmitted_packets"])
            if per_s is not None:
                found.setdefault(f"retransmissions/{name}", []).append((time_ns / 1e9, per_s))
            for words, column in limits.items():
                share = self._rate(words, row["flow"], time_ns, row[column])
                self._limited(f"limited/{name}: {words}", time_ns, share, found)

    def _limited(self, series: str, time_ns: int, share: float | None, found: Points) -> None:
        """A flow has a line from when it is limited for the first time."""
        if share is None or not self._is_seen(series, share):
            return
        found.setdefault(series, []).append((time_ns / 1e9, min(100.0, share / 1e7)))

    def _is_seen(self, series: str, value: float) -> bool:
        """From its first value that is not zero on."""
        if value > 0:
            self._seen.add(series)
        return series in self._seen

    def _is_due(self, what: str, flow: int, time_ns: int) -> bool:
        """Twice a second is enough for the eye."""
        _, before_ns = self._counted.get((what, flow), (0, 0))
        if time_ns - before_ns < _SECOND_NS // 2:
            return False
        self._counted[what, flow] = (0, time_ns)
        return True

    def _rate(self, what: str, flow: int, time_ns: int, counter: int | None) -> float | None:
        """The growth of a counter per second since the value before."""
        if counter is None:
            return None
        before, before_ns = self._counted.get((what, flow), (0, 0))
        self._counted[what, flow] = (counter, time_ns)
        if not before_ns or counter < before:
            return None
        return (counter - before) * 1e9 / (time_ns - before_ns)

    def _bursts(self, rows: pl.DataFrame, _found: Points) -> None:
        for flow, sent_ns, received_ns in rows.select("flow", "sent_ns", "received_ns").rows():
            if sent_ns is not None:
                self._losses.add(f"loss/{self._name(flow)}", sent_ns, float(received_ns is None))

    def _fetches(self, rows: pl.DataFrame, found: Points) -> None:
        for flow, start_ns, duration_ns in rows.select("flow", "start_ns", "duration_ns").drop_nulls().rows():
            found.setdefault(f"fetches/{self._name(flow)}", []).append((start_ns / 1e9, duration_ns / 1e6))

    def _values(self, rows: pl.DataFrame, found: Points) -> None:
        own = rows.filter(pl.col("key") == "").select("flow", "time_ns", "value").drop_nulls().sort("time_ns")
        for flow, time_ns, value in own.rows():
            units = self._flows[flow].units if flow in self._flows else None
            name = f"{self._name(flow)} ({units})" if units else self._name(flow)
            found.setdefault(f"values/{name}", []).append((time_ns / 1e9, value))

    def _name(self, flow: int) -> str:
        return self._names.get(flow, str(flow))

    def _direction(self, flow: int) -> str:
        direction = self._flows[flow].direction if flow in self._flows else ""
        return direction if direction in ("up", "down") else ""


def _losses(fate: str, kind: str) -> list[tuple[str, float]]:
    """Loss by direction, as the fate of a probe has it: the end of a name of a series, and 1 for lost."""
    if fate in ("not-sent", "far-end"):
        return []
    if kind != "probe":
        # In which direction an echo request was lost is unknown.
        return [("", float(fate.startswith("lost")))]
    unknown = (_UNKNOWN, float(fate == "lost"))
    return {
        "lost-up": [(", up", 1.0), unknown],
        "lost-down": [(", up", 0.0), (", down", 1.0), unknown],
        "lost": [unknown],
    }.get(fate, [(", up", 0.0), (", down", 0.0), unknown])
