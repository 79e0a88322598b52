"""Totals of a watch for Prometheus: since the watch began, in base units, with few labels.

Single connections have no labels, as there may be any number of them. They are in the recording.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whydrop.monitoring.scraping import Serving
from whydrop.monitoring.sockets.board import Board

if TYPE_CHECKING:
    import polars as pl
    from prometheus_client import Metric

    from whydrop.monitoring.sockets.host import Dropped
    from whydrop.monitoring.sockets.sampler import Taken
    from whydrop.monitoring.sockets.watch import Watch

# Interfaces, queues, processors and the counters of each. Series beyond this number are counted and not shown.
_MOST_SERIES = 5000
# Counters of single sockets: sockets come and go without end.
_NOT_SHOWN = frozenset({"socket"})

_Series = tuple[str, str, str]  # source, object, counter


class WatchExporter(Serving):
    """Serves ``http://ADDRESS:PORT/metrics``."""

    def __init__(self, address: str, port: int) -> None:
        """Listen; see :class:`Serving`."""
        self._guard = threading.Lock()
        self._board = Board()
        self._totals: Counter[str] = Counter()
        self._limits: Counter[str] = Counter()
        self._dropped: Dropped | None = None
        self._reasons: Counter[str] = Counter()
        self._growth: dict[_Series, float] = {}
        self._last: dict[_Series, float] = {}
        self._levels: dict[_Series, float] = {}
        super().__init__(address, port, self.families)

    def observe(self, watch: Watch, taken: Taken) -> None:
        """Take the samples since the last call."""
        self._board.take(taken.frames.get("tcp_info"), watch.connections)
        rows = self._board.rows(watch.connections)
        intervals = taken.frames.get("intervals")
        with self._guard:
            self._totals["connections"] = len(watch.connections.there)
            self._totals["seen"] = watch.connections.seen
            self._totals["polls"], self._totals["missed"] = watch.tally.polls, watch.tally.missed
            self._totals["cpu_ns"] = watch.tally.cpu_ns
            self._totals["retransmitted"] += int(rows["retransmitted"].sum())
            if intervals is not None:
                odd = intervals["flow"] % 2 == 1
                self._totals["received"] += int(intervals.filter(odd)["payload_bytes"].sum())
                self._totals["sent"] += int(intervals.filter(~odd)["payload_bytes"].sum())
            self._limits = Counter(dict(rows["limit"].value_counts().iter_rows()))
            self._dropped, self._reasons = watch.host.dropped, Counter(watch.host.dropped.reasons)
            for name, frame in watch.host.latest:
                if name == "counters":
                    self._count(frame)

    def _count(self, frame: pl.DataFrame) -> None:
        columns = ("source", "object", "counter", "value", "cumulative")
        for source, thing, counter, value, cumulative in frame.select(columns).iter_rows():
            key = (source, thing, counter)
            if source in _NOT_SHOWN or not self._has_room(key):
                continue
            if not cumulative:
                self._levels[key] = value
                continue
            grown = value - self._last.get(key, value)
            # A counter that fell was reset to zero.
            self._growth[key] = self._growth.get(key, 0.0) + (grown if grown >= 0 else value)
            self._last[key] = value

    def _has_room(self, key: _Series) -> bool:
        known = key in self._growth or key in self._levels
        if not known and len(self._growth) + len(self._levels) >= _MOST_SERIES:
            self._totals["not_shown"] += 1
            return False
        return True

    def families(self) -> Iterator[Metric]:
        """The metrics at this moment."""
        with self._guard:
            totals, limits, dropped = Counter(self._totals), Counter(self._limits), self._dropped
            reasons, growth, levels = self._reasons, dict(self._growth), dict(self._levels)
        yield from _of_connections(totals, limits)
        if dropped is not None:
            yield from _of_drops(dropped, reasons)
        yield from _of_host(growth, levels, totals["not_shown"])


def _of_connections(totals: Counter[str], limits: Counter[str]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield GaugeMetricFamily("whydrop_connections", "Open TCP connections that are watched.", totals["connections"])
    limited = GaugeMetricFamily(
        "whydrop_connections_limited", "Connections by what limits their throughput.", labels=["limit"]
    )
    for limit, count in limits.items():
        limited.add_metric([limit], count)
    yield limited
    for name, text, value in (
        ("whydrop_connections_seen", "TCP connections seen since the watch began.", totals["seen"]),
        ("whydrop_sent_payload_bytes", "Payload bytes sent and acknowledged.", totals["sent"]),
        ("whydrop_received_payload_bytes", "Payload bytes received in order.", totals["received"]),
        ("whydrop_retransmitted_packets", "TCP segments retransmitted.", totals["retransmitted"]),
        ("whydrop_polls", "Polls of the kernel's sockets.", totals["polls"]),
        ("whydrop_missed_polls", "Polls of the kernel's sockets that were due and not made.", totals["missed"]),
        ("whydrop_poll_cpu_seconds", "CPU time of the polls.", totals["cpu_ns"] / 1e9),
    ):
        yield CounterMetricFamily(name, text, value)


def _of_drops(dropped: Dropped, reasons: Counter[str]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    by_reason = CounterMetricFamily(
        "whydrop_dropped_packets", "Packets dropped by the kernel of this host, by its reason.", labels=["reason"]
    )
    for reason, packets in reasons.items():
        by_reason.add_metric([reason], packets)
    yield by_reason
    yield CounterMetricFamily(
        "whydrop_lost_drop_events", "Drops that the kernel reported too fast to be counted.", dropped.lost
    )
    if dropped.retransmitted is not None:
        yield CounterMetricFamily(
            "whydrop_retransmitted_packets_after_drop_here",
            "TCP segments retransmitted after this host dropped the same bytes.",
            dropped.retransmitted_after_drop,
        )


def _of_host(growth: dict[_Series, float], levels: dict[_Series, float], not_shown: int) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    names = ["source", "object", "counter"]
    grown = CounterMetricFamily(
        "whydrop_host_counter",
        "Growth of a counter of this host since the watch began, in the unit of its name.",
        labels=names,
    )
    for key, value in growth.items():
        grown.add_metric(list(key), value)
    level = GaugeMetricFamily(
        "whydrop_host_level", "A level of this host (such as a queue length), in the unit of its name.", labels=names
    )
    for key, value in levels.items():
        level.add_metric(list(key), value)
    hidden = CounterMetricFamily(
        "whydrop_samples_not_shown", "Samples of series that are not shown, because there are too many."
    )
    hidden.add_metric([], not_shown)
    yield from (grown, level, hidden)
