"""Probabilities and quantiles: Student's t, the binomial, and the exact tests of Fisher and of Mann and Whitney.

Those that intervals and verdicts need, without SciPy; the tests compare them with SciPy's.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

NORMAL = NormalDist()
# Beyond it the normal distribution has the same 95 % quantile to eight digits.
_AS_NORMAL = 1e8
# Up to so many values without ties the distribution of ranks is counted, as R and SciPy do.
_COUNTED = 8
_EPSILON = 1e-16
_SMALLEST = 1e-300


def student_tail(t: float, freedom: float) -> float:
    """The probability that a variable of Student's t distribution is above ``t``, for any degrees of freedom > 0."""
    if t < 0:
        return 1 - student_tail(-t, freedom)
    if not freedom < _AS_NORMAL:
        return NORMAL.cdf(-t)
    squared = t * t
    return _beta_share(freedom / 2, 0.5, freedom / (freedom + squared), squared / (freedom + squared)) / 2


@lru_cache(maxsize=4096)
def student_quantile(probability: float, freedom: float) -> float:
    """The value below which a variable of Student's t distribution is with a probability from 0.5 to 1.

    Newton's method from the normal distribution's quantile. That one is smaller, and the tail is convex: the steps
    approach the quantile from below.
    """
    t = NORMAL.inv_cdf(probability)
    if not freedom < _AS_NORMAL:
        return t
    log_scale = _log_gamma_ratio(freedom / 2) - math.log(freedom * math.pi) / 2
    for _ in range(200):
        density = math.exp(log_scale - (freedom + 1) / 2 * math.log1p(t * t / freedom))
        step = (student_tail(t, freedom) - (1 - probability)) / density
        t += step
        if abs(step) <= 1e-13 * t:
            break
    return t


def binomial_cdf(successes: int, trials: int, chance: float) -> float:
    """The probability of at most so many successes in independent trials with one chance each."""
    if successes < 0:
        return 0.0
    if successes >= trials or chance <= 0:
        return 1.0
    if chance >= 1:
        return 0.0
    yes, no = math.log(chance), math.log1p(-chance)
    of_all = math.lgamma(trials + 1)
    logarithms = (
        of_all - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * yes + (trials - k) * no
        for k in range(successes + 1)
    )  # fmt: skip
    return min(1.0, math.fsum(map(math.exp, logarithms)))


def fisher_greater(first: tuple[int, int], second: tuple[int, int]) -> float:
    """The one-sided p of Fisher's exact test (R. A. Fisher, 1935): ``first`` has its first outcome no more often.

    Args:
        first: how often each of two outcomes came in one row of the table.
        second: in the other.

    >>> round(fisher_greater((3, 1), (1, 3)), 4)
    0.2429
    """
    row, column = sum(first), first[0] + second[0]
    other = sum(second)
    tables = sum(
        math.comb(row, count) * math.comb(other, column - count)
        for count in range(max(first[0], column - other), min(row, column) + 1)
    )
    return tables / math.comb(row + other, column)


def mann_whitney(first: Values, second: Values) -> float:
    """The two-sided p of the rank test of H. B. Mann and D. R. Whitney, Ann. Math. Stat. 18 (1947).

    Exact for few values without ties, else by the normal approximation with corrections for ties and continuity.
    """
    n, m = len(first), len(second)
    ordered = np.sort(second)
    below, up_to = (np.searchsorted(ordered, first, side=side).sum() for side in ("left", "right"))
    above = float(below + up_to) / 2  # pairs in which the first is larger; a tie is half of one
    extreme = max(above, n * m - above)
    ties = np.unique(np.concatenate((first, second)), return_counts=True)[1].astype(float)
    if min(n, m) <= _COUNTED and ties.max() == 1:
        counts = _rank_counts(n, m)
        return min(1.0, 2 * sum(counts[round(extreme) :]) / math.comb(n + m, n))
    total = n + m
    variance = n * m / 12 * (total + 1 - float((ties**3 - ties).sum()) / (total * (total - 1)))
    if not variance > 0:
        return 1.0
    return min(1.0, 2 * NORMAL.cdf(-(extreme - n * m / 2 - 0.5) / math.sqrt(variance)))


def _rank_counts(n: int, m: int) -> list[int]:
    """How many orders of n and m values have each number of pairs in which the first is larger, from 0 to n m.

    The coefficients of the Gaussian binomial, the product of (1 - x^(larger + i)) / (1 - x^i) for i up to the smaller.
    """
    larger, smaller = max(n, m), min(n, m)
    counts = [1] + [0] * (n * m)
    for i in range(1, smaller + 1):
        for power in range(n * m, larger + i - 1, -1):
            counts[power] -= counts[power - larger - i]
        for first in range(min(i, len(counts))):
            counts[first::i] = accumulate(counts[first::i])
    return counts


def _beta_share(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function I_x(a, b), where one of a and b is 1/2; ``rest`` is 1 - x.

    By the continued fraction of DLMF 8.17.22 (dlmf.nist.gov/8.17), which converges fast left of the mean.
    """
    if x <= 0:
        return 0.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(b, a, rest, x)
    other = a if b == 0.5 else b
    log_front = a * math.log(x) + b * math.log(rest) + _log_gamma_ratio(other) - math.log(math.pi) / 2
    return math.exp(log_front) / a * _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction, by W. J. Lentz's method (Applied Optics 15, 1976)."""
    upper, lower = 1.0, 1 / _off_zero(1 - (a + b) * x / (a + 1))
    value = lower
    for m in range(1, 100_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            lower = 1 / _off_zero(1 + term * lower)
            upper = _off_zero(1 + term / upper)
            value *= upper * lower
        if abs(upper * lower - 1) <= _EPSILON:
            break
    return value


def _off_zero(value: float) -> float:
    return value if abs(value) > _SMALLEST else _SMALLEST


def _log_gamma_ratio(a: float) -> float:
    """The logarithm of gamma(a + 1/2) / gamma(a): for large values by its series (DLMF 5.11.13), as both are large."""
    if a < 50:
        return math.lgamma(a + 0.5) - math.lgamma(a)
    x = 1 / a
    series = 1 + x * (-1 / 8 + x * (1 / 128 + x * (5 / 1024 + x * (-21 / 32768 - x * 399 / 262144))))
    return math.log(a) / 2 + math.log(series)
