"""How far another host's clock is ahead, from what probes say that carry stamps of both hosts.

For one probe the far clock is ahead by ((far receive - near send) + (far send - near receive)) / 2, off by at most half
of its round trip without the far end's own time (RFC 5905, section 8). The fastest probe of each interval of time
counts; over several of these a straight line is laid by the median of slopes (Theil 1950, Sen 1968), which few bad ones
do not move.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

_NS_PER_S = 1_000_000_000
# Clocks of computers drift by less than 100 ppm: 1 ms in this time.
_INTERVAL_NS = 10 * _NS_PER_S
# A line through fewer points is led by their errors.
_LEAST_FOR_DRIFT = 4
# All pairs of more would take long; these are taken evenly.
_MOST_FOR_DRIFT = 400


@dataclass(frozen=True)
class Stamps:
    """Of one probe: each by the clock of the host that took it, nanoseconds since the epoch."""

    near_sent_ns: int
    far_received_ns: int
    far_sent_ns: int
    near_received_ns: int

    @property
    def rtt_ns(self) -> int:
        """Without the time between arrival and answer at the far end."""
        return self.near_received_ns - self.near_sent_ns - (self.far_sent_ns - self.far_received_ns)

    @property
    def offset_ns(self) -> float:
        """How far the far clock is ahead if both directions took equally long."""
        ahead_there = self.far_received_ns - self.near_sent_ns
        ahead_back = self.far_sent_ns - self.near_received_ns
        return (ahead_there + ahead_back) / 2


@dataclass(frozen=True)
class Offset:
    """How far the far clock is ahead.

    Attributes:
        time_ns: near time of ``offset_ns``.
        uncertainty_ns: half of the smallest round trip: what different directions could hide.
        drift_ppm: how much faster the far clock runs; ``None`` if the test was too short.
    """

    time_ns: int
    offset_ns: float
    uncertainty_ns: float
    drift_ppm: float | None

    def at(self, time_ns: int) -> float:
        """Nanoseconds that the far clock is ahead at a near time."""
        return self.offset_ns + (time_ns - self.time_ns) * (self.drift_ppm or 0.0) / 1e6


def estimate(probes: Sequence[Stamps]) -> Offset | None:
    """The offset of the far clock; ``None`` without probes.

    >>> fast = Stamps(1_000, 6_000_500, 6_000_600, 2_100)
    >>> estimate([fast, Stamps(9_000_000, 15_900_000, 15_900_100, 20_000_000)])
    Offset(time_ns=1000, offset_ns=5999000.0, uncertainty_ns=500.0, drift_ppm=None)
    """
    fastest: dict[int, Stamps] = {}
    for probe in probes:
        interval = probe.near_sent_ns // _INTERVAL_NS
        if probe.rtt_ns >= 0 and (interval not in fastest or probe.rtt_ns < fastest[interval].rtt_ns):
            fastest[interval] = probe
    if not fastest:
        return None
    best = min(fastest.values(), key=lambda probe: probe.rtt_ns)
    points = list(fastest.values())
    if len(points) < _LEAST_FOR_DRIFT:
        return Offset(best.near_sent_ns, best.offset_ns, best.rtt_ns / 2, None)
    points = points[:: -(-len(points) // _MOST_FOR_DRIFT)]
    slope = statistics.median(
        (second.offset_ns - first.offset_ns) / (second.near_sent_ns - first.near_sent_ns)
        for first, second in combinations(points, 2)
        if second.near_sent_ns != first.near_sent_ns
    )
    time_ns = best.near_sent_ns
    at_best = statistics.median(point.offset_ns - slope * (point.near_sent_ns - time_ns) for point in points)
    return Offset(time_ns, at_best, best.rtt_ns / 2, slope * 1e6)
