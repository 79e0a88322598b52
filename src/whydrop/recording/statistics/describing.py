"""One set of values in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]


def finite(values: ArrayLike) -> Values:
    """Those of ``values`` that are numbers; ``None`` and NaN mean that nothing was measured."""
    array = np.asarray(values, dtype=float).ravel()
    return np.asarray(array[np.isfinite(array)])


@dataclass(frozen=True)
class Description:
    """The statistics of a series; every field but ``count`` is in the units of the values.

    ``std`` and ``variance`` are of the sample itself (divided by n), as Flent's are. ``mean_span`` is the mean distance
    from the minimum, which Flent calls induced latency where the values are round-trip times.
    """

    count: int
    mean: float
    median: float
    minimum: float
    maximum: float
    std: float
    variance: float
    p5: float
    p25: float
    p75: float
    p95: float
    p99: float
    mean_span: float


def describe(values: ArrayLike) -> Description | None:
    """The numbers of a set of values; ``None`` where there are none. Percentiles are interpolated linearly.

    >>> found = describe([1.0, 2.0, 3.0, None, 10.0])
    >>> found.count, found.mean, found.median, found.mean_span
    (4, 4.0, 2.5, 3.0)
    """
    known = finite(values)
    if not len(known):
        return None
    p5, p25, median, p75, p95, p99 = (float(p) for p in np.percentile(known, (5, 25, 50, 75, 95, 99)))
    low, high = float(known.min()), float(known.max())
    # Squares of the largest numbers that there are have no value themselves.
    with np.errstate(over="ignore", invalid="ignore"):
        mean, std, variance = float(known.mean()), float(known.std()), float(known.var())
    return Description(
        count=len(known),
        mean=mean,
        median=median,
        minimum=low,
        maximum=high,
        std=std,
        variance=variance,
        p5=p5,
        p25=p25,
        p75=p75,
        p95=p95,
        p99=p99,
        mean_span=mean - low,
    )


def jain(shares: Iterable[float | None]) -> float | None:
    """Jain's index of fairness, from 1/n (one has all) to 1 (all have the same); ``None`` if all shares are zero.

    R. Jain, D. Chiu and W. Hawe, "A Quantitative Measure of Fairness and Discrimination for Resource Allocation in
    Shared Computer Systems", DEC-TR-301 (1984); RFC 5166, section 2.4.

    >>> jain([1.0, 1.0, 1.0, 1.0]), jain([1.0, 0.0, 0.0, 0.0]), jain([0.0])
    (1.0, 0.25, None)
    """
    values = [float(share) for share in shares if share is not None and math.isfinite(share)]
    # Of shares of the largest one, as squares of very large or small numbers have no value themselves.
    largest = max(map(abs, values), default=0.0)
    if largest == 0:
        return None
    values = [value / largest for value in values]
    return math.fsum(values) ** 2 / (len(values) * math.fsum(value * value for value in values))


def trimmed_mean(values: ArrayLike, percentile: float = 95.0) -> float | None:
    """The mean of the values up to a percentile: what lies above it is left out; ``None`` where there are none.

    >>> trimmed_mean([10.0] * 19 + [1000.0])
    10.0
    """
    known = finite(values)
    return float(known[known <= np.percentile(known, percentile)].mean()) if len(known) else None


def round_trips_per_minute(rtt_ms: float | None) -> float | None:
    """How many round trips one behind the other fit into a minute (RPM); ``None`` where a round trip takes no time.

    >>> round_trips_per_minute(100.0)
    600.0
    """
    return 60_000.0 / rtt_ms if rtt_ms is not None and rtt_ms > 0 else None
