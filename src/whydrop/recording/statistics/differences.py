"""Differences of two sets of measurements: estimates with 95 % intervals, p only beside them.

Two situations. *One run each*: the samples of each run are resampled in blocks (see :mod:`resampling`); what is found
holds for these two runs, as nothing is known of how runs vary. *Several runs each*: whole runs are the units, and what
is found holds for runs like these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whydrop.recording.statistics import resampling
from whydrop.recording.statistics.distributions import NORMAL, mann_whitney, student_quantile, student_tail

Values = NDArray[np.float64]

CONFIDENCE = 0.95
# With fewer runs, a rank test cannot reach the levels that several metrics at once require (2 / C(12, 6) = 0.002).
RANKS_FROM = 6
GROUP_FROM = 3
# Below so many independent blocks, the spread of blocks is itself unknown.
LEAST_BLOCKS = 5.0
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Difference:
    """Second minus first.

    Attributes:
        value: the estimate; ``low`` and ``high`` bound its 95 % interval (NaN where none can be given).
        p: of no difference, two-sided; NaN where it cannot be given.
        method: in words, for the table's foot.
    """

    value: float
    low: float
    high: float
    p: float
    method: str


@dataclass(frozen=True)
class Estimate:
    """A statistic of one run with its standard error and the degrees of freedom of that error."""

    value: float
    error: float
    freedom: float


# Takes how often each step of a run is in each resample, shape (resamples, steps), and gives one value for each.
Statistic = Callable[[Values], Values]


def resampled(statistic: Statistic, lead: Values, random: np.random.Generator, rare: Values | None = None) -> Estimate:
    """A statistic of one run, its error found by resampling blocks of time.

    ``lead`` is a series with one value a step; its autocorrelation sets the length of the blocks. ``rare`` marks
    (with 1) the steps that alone decide the statistic, as those above it decide a high percentile: blocks without any
    of them carry no information, and count for no degree of freedom.
    """
    n = len(lead)
    value = float(statistic(np.ones((1, n)))[0])
    if n < 4:
        return Estimate(value, math.nan, 0.0)
    length = resampling.block_length(lead)
    resamples = resampling.enough(n)
    drawn = np.concatenate([statistic(times) for times in resampling.multiplicities(n, length, resamples, random)])
    drawn = drawn[np.isfinite(drawn)]
    error = float(drawn.std(ddof=1)) if len(drawn) > 1 else math.nan
    # Blocks cannot show what is slower than themselves; the prewhitened spectrum at zero frequency does.
    slow, shown = resampling.long_run_variance(lead), resampling.resampled_variance(lead, length)
    if shown > 0:
        error *= math.sqrt(max(1.0, slow / shown))
    independent = _independent(lead, slow)
    freedom = min(n / length, independent) - 1
    if rare is not None:
        blocks = np.unique(np.flatnonzero(rare > 0) // math.ceil(max(length, n / independent)))
        freedom = min(freedom, len(blocks) - 1)
    return Estimate(value, error, max(0.0, freedom))


def mean(values: Values) -> Estimate:
    """The mean of one run: as `resampled` has it, but what blocks would give its error is known without drawing any."""
    n = len(values)
    if n < 4:
        return Estimate(float(values.mean()), math.nan, 0.0)
    length = resampling.block_length(values)
    slow, shown = resampling.long_run_variance(values), resampling.resampled_variance(values, length)
    freedom = min(n / length, _independent(values, slow)) - 1
    return Estimate(float(values.mean()), math.sqrt(max(slow, shown, 0.0) / n), max(0.0, freedom))


def _independent(values: Values, slow: float) -> float:
    """The equivalent number of independent values, by the long-run variance."""
    n = len(values)
    return n * float(values.var()) / slow if slow > 0 else float(n)


def ratio_of(above: Values, below: Values) -> Statistic:
    """The sum of one series over that of another, such as the losses over the probes of each step."""

    def statistic(times: Values) -> Values:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray((times @ above) / (times @ below))

    return statistic


def mean_of(values: Values) -> Statistic:
    """The mean of the steps' values; steps without one (NaN) do not count."""
    known = np.isfinite(values)
    return ratio_of(np.where(known, values, 0.0), known.astype(float))


