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
        meaning: what the number is, a sentence.
    """

    key: str
    title: str
    unit: str = ""
    better: str = "lower"
    least: float = 0.0
    most: float = math.inf
    floor: float | None = None
    meaning: str = ""


CONTAIN = "contain-time"
LATENCY = "induced-latency"
# Delays of a bin of the store's histograms are not distinguished.
_BIN_MS = 0.1
_LATENCY = "Round-trip times of probes under load, less the median of the same probes before the load."
_GOODPUT = "Payload per second: the sum of all TCP flows of this direction."
_UTILISATION = "Goodput as a share of the line's rate. Headers are no goodput, so 100 % is not reached."
_FAIRNESS = "Of the goodputs of the TCP flows: 1 if all are equal, 1/n if one of n flows has everything."
_DROPS = "Share of the packets that reached the queue, by its own counters (tc)."
_MARKS = "Share of the packets that reached the queue, marked with congestion experienced (ECN)."
_CONTAIN = "From the start of the last flow until induced latency stays at or below the target (--target)."
_FRAME = "From the first packet sent to the last received, of frames that arrived complete."

MEASURES = {
    one.key: one
    for one in (
        # A median below the idle one is possible: the path may be quieter.
        Measure(LATENCY, "Induced latency, median", "ms", least=-math.inf, floor=_BIN_MS, meaning=_LATENCY),
        Measure(
            "induced-latency-p95", "Induced latency, 95th percentile", "ms", least=-math.inf, floor=_BIN_MS,
            meaning=_LATENCY,
        ),
        Measure(
            "induced-latency-p99", "Induced latency, 99th percentile", "ms", least=-math.inf, floor=_BIN_MS,
            meaning=_LATENCY,
        ),
        Measure(CONTAIN, "Time to contain", "s", meaning=_CONTAIN),
        Measure("goodput-down", "Goodput down", "Mbit/s", "higher", floor=0.001, meaning=_GOODPUT),
        Measure("goodput-up", "Goodput up", "Mbit/s", "higher", floor=0.001, meaning=_GOODPUT),
        Measure("utilisation-down", "Utilisation down", "%", "higher", meaning=_UTILISATION),
        Measure("utilisation-up", "Utilisation up", "%", "higher", meaning=_UTILISATION),
        Measure("fairness-down", "Jain's index down", "", "higher", most=1.0, meaning=_FAIRNESS),
        Measure("fairness-up", "Jain's index up", "", "higher", most=1.0, meaning=_FAIRNESS),
        Measure("drops-down", "Packets dropped by the queue, down", "%", most=100.0, meaning=_DROPS),
        Measure("drops-up", "Packets dropped by the queue, up", "%", most=100.0, meaning=_DROPS),
        Measure("marks-down", "Packets marked by the queue, down", "%", "", most=100.0, meaning=_MARKS),
        Measure("marks-up", "Packets marked by the queue, up", "%", "", most=100.0, meaning=_MARKS),
        Measure("retransmits", "Retransmitted segments", "%", most=100.0, meaning="Share of the TCP segments sent."),
        Measure(
            "mos", "Quality of speech (MOS)", "", "higher", least=1.0, most=4.5,
            meaning="Mean opinion score of a call by ITU-T G.107: 1 is bad, 4.5 the best.",
        ),
        Measure("page-time", "Time to load a page", "ms", floor=1.0, meaning="Until all objects have arrived."),
        Measure("burst-time-p95", "Time of a video frame, 95th percentile", "ms", floor=1.0, meaning=_FRAME),
        Measure(
            "bursts-incomplete", "Video frames with lost packets", "%", most=100.0, meaning="Share of the frames sent.",
        ),
    )
}  # fmt: skip

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
