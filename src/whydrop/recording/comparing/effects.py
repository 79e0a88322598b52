"""How large a difference is, apart from whether it is certain."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]


def cliffs_delta(first: Values, second: Values) -> float:
    """Cliff's delta: P(second > first) - P(second < first), from -1 to 1; ties count for neither.

    N. Cliff, "Dominance statistics: ordinal analyses to answer ordinal questions", Psychological Bulletin 114 (1993).

    >>> cliffs_delta(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    1.0
    """
    if not len(first) or not len(second):
        return math.nan
    ordered = np.sort(first)
    below = np.searchsorted(ordered, second, side="left")
    not_above = np.searchsorted(ordered, second, side="right")
    return float((below - (len(first) - not_above)).mean() / len(first))


def hedges_g(first: Values, second: Values) -> float:
    """Hedges' g: the difference of means in pooled standard deviations, corrected for small samples.

    L. V. Hedges, "Distribution theory for Glass's estimator of effect size and related estimators", Journal of
    Educational Statistics 6 (1981), with the usual approximation of the correction, 1 - 3 / (4 df - 1).
    """
    n, m = len(first), len(second)
    freedom = n + m - 2
    if n < 2 or m < 2:
        return math.nan
    pooled = math.sqrt(((n - 1) * first.var(ddof=1) + (m - 1) * second.var(ddof=1)) / freedom)
    difference = float(second.mean() - first.mean())
    if pooled == 0:
        return 0.0 if difference == 0 else math.copysign(math.inf, difference)
    return difference / pooled * (1 - 3 / (4 * freedom - 1))


def cohens_h(first: float, second: float) -> float:
    """Cohen's h of two shares from 0 to 1: the difference of their angles, from -pi to pi.

    J. Cohen, "Statistical Power Analysis for the Behavioral Sciences", 2nd edition (1988), chapter 6.

    >>> round(cohens_h(0.0, 0.046), 2)
    0.43
    """
    return 2 * (math.asin(math.sqrt(second)) - math.asin(math.sqrt(first)))


def size_in_words(kind: str, effect: float) -> str:
    """Conventional words for an effect size: for Cliff's delta of Romano et al. (2006), for g and h Cohen's (1988).

    >>> size_in_words("cliffs-delta", 0.4), size_in_words("hedges-g", -0.1)
    ('medium', 'negligible')
    """
    limits = (0.147, 0.33, 0.474) if kind == "cliffs-delta" else (0.2, 0.5, 0.8)
    if math.isnan(effect):
        return "unknown"
    for limit, word in zip(limits, ("negligible", "small", "medium"), strict=True):
        if abs(effect) < limit:
            return word
    return "large"
