"""Series made of others, step by step.

A sum over flows of which one has no value at a step where it should have one is not a smaller sum: it is unknown, and
null. A flow is expected from its planned start to its planned end; outside of these it is left out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Steps over which a smooth mean runs: the present one and those before it (Flent's default).
SMOOTH_STEPS = 5

METHODS = ("mean", "sum", "fairness", "difference-from-min", "smooth-mean")


def compute(by: str, values: Floats, expected: Bools) -> Floats:
    """One value a step.

    Args:
        by: one of :data:`METHODS`.
        values: one row a step, one column a series; NaN where there is none.
        expected: of the same shape; whether the series should have a value there.

    Raises:
        ValueError: ``by`` is no known method.
    """
    if by == "difference-from-min":
        return _difference_from_min(values)
    if by not in METHODS:
        raise ValueError(f"unknown method to compute a series: {by!r}; expected one of {', '.join(METHODS)}")
    present = np.where(expected, values, 0.0)
    counts = expected.sum(axis=1).astype(np.float64)
    # A NaN where a value was expected makes the step NaN: that is meant.
    sums = np.where(counts > 0, present.sum(axis=1), np.nan)
    if by == "sum":
        return sums
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        if by == "fairness":
            return fairness(sums, (present**2).sum(axis=1), counts)
        means = sums / counts
    return means if by == "mean" else _smooth(means)


def fairness(sums: Floats, sums_of_squares: Floats, counts: Floats) -> Floats:
    """Jain's index: 1 where all have the same, 1/n where one has all (Jain, Chiu, Hawe: DEC-TR-301, 1984)."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return np.where(sums_of_squares > 0, sums**2 / (counts * sums_of_squares), np.nan)


def _smooth(means: Floats) -> Floats:
    """The mean of the last values that there are, not counting gaps; a gap stays one."""
    known = np.flatnonzero(~np.isnan(means))
    result = np.full(means.shape, np.nan)
    totals = np.concatenate(([0.0], np.cumsum(means[known])))
    ends = np.arange(1, known.size + 1)
    starts = np.maximum(0, ends - SMOOTH_STEPS)
    result[known] = (totals[ends] - totals[starts]) / (ends - starts)
    return result


def _difference_from_min(values: Floats) -> Floats:
    """Of the first series: how far it is above its smallest value."""
    if not values.shape[1] or np.isnan(values[:, 0]).all():
        return np.full(values.shape[0], np.nan)
    return np.asarray(values[:, 0] - np.nanmin(values[:, 0]), dtype=np.float64)
