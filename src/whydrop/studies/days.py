"""The autocorrelation of a site's days, and their effective number of independent ones."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import polars as pl
from numpy.typing import NDArray

Values = NDArray[np.float64]

# With fewer days in a period its variance and autocorrelation are unknown.
LEAST_DAYS = 5
# Days with more autocorrelation would be close to a random walk, for which two weeks carry no information.
_MOST_DEPENDENT = 0.9
# The usual value of traffic, if the days are too few to estimate it.
_UNKNOWN_DEPENDENCE = 0.5


def weekends(day: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which days, proleptic ordinals, are Saturdays or Sundays."""
    return np.asarray((day - 1) % 7 >= 5)  # day 1 was a Monday


def without_weekends(values: Values, weekend: NDArray[np.bool_]) -> Values:
    """Deviations without the mean of weekends: it cancels in differences of matched weekdays, but not in variance."""
    if not weekend.any() or weekend.all():
        return values
    return np.asarray(values - np.where(weekend, values[weekend].mean(), values[~weekend].mean()))


def dependence(windows: Iterable[tuple[NDArray[np.int64], Values]]) -> float:
    """The lag-1 autocorrelation of days, 0 to 0.9.

    Of ranks within each window, as one bad day would decide it otherwise. Each window is centred on its own mean, which
    biases the estimate by about -(1 + 4 rho) / n; this is corrected (F. H. C. Marriott and J. A. Pope, "Bias in the
    estimation of autocorrelations", Biometrika 41, 1954). Its standard error, as enlarged by the correction, is added:
    too small an autocorrelation would raise false alarms, and with two windows it is uncertain.

    Args:
        windows: days, as proleptic ordinals in order of time, and a value of each.
    """
    together, pairs, days, used = 0.0, 0, 0, 0
    for day, values in windows:
        ranks = pl.Series(values).rank().to_numpy()
        if len(ranks) < LEAST_DAYS or not np.ptp(ranks):
            continue
        centred = without_weekends(ranks - ranks.mean(), weekends(day))
        if not centred.any():
            continue
        centred /= centred.std()
        # A day that is missing separates its neighbours.
        follows = np.diff(day) == 1
        together += float((centred[1:] * centred[:-1])[follows].sum())
        pairs += int(follows.sum())
        days += len(ranks)
        used += 1
    if not pairs:
        return _UNKNOWN_DEPENDENCE
    length = days / used
    found = (together / pairs + 1 / length) / (1 - 4 / length)
    found += math.sqrt(max(0.0, 1 - found**2) / pairs) / (1 - 4 / length)
    return min(max(found, 0.0), _MOST_DEPENDENT)


def effective(days: NDArray[np.int64], autocorrelation: float) -> float:
    """The equivalent number of independent days for the mean, by the lag-1 autocorrelation."""
    if not len(days):
        return 0.0
    apart = np.abs(days[:, None] - days[None, :])
    return float(len(days) ** 2 / (autocorrelation**apart).sum())


def effective_for_variance(days: NDArray[np.int64], autocorrelation: float) -> float:
    """The equivalent number of independent days for the variance: their squares have its square."""
    return effective(days, autocorrelation**2)
