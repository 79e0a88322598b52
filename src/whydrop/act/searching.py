"""Finding the rate at which to pace, by measurements of goodput.

The goodput of a paced flow is a one-sided function of its rate. Below what the path carries all of it arrives, so the
goodput *is* the rate; above, a queue overflows or a policer drops, and it is less. And its noise is one-sided: other
traffic can lower the goodput of a measurement, nothing can raise it above what the path carries. So one measurement at
which all arrives is believed at once, and one at which a little is missing is asked again before half of the range is
given up for it: a noisy binary search (R. M. Karp and R. Kleinberg, "Noisy binary search and its applications", SODA
2007), here on the logarithm of the rate, with the one-sided noise making repetitions needless on one side. What is left
when the range is narrow are two candidates, the rate that carries and one a little below it: both are measured twice
more, in random order, and judged by their means.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean

# By default in all, the unpaced one and repetitions included.
MOST_MEASUREMENTS = 15
# All arrives: less than this share is missing. It is more than acknowledgments, timers and the ends of intervals cost.
_ARRIVES = 0.97
# So little missing may be chance: it is asked again.
_DOUBTFUL = 0.8
# The search ends when the range is this narrow: a twentieth of the best is what may be given away in all.
_NARROW = 1.02
# Of the rate that carries: below it there is room for what other traffic takes, and for timers that are late.
_CANDIDATES = (1.0, 0.98)
# Goodputs that differ by less are as good as each other; then the one with less loss is taken, and of such the lowest.
_AS_GOOD = 0.03
# So often each of the candidates is measured.
FINAL_ROUNDS = 2


@dataclass(frozen=True)
class Tried:
    """One measurement.

    Attributes:
        rate_bps: of payload, at which the flow was paced; infinite: not at all.
        goodput_bps: of payload, that arrived.
        retransmitted: share of the segments; NaN where it is not known.
    """

    rate_bps: float
    goodput_bps: float
    retransmitted: float

    @property
    def arrives(self) -> float:
        """The share of the rate that arrived."""
        return self.goodput_bps / self.rate_bps


# Measures at a rate of payload; infinite: unpaced.
Measure = Callable[[float], Tried]


@dataclass
class Search:
    """The measurements of a search, in order, and the best rate.

    Attributes:
        tried: every measurement.
        best: of the candidates that were measured last, the rate that was chosen, with the means of its measurements.
    """

    tried: list[Tried] = field(default_factory=list)
    best: Tried | None = None

    @property
    def unpaced(self) -> Tried:
        """The measurement without pacing."""
        return self.tried[0]


def search(
    measure: Measure,
    highest_bps: float,
    seed: int | None = None,
    *,
    most: int = MOST_MEASUREMENTS,
    final_rounds: int = FINAL_ROUNDS,
) -> Search:
    """Find the rate that brings the most.

    Args:
        measure: one measurement at a rate of payload.
        highest_bps: what this host can send; no higher rate is tried.
        seed: of the order of the last measurements; ``None``: another one each time.
        most: measurements in all.
        final_rounds: how often each of the last candidates is measured.
    """
    found = Search()

    def at(rate_bps: float) -> Tried:
        found.tried.append(measure(rate_bps))
        return found.tried[-1]

    unpaced = at(math.inf)
    low, high = max(unpaced.goodput_bps, 1.0), highest_bps
    finals = final_rounds * len(_CANDIDATES)
    while high / low > _NARROW and len(found.tried) < most - finals:
        middle = math.sqrt(low * high)
        tried = at(middle)
        doubtful = _DOUBTFUL <= tried.arrives < _ARRIVES
        if doubtful and len(found.tried) < most - finals:
            tried = max(tried, at(middle), key=lambda one: one.goodput_bps)
        if tried.arrives >= _ARRIVES:
            low = middle
        else:
            high = middle
            # What arrived at a rate that is too high would arrive if it were asked for alone.
            low = max(low, tried.goodput_bps)
    found.best = _better(low, at, random.Random(seed), final_rounds)
    return found


def _better(low_bps: float, at: Measure, order: random.Random, rounds: int) -> Tried:
    """Measure the candidates again, in random order, and return the better one with its means."""
    results: dict[float, list[Tried]] = {low_bps * share: [] for share in _CANDIDATES}
    for _ in range(rounds):
        for rate in order.sample(list(results), len(results)):
            results[rate].append(at(rate))
    means = [_mean(tried) for tried in results.values()]
    most = max(one.goodput_bps for one in means)
    good = [one for one in means if one.goodput_bps >= most * (1 - _AS_GOOD)]
    return min(good, key=lambda one: (0.0 if math.isnan(one.retransmitted) else one.retransmitted, one.rate_bps))


def _mean(tried: list[Tried]) -> Tried:
    goodput_bps = fmean(one.goodput_bps for one in tried)
    return Tried(tried[0].rate_bps, goodput_bps, fmean(one.retransmitted for one in tried))
