"""Totals of a watch for Prometheus: since the watch began, in base units, with few labels.

Single connections have no labels, as there may be any number of them. They are in the recording.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whydrop.monitoring import scraping
from whydrop.monitoring.sockets.limits import Board

if TYPE_CHECKING:
    import polars as pl
    from prometheus_client import Metric

    from whydrop.monitoring.sockets.sampler import Taken
    from whydrop.monitoring.sockets.watch import Watch

# Interfaces, queues, processors and the counters of each. Series beyond this number are counted and not shown.
_MOST_SERIES = 5000
# Counters of single sockets: sockets come and go without end.
_NOT_SHOWN = frozenset({"socket"})

_Series = tuple[str, ...]  # source, object, counter


class WatchExporter(scraping.Serving):
    """Serves ``http://ADDRESS:PORT/metrics``."""

    def __init__(self, address: str, port: int) -> None:
        """Listen; see :class:`Serving`."""
        self._guard = threading.Lock()
        self._board = Board()
        self._totals: Counter[str] = Counter()
        self._limits: dict[tuple[str, ...], float] = {}
        self._dropped: dict[tuple[str, ...], float] | None = None  # by reason; None before the first samples
        self._after_drop: int | None = None
        self._growth: dict[_Series, float] = {}
        self._last: dict[_Series, float] = {}
        self._levels: dict[_Series, float] = {}
        super().__init__(address, port)

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
            self._limits = {(limit,): count for limit, count in rows["limit"].value_counts().iter_rows()}
            dropped = watch.host.dropped
            self._dropped = {(reason,): packets for reason, packets in dropped.reasons.items()}
            self._totals["lost"] = dropped.lost
            self._after_drop = None if dropped.retransmitted is None else dropped.retransmitted_after_drop
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

    def collect(self) -> Iterator[Metric]:
        """The metrics at this moment."""
        with self._guard:
            totals, limits, dropped, after_drop = Counter(self._totals), self._limits, self._dropped, self._after_drop
            growth, levels = dict(self._growth), dict(self._levels)
        counter, gauge = scraping.counter, scraping.gauge
        yield gauge("whydrop_connections", "Open TCP connections that are watched.", {(): totals["connections"]})
        yield gauge(
            "whydrop_connections_limited", "Connections by what limits their throughput.", limits, labels=["limit"]
        )
        for name, text, value in (
            ("whydrop_connections_seen", "TCP connections seen since the watch began.", totals["seen"]),
            ("whydrop_sent_payload_bytes", "Payload bytes sent and acknowledged.", totals["sent"]),
            ("whydrop_received_payload_bytes", "Payload bytes received in order.", totals["received"]),
            ("whydrop_retransmitted_packets", "TCP segments retransmitted.", totals["retransmitted"]),
            ("whydrop_polls", "Polls of the kernel's sockets.", totals["polls"]),
            ("whydrop_missed_polls", "Polls of the kernel's sockets that were due and not made.", totals["missed"]),
            ("whydrop_poll_cpu_seconds", "CPU time of the polls.", totals["cpu_ns"] / 1e9),
        ):
            yield counter(name, text, {(): value})
        if dropped is not None:
            text = "Packets dropped by the kernel of this host, by its reason."
            yield counter("whydrop_dropped_packets", text, dropped, ["reason"])
            text = "Drops that the kernel reported too fast to be counted."
            yield counter("whydrop_lost_drop_events", text, {(): totals["lost"]})
        if after_drop is not None:
            text = "TCP segments retransmitted after this host dropped the same bytes."
            yield counter("whydrop_retransmitted_packets_after_drop_here", text, {(): after_drop})
        names = ["source", "object", "counter"]
        text = "Growth of a counter of this host since the watch began, in the unit of its name."
        yield counter("whydrop_host_counter", text, growth, names)
        text = "A level of this host (such as a queue length), in the unit of its name."
        yield gauge("whydrop_host_level", text, levels, names)
        yield scraping.not_shown(totals["not_shown"])
