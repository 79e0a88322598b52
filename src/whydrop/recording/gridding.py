"""Samples at any times put on a grid of equal steps, by the rules of Flent, so that figures agree with it; and series
computed of others there.

At a step at time t, with the samples in order of time:

- between two samples: linear interpolation, if the later one is at most five steps away, else nothing. Where one of
  the two is a gap in itself (a null), nothing.
- before the first sample: its value, if it is at most half a step away, else nothing.
- behind the last one: its value at the first step only, if the sample is at most five steps old and the step before
  had another value; else nothing.

A computed sum over flows of which one has no value at a step where it should have one is not a smaller sum: it is
unknown, and null. A flow is expected from its planned start to its planned end; outside of these it is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from whydrop.text.quantities import duration, long_duration, plural

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

FARTHEST_STEPS = 5.0
_FARTHEST_FIRST_STEPS = 0.5

# A clock that jumped between two samples must not cost all memory: 10 million steps of 8 bytes are 80 MB a series.
MOST_STEPS = 10_000_000


def steps(span_s: float, step_s: float) -> int:
    """How many steps a span of time has: from 0 to the last one before its end.

    Raises:
        ValueError: there are too many of them to make sense.

    >>> steps(1.0, 0.25), steps(1.01, 0.25), steps(0.0, 0.25)
    (4, 5, 1)
    """
    if not (math.isfinite(step_s) and step_s > 0):
        raise ValueError(f"a step of {step_s} s: expected more than 0")
    count = math.ceil(span_s / step_s)
    if count > MOST_STEPS:
        raise ValueError(
            f"the samples span {long_duration(span_s)}, {plural(count, 'step')} of {duration(step_s)}: a clock must "
            "have jumped. Choose a longer step to see them all"
        )
    return max(1, count)


def interpolate(times_s: Floats, values: Floats, step_s: float, count: int) -> Floats:
    """Values at ``count`` steps from 0 on; NaN where there is nothing.

    Args:
        times_s: of the samples; sorted here where they are not.
        values: NaN for a sample that is a gap.
        step_s: from one step to the next.
        count: of steps.
    """
    grid_s = np.arange(count, dtype=np.float64) * step_s
    result = np.full(count, np.nan)
    if not times_s.size:
        return result
    if np.any(times_s[1:] < times_s[:-1]):
        order = np.argsort(times_s, kind="stable")
        times_s, values = times_s[order], values[order]
    later = np.searchsorted(times_s, grid_s, side="right")
    between = (later > 0) & (later < times_s.size)
    index = np.minimum(later, times_s.size - 1)
    near = times_s[index] - grid_s <= FARTHEST_STEPS * step_s
    inside = np.flatnonzero(between & near)
    after, before = index[inside], index[inside] - 1
    way = (grid_s[inside] - times_s[before]) / (times_s[after] - times_s[before])
    result[inside] = values[before] + way * (values[after] - values[before])
    first = (later == 0) & (times_s[0] - grid_s <= _FARTHEST_FIRST_STEPS * step_s)
    result[first] = values[0]
    _hold_last(result, grid_s, float(times_s[-1]), float(values[-1]), step_s)
    return result


def apart(
    put: Callable[[Floats, Floats, float, int], Floats],
    times_s: Floats,
    values: Floats,
    step_s: float,
    count: int,
    edges_s: Sequence[float] = (),
) -> Floats:
    """Values at steps by ``put``, which uses no sample across any of ``edges_s`` (in order).

    What lies exactly at an edge belongs to what comes after it.
    """
    if not edges_s:
        return put(times_s, values, step_s, count)
    grid_s = np.arange(count, dtype=np.float64) * step_s
    result = np.full(count, np.nan)
    for start_s, end_s in pairwise((-math.inf, *edges_s, math.inf)):
        of, inside = ((times >= start_s) & (times < end_s) for times in (times_s, grid_s))
        result[inside] = put(times_s[of], values[of], step_s, count)[inside]
    return result


def _hold_last(result: Floats, grid_s: Floats, last_s: float, last: float, step_s: float) -> None:
    """The first step at or behind the last sample, changed in place."""
    behind = int(np.searchsorted(grid_s, last_s, side="left"))
    if not 0 < behind < grid_s.size or grid_s[behind] - last_s > FARTHEST_STEPS * step_s:
        return
    before = result[behind - 1]
    if not math.isnan(before) and before != last:
        result[behind] = last


def mean_in_steps(times_s: Floats, values: Floats, step_s: float, count: int) -> Floats:
    """The mean of the samples in each step, from its time to before the next one; NaN where there are none."""
    known = ~np.isnan(values)
    # A tolerance of a millionth of a step, so that samples at 0.6 s belong to the step at 3 * 0.2 s.
    index = np.floor(times_s[known] / step_s + 1e-6).astype(np.int64)
    inside = (index >= 0) & (index < count)
    index = index[inside]
    sums = np.bincount(index, weights=values[known][inside], minlength=count)
    counts = np.bincount(index, minlength=count)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


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
