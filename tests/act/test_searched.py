"""The plan of a search, on a path with a goodput that depends on rate and burst."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plain_text import plain
from whydrop.act.changes import Change
from whydrop.act.meter import Judged, Measuring, Reading
from whydrop.act.pacing import Plan, Route, searched
from whydrop.act.snapshot import Snapshot

# An interface that does not exist: its packets are of the usual size.
ROUTE = Route((ipaddress.ip_address("192.0.2.7"),), "none0", 1, Snapshot(1, 1000, (), (), ()))
RATE = re.compile(r"rate (\d+)bit ceil \d+bit burst (\d+)")


class Playing(Measuring):
    """A path and this host's queue before it, as numbers: bit/s by rate and burst."""

    def __init__(self, path: Callable[[float, float], float], *, sends: bool = True) -> None:
        self.path, self.sends = path, sends
        self.rate_bps, self.burst_bytes = float("inf"), 0.0
        self.measured = 0
        self.length_s = 4.0

    def use(self, change: Change) -> None:
        found = RATE.search(" ".join(change.commands()))
        assert found is not None
        self.rate_bps, self.burst_bytes = float(found[1]), float(found[2])

    def reading(self, _title: str, **_: Any) -> Reading:
        self.measured += 1
        payload = 1448 / 1514
        return Reading(self.path(self.rate_bps, self.burst_bytes) * payload, 0.0, 1448, 1514, 0.05, Path())

    def loaded(self, _title: str, **_: Any) -> Path:
        raise AssertionError

    def lasts_at_least(self, length_s: float) -> None:
        self.length_s = max(self.length_s, length_s)

    def judged(self) -> Judged:
        return Judged()


def found(playing: Playing) -> Plan:
    return searched(playing, ROUTE, playing, highest_bps=100e6)  # type: ignore[arg-type]


def shallow(rate_bps: float, burst_bytes: float) -> float:
    return rate_bps if rate_bps <= 10e6 and burst_bytes <= 3200 else 2e6


def late(rate_bps: float, burst_bytes: float) -> float:
    """Timers of this host are late: with small bursts it does not come to its rate."""
    return min(rate_bps, 10e6) * (1.0 if burst_bytes > 3200 else 0.9)


def test_larger_bursts_are_measured_once_and_not_taken_where_they_bring_less() -> None:
    plan = found(Playing(shallow))
    assert plan.rate_bps == pytest.approx(10e6, rel=0.05)
    assert plan.burst_bytes == 1600
    assert plan.larger_burst is not None
    assert plan.larger_burst.burst_bytes == 16_000
    assert plan.larger_burst.goodput_bps == pytest.approx(2e6 * 1448 / 1514)
    assert "in bursts of 16 000 B 1.91 Mbit/s" in plain(plan.why)


def test_larger_bursts_that_bring_more_are_taken() -> None:
    assert found(Playing(late)).burst_bytes == 16_000


def test_existing_connections_are_not_watched_once_more_for_it() -> None:
    playing = Playing(shallow, sends=False)
    plan = found(playing)
    assert plan.larger_burst is None
    assert plan.search is not None
    assert playing.measured == len(plan.search.tried)


def test_measurements_are_as_long_as_the_round_trip_time_needs() -> None:
    playing = Playing(shallow)
    playing.length_s = 1.0
    found(playing)
    assert playing.length_s == pytest.approx(60 * 0.05)