def quantile_of(values: Values, steps: NDArray[np.generic], q: float) -> Statistic:
    """A quantile of samples of which several may belong to one step; ``steps`` are the steps' numbers."""
    order = np.argsort(values)
    ordered, step = values[order], steps[order].astype(int)

    def statistic(times: Values) -> Values:
        found = np.full(len(times), np.nan)
        # Some rows at a time: a long run has many samples in each step.
        rows = max(1, 4_000_000 // max(1, len(ordered)))
        for first in range(0, len(times), rows):
            reached = np.cumsum(times[first : first + rows][:, step], axis=1)
            total = reached[:, -1:]
            # The middle of the two samples around the share q, as for an even number of samples.
            below = np.argmax(reached >= q * total, axis=1)
            above = np.argmax(reached > q * total, axis=1)
            above = np.where(reached[:, -1] > q * total[:, 0], above, below)
            found[first : first + rows] = np.where(total[:, 0] > 0, (ordered[below] + ordered[above]) / 2, np.nan)
        return found

    return statistic


def of_single_runs(first: Sequence[Estimate], second: Sequence[Estimate]) -> Difference:
    """The difference of the means of a few runs' statistics, each known with its own error."""
    one, other = _pooled(first), _pooled(second)
    value = other.value - one.value
    variances = (one.error**2, other.error**2)
    error = math.sqrt(sum(variances))
    method = "blocks of samples within the runs (stationary bootstrap)"
    if not math.isfinite(error) or error == 0 or min(one.freedom, other.freedom) < LEAST_BLOCKS - 1:
        return Difference(value, math.nan, math.nan, math.nan, method)
    # Welch and Satterthwaite's degrees of freedom, with blocks for samples.
    freedom = error**4 / sum(v**2 / e.freedom for v, e in zip(variances, (one, other), strict=True))
    return _by_student(value, error, freedom, method)


def _pooled(runs: Sequence[Estimate]) -> Estimate:
    count = len(runs)
    error = math.sqrt(math.fsum(run.error**2 for run in runs)) / count
    return Estimate(math.fsum(run.value for run in runs) / count, error, math.fsum(run.freedom for run in runs))


def of_groups(first: Values, second: Values) -> Difference:
    """The difference of two groups of runs, one value a run: by ranks where there are enough, else by Welch's t."""
    if min(len(first), len(second)) >= RANKS_FROM:
        return hodges_lehmann(first, second)
    return welch(first, second)


def of_pairs(first: Values, second: Values) -> Difference:
    """Pairs of runs, which agree in everything else: the mean of their differences, by Student's t.

    >>> of_pairs(np.array([1.0, 5.0, 9.0]), np.array([2.0, 7.0, 10.0])).value
    1.3333333333333333
    """
    apart = second - first
    value = float(apart.mean())
    method = "differences of pairs of recordings (Student's t)"
    error = float(apart.std(ddof=1) / math.sqrt(len(apart))) if len(apart) >= GROUP_FROM else math.nan
    # Differences that are all the same, but for rounding, show nothing of how much they vary.
    if not error > _ROUNDING * float(np.abs((first, second)).max()):
        return Difference(value, math.nan, math.nan, math.nan, method)
    return _by_student(value, error, len(apart) - 1, method)


def welch(first: Values, second: Values) -> Difference:
    """The difference of means without assuming equal variances (B. L. Welch, Biometrika 34, 1947)."""
    value = float(second.mean() - first.mean())
    parts = tuple(float(one.var(ddof=1)) / len(one) for one in (first, second))
    error = math.sqrt(sum(parts))
    method = "whole runs as units, difference of means (Welch)"
    if error == 0:
        # Runs that agree to the last digit say nothing about the variance of runs.
        p = 1.0 if value == 0 else math.nan
        return Difference(value, value if value == 0 else math.nan, value if value == 0 else math.nan, p, method)
    freedom = error**4 / (parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1))
    return _by_student(value, error, freedom, method)


def hodges_lehmann(first: Values, second: Values) -> Difference:
    """The median of all pairwise differences, with the interval that the Mann-Whitney test leaves standing.

    J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", Ann. Math. Stat. 34 (1963).
    """
    pairs = np.sort((second[:, None] - first[None, :]).ravel())
    n, m = len(first), len(second)
    p = mann_whitney(first, second)
    spread = math.sqrt(n * m * (n + m + 1) / 12)
    # The normal approximation of the rank of the interval's ends, rounded outwards.
    rank = max(0, math.floor(n * m / 2 - NORMAL.inv_cdf((1 + CONFIDENCE) / 2) * spread))
    low, high = float(pairs[rank]), float(pairs[-1 - rank])
    method = "whole runs as units, median of differences (Hodges–Lehmann)"
    return Difference(float(np.median(pairs)), low, high, p, method)


def _by_student(value: float, error: float, freedom: float, method: str) -> Difference:
    half = student_quantile((1 + CONFIDENCE) / 2, freedom) * error
    p = 2 * student_tail(abs(value) / error, freedom)
    return Difference(value, value - half, value + half, p, method)


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """p-values adjusted so that the chance of any false alarm among them stays below the level.

    S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scand. J. Stat. 6 (1979). ``None`` and NaN stay
    as they are and do not count.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    adjusted = list(p_values)
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None and not math.isnan(p))
    least = 0.0
    for rank, (p, place) in enumerate(known):
        least = max(least, min(1.0, p * (len(known) - rank)))
        adjusted[place] = least
    return adjusted


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
