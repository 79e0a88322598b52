"""The median of a few runs with its 95 % interval, also of values of which only a lower bound is known.

- From six values on the interval is that of order statistics: whatever the distribution, the median lies between two of
  them with at least 95 % (W. R. Thompson, Ann. Math. Stat. 7, 1936). Of fewer no two values have it.
- Of three to five it is Student's t about their mean: it presumes that runs vary symmetrically, roughly as a normal
  distribution does. Of values that vary by factors (delays, rates) it is about the mean of the logarithms.
- Of one or two nothing is known of how runs vary.

A run that ended before what was waited for is a lower bound (censored). The median of lower bounds is one of the
median.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whydrop.recording.statistics.distributions import binomial_cdf, student_quantile

Values = NDArray[np.float64]

CONFIDENCE = 0.95
ORDERED_FROM = 6
STUDENT_FROM = 3
ORDER, STUDENT, UNKNOWN = "order statistics", "Student's t", "unknown: fewer than three runs"
STUDENT_OF_LOGARITHMS = "Student's t of logarithms"
CENSORED = "unknown: fewer than six runs, some without an end"
EQUAL = "unknown: all runs have the same value"
_ROUNDING = 1e-12
# Of logarithms: beyond it their exponential is no number.
_LARGEST = 700.0


@dataclass(frozen=True)
class Median:
    """A median of runs.

    Attributes:
        value: NaN without any.
        low: end of the 95 % interval; NaN: unknown.
        high: the other; infinite: it has no upper end.
        censored: whether ``value`` is a lower bound.
        method: of the interval, or why there is none.
    """

    value: float
    low: float
    high: float
    censored: bool
    method: str


def median(
    values: Values,
    censored: NDArray[np.bool_] | None = None,
    least: float = -math.inf,
    most: float = math.inf,
    floor: float | None = None,
) -> Median:
    """The median of runs; the interval keeps within what is possible.

    Args:
        values: one for each run.
        censored: those that are lower bounds.
        least: no value can be smaller.
        most: no value can be larger.
        floor: values vary by factors, unless one is smaller than this.

    >>> found = median(np.array([1.0, 2.0, 3.0, 4.0, 5.0, 9.0]))
    >>> found.value, found.low, found.high, found.method
    (3.5, 1.0, 9.0, 'order statistics')
    """
    lacking = np.zeros(len(values), dtype=bool) if censored is None else censored
    if not len(values):
        return Median(math.nan, math.nan, math.nan, censored=False, method=UNKNOWN)
    lower, upper = np.sort(values), np.sort(np.where(lacking, math.inf, values))
    value = float(np.median(lower))
    is_bound = float(np.median(upper)) != value
    if len(values) >= ORDERED_FROM:
        rank = _rank(len(values))
        return Median(value, float(lower[rank]), float(upper[-1 - rank]), is_bound, ORDER)
    if len(values) < STUDENT_FROM:
        return Median(value, math.nan, math.nan, is_bound, UNKNOWN)
    if lacking.any():
        return Median(value, math.nan, math.nan, is_bound, CENSORED)
    if not float(values.std(ddof=1)) > _ROUNDING * float(np.abs(values).max()):
        return Median(value, math.nan, math.nan, is_bound, EQUAL)
    # Of values below the floor the logarithms show nothing.
    if floor is not None and float(lower[0]) >= floor:
        low, high = (math.exp(min(end, _LARGEST)) for end in _student(np.log(np.maximum(values, floor))))
        return Median(value, max(least, low), min(most, high), is_bound, STUDENT_OF_LOGARITHMS)
    low, high = _student(values)
    return Median(value, max(least, low), min(most, high), is_bound, STUDENT)


def _student(values: Values) -> tuple[float, float]:
    """The ends of Student's interval about the mean."""
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    half = student_quantile((1 + CONFIDENCE) / 2, len(values) - 1) * spread / math.sqrt(len(values))
    return mean - half, mean + half


def _rank(count: int) -> int:
    """How many of the smallest values lie below the interval: the chance of more than that is at most 2.5 %."""
    rank = 0
    while binomial_cdf(rank + 1, count, 0.5) <= (1 - CONFIDENCE) / 2:
        rank += 1
    return rank
