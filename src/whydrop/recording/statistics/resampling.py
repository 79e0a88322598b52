"""Resampling of one series of autocorrelated measurements.

Samples of one run are not independent: a queue that is full now is full a moment later. Treating them as independent
makes intervals too narrow by a factor of two to five. Blocks of neighbours are resampled instead: the stationary
bootstrap of D. N. Politis and J. P. Romano, "The Stationary Bootstrap", J. Am. Stat. Assoc. 89 (1994), with the mean
block length that D. N. Politis and H. White, "Automatic Block-Length Selection for the Dependent Bootstrap",
Econometric Reviews 23 (2004) find from the data, with the constant corrected by A. Patton, D. N. Politis and H. White,
Econometric Reviews 28 (2009).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

# Fixed, so that a comparison says the same each time it is made; `--seed` changes it.
SEED = 20_091_1
RESAMPLES = 2_000
# The error of an error from so many resamples is 1 / sqrt(2 * 500), or 3 %.
_LEAST_RESAMPLES = 500
_LONG = 2_000
# So many multiplicities are drawn at once: 16 MB.
_AT_ONCE = 2_000_000
# A slope of 1 would be a random walk, about which one run says nothing.
_STEEPEST = 0.98


def block_length(values: Values) -> float:
    """The mean length of blocks, in samples, for the stationary bootstrap of a mean; at least 1.

    The lags that matter end where ``K`` autocorrelations in a row are within 2 sqrt(log10(n) / n) of zero; twice as
    many are weighed by a flat-top window. At most min(3 sqrt(n), n / 3), as the authors advise.
    """
    n = len(values)
    if n < 4 or np.ptp(values) == 0:
        return 1.0
    covariance, lag = _negligible_after(values)
    furthest = len(covariance) - 1
    window = 2 * min(max(1, lag), furthest // 2 or 1)
    lags = np.arange(1, min(window, furthest) + 1)
    weights = np.clip(2 * (1 - lags / window), 0.0, 1.0)
    slope = 2 * float(np.sum(weights * lags * covariance[lags]))
    spectrum = float(covariance[0] + 2 * np.sum(weights * covariance[lags]))
    most = max(1.0, min(3 * math.sqrt(n), n / 3))
    if spectrum <= 0:
        return most
    # G = slope; D = 2 g(0)^2 for the stationary bootstrap (2009; the paper of 2004 had another constant).
    return float(np.clip((2 * slope**2 / (2 * spectrum**2) * n) ** (1 / 3), 1.0, most))


def _negligible_after(values: Values) -> tuple[Values, int]:
    """Autocovariances, and the smallest lag after which ``K`` autocorrelations in a row are negligible."""
    n = len(values)
    run = max(5, math.ceil(math.sqrt(math.log10(n))))
    covariance = autocovariance(values, min(n - 1, math.ceil(math.sqrt(n)) + run))
    if covariance[0] <= 0:
        return covariance, 0
    negligible = np.abs(covariance[1:] / covariance[0]) < 2 * math.sqrt(math.log10(n) / n)
    lags = (lag for lag in range(len(negligible)) if bool(negligible[lag : lag + run].all()))
    return covariance, next(lags, len(negligible))


def autocovariance(values: Values, lags: int) -> Values:
    """At lags 0 to ``lags``, divided by n as the window needs it; by FFT, as n may be a hundred thousand."""
    n = len(values)
    centred = values - values.mean()
    size = 1 << (n + lags).bit_length()
    spectrum = np.fft.rfft(centred, size)
    return np.asarray(np.fft.irfft(spectrum * np.conj(spectrum), size)[: lags + 1] / n)


def long_run_variance(values: Values) -> float:
    """n times the variance of the mean of ``n`` such values, as n grows: at zero frequency the spectrum, prewhitened.

    D. W. K. Andrews and J. C. Monahan, "An Improved Heteroskedasticity and Autocorrelation Consistent Covariance Matrix
    Estimator", Econometrica 60 (1992): what a first-order autoregression does not explain is weighed by the flat-top
    window. The autoregression's bias in short series is corrected after M. G. Kendall, Biometrika 41 (1954).
    """
    n = len(values)
    if n < 8 or np.ptp(values) == 0:
        return float(values.var()) if n else 0.0
    centred = values - values.mean()
    slope = float(centred[1:] @ centred[:-1] / (centred[:-1] @ centred[:-1]))
    corrected = float(np.clip(slope + (1 + 3 * slope) / n, -_STEEPEST, _STEEPEST))
    rest = centred[1:] - min(slope, _STEEPEST) * centred[:-1]
    flat = max(_flat_top(rest), 0.1 * float(rest.var()))
    return max(flat / (1 - corrected) ** 2, 0.0)


def _flat_top(values: Values) -> float:
    covariance, lag = _negligible_after(values)
    window = min(2 * max(1, lag), len(covariance) - 1) if covariance[0] > 0 else 1
    lags = np.arange(1, window + 1)
    return float(covariance[0] + 2 * np.sum(np.clip(2 * (1 - lags / window), 0.0, 1.0) * covariance[lags]))


def resampled_variance(values: Values, length: float) -> float:
    """n times the variance that the stationary bootstrap itself gives the mean (Politis and Romano, 1994, lemma 1)."""
    n = len(values)
    covariance = autocovariance(values, n - 1)
    lags, stay = np.arange(1, n), 1 - 1 / max(1.0, length)
    weights = (1 - lags / n) * stay**lags + lags / n * stay ** (n - lags)
    return float(covariance[0] + 2 * np.sum(weights * covariance[1:]))


def enough(n: int) -> int:
    """The number of resamples of ``n`` steps: fewer for long runs, as their small errors need be known to 3 % only."""
    return max(min(RESAMPLES, _LEAST_RESAMPLES), RESAMPLES * min(n, _LONG) // max(n, 1))


def multiplicities(n: int, length: float, resamples: int, random: np.random.Generator) -> Iterator[Values]:
    """How often each of ``n`` samples is in each resample, some rows at a time.

    Blocks begin anywhere, have a geometric length, and wrap around at the end (the stationary bootstrap).
    """
    rows = max(1, min(resamples, _AT_ONCE // max(1, n)))
    position = np.arange(n)
    for done in range(0, resamples, rows):
        count = min(rows, resamples - done)
        begins = random.random((count, n)) < 1 / max(1.0, length)
        begins[:, 0] = True
        starts = random.integers(0, n, (count, n))
        begun_at = np.maximum.accumulate(np.where(begins, position, 0), axis=1)
        chosen = (np.take_along_axis(starts, begun_at, axis=1) + position - begun_at) % n
        chosen += np.arange(count)[:, None] * n
        yield np.bincount(chosen.ravel(), minlength=count * n).reshape(count, n).astype(np.float64)
