"""Measures of each run: names, units, which direction is better, and the ends of what is possible."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """A number of each run.

    Attributes:
        key: as the store's metrics have it, or of this study.
        title: in tables.
        unit: of values.
        better: ``lower`` or ``higher``; empty: neither.
        least: the smallest possible value; an interval never goes below it.
        most: the largest.
        floor: smaller values count as this much where a logarithm is taken; ``None``: ratios of it mean nothing.
    """

    key: str
    title: str
    unit: str = ""
    better: str = "lower"
    least: float = 0.0
    most: float = math.inf
    floor: float | None = None


CONTAIN = "contain-time"
LATENCY = "induced-latency"
# Delays of a bin of the store's histograms are not distinguished.
_BIN_MS = 0.1

MEASURES = {
    one.key: one
    for one in (
        # A median below the idle one is possible: the path may be quieter.
        Measure(LATENCY, "Induced latency, median", "ms", least=-math.inf, floor=_BIN_MS),
        Measure("induced-latency-p95", "Induced latency, 95 %", "ms", least=-math.inf, floor=_BIN_MS),
        Measure("induced-latency-p99", "Induced latency, 99 %", "ms", least=-math.inf, floor=_BIN_MS),
        Measure(CONTAIN, "Time to contain", "s"),
        Measure("goodput-down", "Goodput down", "Mbit/s", "higher", floor=0.001),
        Measure("goodput-up", "Goodput up", "Mbit/s", "higher", floor=0.001),
        Measure("utilisation-down", "Utilisation down", "%", "higher"),
        Measure("utilisation-up", "Utilisation up", "%", "higher"),
        Measure("fairness-down", "Jain's index down", "", "higher", most=1.0),
        Measure("fairness-up", "Jain's index up", "", "higher", most=1.0),
        Measure("drops-down", "Drops at the queue down", "%", most=100.0),
        Measure("drops-up", "Drops at the queue up", "%", most=100.0),
        Measure("marks-down", "Marks at the queue down", "%", "", most=100.0),
        Measure("marks-up", "Marks at the queue up", "%", "", most=100.0),
        Measure("retransmits", "Retransmitted segments", "%", most=100.0),
        Measure("mos", "Quality of speech (MOS)", "", "higher", least=1.0, most=4.5),
        Measure("page-time", "Time to load a page", "ms", floor=1.0),
        Measure("burst-time-p95", "Time of a frame, 95 %", "ms", floor=1.0),
        Measure("bursts-incomplete", "Frames with lost packets", "%", most=100.0),
    )
}

_RATE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?i?)(bit|bps)?\s*(?:/s)?\s*", re.IGNORECASE)
_PREFIXES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def rate_bps(text: str | None) -> float | None:
    """A rate as `tc` spells it; ``None`` where it is none. As in `tc`, ``bps`` is bytes a second.

    >>> rate_bps("10mbit"), rate_bps("1.5 Gbit"), rate_bps("100kbps"), rate_bps("fast")
    (10000000.0, 1500000000.0, 800000.0, None)
    """
    found = _RATE.fullmatch(text or "")
    if found is None:
        return None
    number, prefix, unit = found[1], found[2].lower(), (found[3] or "").lower()
    factor = (1024 if prefix.endswith("i") else 1000) ** _PREFIXES[prefix.rstrip("i")]
    rate = float(number) * factor * (8 if unit == "bps" else 1)
    return rate if 0 < rate < math.inf else None
