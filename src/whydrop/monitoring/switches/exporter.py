"""The readings for Prometheus: an HTTP server with a registry of its own.

Counters show their growth since the collector began, without resets and wraps, so Prometheus' ``rate()`` is right
across them. Unknown growth (null, see `growth`) adds nothing. A value is a double, exact below 2^53.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whydrop.monitoring import scraping
from whydrop.monitoring.switches.readings import Reading

if TYPE_CHECKING:
    import polars as pl
    from prometheus_client import Metric

SECOND_NS = 1_000_000_000
# More series than the switches of any site have. Further ones are counted and not shown.
_MOST_SERIES = 200_000
_DURATIONS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_JITTERS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_OF_SWITCH = ("switch", "site")
_OF_COUNTER = ("switch", "site", "port", "machine", "counter")
_STATUSES = ("ok", "timeout", "refused", "late", "error")


class Exporter(scraping.Serving):
    """Serves ``http://ADDRESS:PORT/metrics``."""

    def __init__(self, address: str, port: int, *, most_series: int = _MOST_SERIES) -> None:
        """Listen.

        Args:
            address: of this machine; ``127.0.0.1`` accepts only clients on this machine.
            port: TCP; 0 takes a free one (see the attribute ``port``).
            most_series: the limit of series.

        Raises:
            ExporterError: the address cannot be listened at.
        """
        from prometheus_client import Histogram

        self._guard = threading.Lock()
        # By the values of their labels.
        self._totals: dict[tuple[str, ...], float] = {}
        self._resets: Counter[tuple[str, ...]] = Counter()
        self._polls: Counter[tuple[str, ...]] = Counter()
        self._answered_ns: dict[tuple[str, ...], int] = {}  # CLOCK_MONOTONIC
        self._durations = Histogram(
            "whydrop_poll_duration_seconds", "Duration of polls.", _OF_SWITCH, buckets=_DURATIONS_S, registry=None
        )
        self._jitters = Histogram(
            "whydrop_poll_jitter_seconds", "Time between a poll's tick and its start.", _OF_SWITCH,
            buckets=_JITTERS_S, registry=None,
        )  # fmt: skip
        self._most_series, self._not_shown = most_series, 0
        super().__init__(address, port)

    def take(self, reading: Reading, samples: pl.DataFrame) -> None:
        """Take a poll, made or not, and the rows of ``counters`` that it gave."""
        where = (reading.switch, reading.site or "")
        rows = samples.select("port", "machine", "counter", "value", "quality").iter_rows()
        with self._guard:
            self._observe_poll(where, reading)
            for port, machine, counter, value, quality in rows:
                key = (*where, port, machine or "", counter)
                if key not in self._totals and len(self._totals) >= self._most_series:
                    self._not_shown += 1
                    continue
                self._totals[key] = self._totals.get(key, 0.0) + (value or 0.0)
                if "reset" in quality:
                    self._resets[where] += 1

    def _observe_poll(self, where: tuple[str, str], reading: Reading) -> None:
        if (*where, "ok") not in self._polls:
            self._polls.update({(*where, status): 0 for status in _STATUSES})
        self._polls[*where, reading.status if reading.status in _STATUSES else "error"] += 1
        if reading.start_ns is not None:
            self._jitters.labels(*where).observe(abs(reading.start_ns - reading.due_ns) / SECOND_NS)
            if reading.end_ns is not None:
                self._durations.labels(*where).observe(max(0, reading.end_ns - reading.start_ns) / SECOND_NS)
        if reading.status == "ok":
            self._answered_ns[where] = time.monotonic_ns()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics at this moment."""
        with self._guard:
            totals, resets, polls = dict(self._totals), dict(self._resets), dict(self._polls)
            answered_ns, not_shown = dict(self._answered_ns), self._not_shown
        missed: Counter[tuple[str, ...]] = Counter()
        for (switch, site, status), count in polls.items():
            missed[switch, site] += count if status != "ok" else 0
        now = time.monotonic_ns()
        ages = {where: (now - at) / SECOND_NS for where, at in answered_ns.items()}
        yield from self._durations.collect()
        yield from self._jitters.collect()
        yield scraping.gauge("whydrop_poll_age_seconds", "Time since the switch last answered.", ages, _OF_SWITCH)
        yield scraping.counter("whydrop_polls", "Polls that were due, by result.", polls, [*_OF_SWITCH, "status"])
        yield scraping.counter("whydrop_missed_polls", "Polls that were due and gave no counters.", missed, _OF_SWITCH)
        yield scraping.counter(
            "whydrop_switch_counter",
            "Growth of a port's counter since the collector began (octets, packets or frames, by its name).",
            totals,
            _OF_COUNTER,
        )
        yield scraping.counter(
            "whydrop_counter_resets", "Samples without a value because the counter was reset.", resets, _OF_SWITCH
        )
        yield scraping.not_shown(not_shown)
