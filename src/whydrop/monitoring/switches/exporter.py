"""The readings for Prometheus: an HTTP server with a registry of its own.

Counters show their growth since the collector began, without resets and wraps, so Prometheus' ``rate()`` is right
across them. Unknown growth (null, see `growth`) adds nothing. A value is a double, exact below 2^53.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from whydrop.monitoring.scraping import Serving
from whydrop.monitoring.switches.readings import Reading

if TYPE_CHECKING:
    import polars as pl
    from prometheus_client import Histogram, Metric

SECOND_NS = 1_000_000_000
# More series than the switches of any site have. Further ones are counted and not shown.
_MOST_SERIES = 200_000
_DURATIONS_S = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_JITTERS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_OF_SWITCH = ("switch", "site")
_STATUSES = ("ok", "timeout", "refused", "late", "error")

_Series = tuple[str, str, str, str, str]  # switch, site, port, machine, counter


@dataclass
class _Switch:
    """The polls of a switch."""

    site: str
    duration: Histogram
    jitter: Histogram
    polls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_STATUSES, 0))
    answered_ns: int | None = None  # CLOCK_MONOTONIC


class Exporter(Serving):
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
        self._totals: dict[_Series, float] = {}
        self._resets: dict[tuple[str, str], int] = {}
        self._switches: dict[str, _Switch] = {}
        self._durations = Histogram(
            "whydrop_poll_duration_seconds", "Duration of polls.", _OF_SWITCH, buckets=_DURATIONS_S, registry=None
        )
        self._jitters = Histogram(
            "whydrop_poll_jitter_seconds", "Time between a poll's tick and its start.", _OF_SWITCH,
            buckets=_JITTERS_S, registry=None,
        )  # fmt: skip
        self._most_series, self._not_shown = most_series, 0
        super().__init__(address, port, self.families)

    def take(self, reading: Reading, samples: pl.DataFrame) -> None:
        """Take a poll, made or not, and the rows of ``counters`` that it gave."""
        names = ("port", "machine", "counter", "value", "quality")
        rows = list(zip(*(samples[name].to_list() for name in names), strict=True)) if samples.height else []
        with self._guard:
            self._observe_poll(reading)
            for port, machine, counter, value, quality in rows:
                key = (reading.switch, reading.site or "", port, machine or "", counter)
                if key not in self._totals:
                    if len(self._totals) >= self._most_series:
                        self._not_shown += 1
                        continue
                    self._totals[key] = 0.0
                if value is not None:
                    self._totals[key] += value
                if "reset" in quality:
                    where = (reading.switch, reading.site or "")
                    self._resets[where] = self._resets.get(where, 0) + 1

    def _observe_poll(self, reading: Reading) -> None:
        of = self._switches.get(reading.switch) or self._new_switch(reading.switch, reading.site or "")
        of.polls[reading.status if reading.status in _STATUSES else "error"] += 1
        if reading.start_ns is not None:
            of.jitter.observe(abs(reading.start_ns - reading.due_ns) / SECOND_NS)
            if reading.end_ns is not None:
                of.duration.observe(max(0, reading.end_ns - reading.start_ns) / SECOND_NS)
        if reading.status == "ok":
            of.answered_ns = time.monotonic_ns()

    def _new_switch(self, name: str, site: str) -> _Switch:
        labels = (name, site)
        made = _Switch(site, self._durations.labels(*labels), self._jitters.labels(*labels))
        self._switches[name] = made
        return made

    def families(self) -> Iterator[Metric]:
        """Yield the metrics at this moment."""
        with self._guard:
            totals, resets = dict(self._totals), dict(self._resets)
            switches, not_shown = dict(self._switches), self._not_shown
            polls = list(_poll_families(switches))
        yield from self._durations.collect()
        yield from self._jitters.collect()
        yield from polls
        yield from _counter_families(totals, resets, not_shown)


def _poll_families(switches: dict[str, _Switch]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    age = GaugeMetricFamily("whydrop_poll_age_seconds", "Time since the switch last answered.", labels=_OF_SWITCH)
    polls = CounterMetricFamily("whydrop_polls", "Polls that were due, by result.", labels=[*_OF_SWITCH, "status"])
    missed = CounterMetricFamily("whydrop_missed_polls", "Polls that were due and gave no counters.", labels=_OF_SWITCH)
    now = time.monotonic_ns()
    for name, of in switches.items():
        labels = [name, of.site]
        if of.answered_ns is not None:
            age.add_metric(labels, (now - of.answered_ns) / SECOND_NS)
        for status, count in of.polls.items():
            polls.add_metric([*labels, status], count)
        missed.add_metric(labels, sum(of.polls.values()) - of.polls["ok"])
    yield from (age, polls, missed)


def _counter_families(
    totals: dict[_Series, float], resets: dict[tuple[str, str], int], not_shown: int
) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    grown = CounterMetricFamily(
        "whydrop_switch_counter",
        "Growth of a port's counter since the collector began (octets, packets or frames, by its name).",
        labels=["switch", "site", "port", "machine", "counter"],
    )
    for labels, total in totals.items():
        grown.add_metric(list(labels), total)
    anew = CounterMetricFamily(
        "whydrop_counter_resets", "Samples without a value because the counter was reset.", labels=_OF_SWITCH
    )
    for where, count in resets.items():
        anew.add_metric(list(where), count)
    hidden = CounterMetricFamily(
        "whydrop_samples_not_shown", "Samples of series that are not shown, because there are too many."
    )
    hidden.add_metric([], not_shown)
    yield from (grown, anew, hidden)
