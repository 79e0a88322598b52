"""Dependence of a site's days on each other, and how many independent ones they are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

Values = NDArray[np.float64]

# With fewer days in a period its spread and the dependence of its days are not known.
LEAST_DAYS = 5
# Days that depended on each other more closely would be a random walk, about which two weeks say nothing.
_MOST_DEPENDENT = 0.9
# The usual value of traffic, if the days are too few to estimate it.
_UNKNOWN_DEPENDENCE = 0.5


class Window(Protocol):
    """Days in order of time, as proleptic ordinals, and a value of each."""

    @property
    def day(self) -> NDArray[np.int64]:
        """Proleptic ordinals."""

    @property
    def values(self) -> Values:
        """One of each day."""


def weekends(day: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which days, proleptic ordinals, are Saturdays or Sundays."""
    return np.asarray((day - 1) % 7 >= 5)  # day 1 was a Monday


def without_weekends(values: Values, weekend: NDArray[np.bool_]) -> Values:
    """Deviations without what weekends have in common: matched, it cancels out of the comparison, but not of spread."""
    if not weekend.any() or weekend.all():
        return values
    return np.asarray(values - np.where(weekend, values[weekend].mean(), values[~weekend].mean()))


def dependence(windows: Sequence[Window]) -> float:
    """How much of a day's deviation is left on the next: the correlation of neighbouring days, 0 to 0.9.

    Of ranks within each window, as one bad day would decide it otherwise. Each window is taken about its own mean; that
    mean follows its days, which makes the correlation look smaller by about (1 + 4 rho) / n, which is undone (F. H. C.
    Marriott and J. A. Pope, "Bias in the estimation of autocorrelations", Biometrika 41, 1954). Its standard error,
    which that enlarges too, is added: taken for smaller than it is, it makes false alarms, and with two windows it is
    not well known.
    """
    together, pairs, days, used = 0.0, 0, 0, 0
    for window in windows:
        ranks = pl.Series(window.values).rank().to_numpy()
        if len(ranks) < LEAST_DAYS or not np.ptp(ranks):
            continue
        centred = without_weekends(ranks - ranks.mean(), weekends(window.day))
        if not centred.any():
            continue
        centred /= centred.std()
        # A day that is missing separates its neighbours.
        follows = np.diff(window.day) == 1
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
