"""Log-likelihood ratios against the background, in nats, with dependence and fitted parameters paid for.

Everywhere a count of *independent* samples is asked for: n samples divided by how much longer their mean takes to
settle than that of independent ones (the integrated autocorrelation time; see ``statistics.resampling``). A fitted
parameter costs half the logarithm of that count (G. Schwarz, "Estimating the Dimension of a Model", 1978).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from whydrop.explaining.recordings.thresholds import COINCIDENCE, MOST_NATS
from whydrop.recording.statistics import resampling

Values = NDArray[np.float64]

# Changes of less than a tenth of a shift do not make it, however long they last.
_SMALL_BESIDE_SHIFT = 0.1


def bounded(nats: float) -> float:
    """Within what a model of this kind can be sure of."""
    return float(min(MOST_NATS, max(-MOST_NATS, nats)))


def of_shift(value: float, error: float, freedom: float, beyond: float = 0.0) -> float:
    """For a mean (or median) that lies above ``beyond``, against one that lies there; its error is an estimate.

    Gaussian with unknown variance: (n / 2) ln(1 + t^2 / (n - 1)), n = ``freedom`` + 1; one fitted parameter.

    >>> of_shift(0.0, 1.0, 20.0)
    0.0
    >>> 4 < of_shift(4.0, 1.0, 20.0) < 6
    True
    """
    freedom = max(freedom, 1.0)
    distance = (value - beyond) / max(error, 1e-12)
    if not math.isfinite(distance) or distance <= 0:
        return 0.0
    nats = (freedom + 1) / 2 * math.log1p(min(distance, 1e6) ** 2 / freedom) - 0.5 * math.log(freedom + 1)
    return max(0.0, bounded(nats))


def of_higher(before: Values, during: Values, beyond: float = 0.0) -> float:
    """For the second series to lie higher than the first by more than ``beyond``, against one distribution of both.

    By ranks, as delays have tails that no Gaussian has: A, the chance that one of the second is above one of the first
    (H. B. Mann, D. R. Whitney, 1947). Where all are above all, it is as likely as one order of the two kinds among all.
    One distribution has one dependence: that of the first series, in which no queue comes and goes, is paid for in
    both; of changes that are small beside the shift it does not matter how long they last. One fitted parameter. Never
    surer than that nothing else changed at that moment.

    >>> quiet = np.array([1.0, 1.2, 0.9, 1.1] * 5)
    >>> of_higher(quiet, quiet), of_higher(quiet, quiet + 3) > 6, of_higher(quiet, quiet + 3, 4.0)
    (0.0, True, 0.0)
    >>> drifting = np.linspace(0.0, 0.1, 20)
    >>> of_higher(drifting, drifting + 3) > 6
    True
    """
    before, during = before[np.isfinite(before)] + beyond, during[np.isfinite(during)]
    if len(before) < 2 or len(during) < 2:
        return 0.0
    above = float(_placements(before, during).mean())
    grain = _SMALL_BESIDE_SHIFT * float(np.median(during) - np.median(before))
    n = independent(np.floor((before - before.min()) / grain) if grain > 0 else before)
    m = len(during) * n / len(before)
    spread = math.sqrt((n + m + 1) / (12 * n * m))
    nats = 0.5 * (max(0.0, above - 0.5) / spread) ** 2
    if above == 1.0:
        nats = max(nats, math.lgamma(n + m + 1) - math.lgamma(n + 1) - math.lgamma(m + 1))
    return min(-math.log(COINCIDENCE), max(0.0, nats - 0.5 * math.log(n + m)))


def _placements(before: Values, during: Values) -> Values:
    """The share of the first that each of the second is above; ties count half."""
    ordered = np.sort(before)
    below = np.searchsorted(ordered, during, side="left") + np.searchsorted(ordered, during, side="right")
    return np.asarray(below / 2 / len(ordered))


def independent(values: Values) -> float:
    """How many independent samples a series has, by its ranks; at least 1."""
    if len(values) < 4 or np.ptp(values) == 0:
        return max(1.0, float(len(values)))
    # Ties in the middle of their ranks: in order of time they would be a trend.
    return max(1.0, len(values) / dependence(_placements(values, values)))


def of_most(share: float, samples: float, half: float) -> float:
    """For a share of time above ``half``, against one that is ``half``: n times the Kullback-Leibler divergence.

    >>> of_most(0.4, 100.0, 0.5)
    0.0
    >>> round(of_most(1.0, 10.0, 0.5), 1)
    5.7
    """
    if not half < share <= 1.0 or samples < 1:
        return 0.0
    divergence = share * math.log(share / half)
    if share < 1.0:
        divergence += (1 - share) * math.log((1 - share) / (1 - half))
    return max(0.0, bounded(samples * divergence - 0.5 * math.log(max(samples, 2.0))))


def of_steadiness(values: Values, flows: int, alone: float) -> float:
    """For a sum that varies less than ``flows`` independent parts could, each of which varies by the share ``alone``.

    Gaussian of known against fitted variance: n / 2 (r - 1 - ln r), r the ratio of the variances; one fitted parameter.
    """
    known = values[np.isfinite(values)]
    mean = float(known.mean()) if len(known) > 2 else 0.0
    if mean <= 0:
        return 0.0
    ratio = max(1e-6, float(known.var(ddof=1)) / (mean * alone) ** 2 * flows)
    if ratio >= 1:
        return 0.0
    samples = len(known) / dependence(known)
    return max(0.0, bounded(0.5 * samples * (ratio - 1 - math.log(ratio)) - 0.5 * math.log(max(1.0, samples))))


def of_rates(lost: float, sent: float, expected: float, rival: float) -> float:
    """For losses at the rate ``expected``, against the rate ``rival``, both given."""
    if sent <= 0 or not 0 < expected < 1 or not 0 < rival < 1:
        return 0.0
    return lost * math.log(expected / rival) + (sent - lost) * math.log((1 - expected) / (1 - rival))


def of_one_rate(lost: Values, sent: Values, inflation: float) -> float:
    """For one rate of loss in all cells, against one for each; positive where a single rate is enough.

    ``inflation`` is by how much losses in clumps vary more than single ones (quasi-likelihood: P. McCullagh and
    J. A. Nelder, "Generalized Linear Models", 1989): the fits of the cells are divided by it.
    """
    kept = sent > 0
    lost, sent = lost[kept], sent[kept]
    if len(lost) < 2 or lost.sum() <= 0:
        return 0.0

    def fit(k: Values, n: Values) -> float:
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(k > 0, k * np.log(k / n), 0.0) + np.where(n > k, (n - k) * np.log((n - k) / n), 0.0)
        return float(part.sum())

    better = fit(lost, sent) - fit(lost.sum(keepdims=True), sent.sum(keepdims=True))
    events = max(1.0, float(lost.sum()) / max(1.0, inflation))
    return bounded(0.5 * (len(lost) - 1) * math.log(max(events, 1.0)) - better / max(1.0, inflation))


def of_dependence(first: Values, second: Values) -> float:
    """For two series that rise together, against independent ones: -(n / 2) ln(1 - r^2), one fitted parameter.

    n is the count of independent pairs, after M. S. Bartlett (1935): neighbours of both must resemble each other for
    pairs to do so.
    """
    known = np.isfinite(first) & np.isfinite(second)
    first, second = first[known], second[known]
    if len(first) < 8 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    correlation = float(np.corrcoef(first, second)[0, 1])
    samples = len(first) / max(1.0, min(dependence(first), dependence(second)))
    if correlation <= 0 or samples < 4:
        return 0.0
    nats = -0.5 * samples * math.log(max(1e-12, 1 - correlation**2)) - 0.5 * math.log(samples)
    return max(0.0, bounded(nats))


def dependence(values: Values) -> float:
    """How many neighbouring samples are worth one independent sample of the mean; at least 1."""
    variance = float(values.var()) if len(values) else 0.0
    return max(1.0, resampling.long_run_variance(values) / variance) if variance > 0 else 1.0
