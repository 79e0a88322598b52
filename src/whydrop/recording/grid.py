"""The series of a recording on grids of equal steps, by the rules of Flent, so that figures agree with it; and series
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
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from whydrop.recording import document
from whydrop.recording.series import SampledSeries, Series, Sources
from whydrop.text.quantities import duration, long_duration, plural

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_NS_PER_S = 1_000_000_000

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


class Grid:
    """Puts series on a grid of one step; keeps what it worked out."""

    def __init__(
        self,
        step_s: float,
        count: int,
        started_ns: int,
        sources: Sources,
        test: Mapping[str, Any],
        imported: Mapping[str, pl.DataFrame],
        silent: frozenset[str],
        edges_s: tuple[float, ...] = (),
    ) -> None:
        """A grid.

        Args:
            step_s: from one step to the next.
            count: of steps.
            started_ns: the time of step 0.
            sources: the measured series.
            test: the plan, as ``recording.json`` has it.
            imported: series that another tool put on its own grid; its steps may differ.
            silent: the names of flows that yielded nothing.
            edges_s: times across which no value is interpolated.
        """
        self.step_s = step_s
        self.time_s: Floats = np.arange(count, dtype=np.float64) * step_s
        self._started_ns = started_ns
        self._sources = sources
        self._plans = computed_plans(test)
        self._flows = planned_flows(test)
        self._imported = imported
        self._absent = {name for name in silent if self._flows.get(name, {}).get("optional")}
        self._edges_s = edges_s
        self._columns: dict[str, Floats] = {}

    def column(self, name: str) -> Floats:
        """A series, NaN in gaps.

        Raises:
            KeyError: there is no such series.
        """
        if name not in self._columns:
            self._columns[name] = self._put(name)
        return self._columns[name]

    def _put(self, name: str) -> Floats:
        imported = self._imported.get(name)
        if imported is not None and self._is_mine(imported):
            return self._without_edges(np.asarray(imported["value"].to_numpy(), dtype=np.float64))
        source = self._sources.get(name)
        samples = source.samples() if source is not None else None
        if source is not None and samples is not None and (samples.height or imported is None):
            return self._interpolate(source, samples)
        if name in self._plans and self._members(name):
            return self._compute(name)
        if imported is not None:
            rows = imported.drop_nulls("value")
            return self._apart(interpolate, rows["time_s"].to_numpy(), rows["value"].to_numpy())
        if name in self._plans:
            return np.full(self.time_s.size, np.nan)
        raise KeyError(name)

    def _is_mine(self, imported: pl.DataFrame) -> bool:
        times_s = imported["time_s"].to_numpy()
        return times_s.size == self.time_s.size and bool(np.allclose(times_s, self.time_s, rtol=0, atol=1e-3))

    def _interpolate(self, source: SampledSeries, samples: pl.DataFrame) -> Floats:
        if source.skip_null:
            samples = samples.drop_nulls("value")
        times_s = (samples["time_ns"] - self._started_ns).to_numpy() / _NS_PER_S
        values = np.asarray(samples["value"].to_numpy(), dtype=np.float64)
        return self._apart(mean_in_steps if source.averaged else interpolate, times_s, values)

    def _apart(self, put: Callable[..., Floats], times_s: Floats, values: Floats) -> Floats:
        return apart(put, times_s, values, self.step_s, self.time_s.size, self._edges_s)

    def _without_edges(self, values: Floats) -> Floats:
        """Another tool's values without the last step before each edge, which it interpolated across it."""
        before = [int(np.searchsorted(self.time_s, edge_s)) - 1 for edge_s in self._edges_s]
        values = values.copy()
        values[[step for step in before if 0 <= step < values.size - 1]] = np.nan
        return values

    # Computed series.

    def _compute(self, name: str) -> Floats:
        members = self._members(name)
        values = np.column_stack([self.column(member) for member in members])
        expected = np.column_stack([self._expected(member) for member in members])
        return compute(self._plans[name]["by"], values, expected)

    def _members(self, name: str) -> list[str]:
        """The members of a computed series: measured series by pattern, earlier computed ones by their exact names.

        An optional flow that yielded nothing is left out.
        """
        patterns = [str(pattern) for pattern in self._plans[name].get("of") or ()]
        every = list(self._plans)
        earlier = [other for other in every[: every.index(name)] if other in patterns]
        # Only those that are meant are looked at: to see that a series has values, it may have to be read.
        members = [one.name for one in self._sources.matching(patterns) if one.name not in self._absent]
        return members + [other for other in earlier if other not in members]

    def _expected(self, name: str) -> Bools:
        """At which steps a series should have a value."""
        source = self._sources.get(name)
        if source is None or source.series.kind == "counter":
            return np.asarray(~np.isnan(self.column(name)), dtype=np.bool_)
        start_s, end_s = self._span(name, source)
        return np.asarray((self.time_s >= start_s) & (self.time_s <= end_s), dtype=np.bool_)

    def _span(self, name: str, source: SampledSeries) -> tuple[float, float]:
        """The time in which a flow should yield values: as planned or, without a plan, as measured."""
        seen_s = (source.samples()["time_ns"] - self._started_ns).to_numpy() / _NS_PER_S
        planned = self._flows.get(name)
        if planned is None:
            # The first value counts from half a step before it on.
            return (float(seen_s[0]) - self.step_s / 2, float(seen_s[-1])) if seen_s.size else (0.0, -1.0)
        span = planned_span(planned)
        if span is not None:
            return span
        start_s = document.finite(planned.get("start_s")) or 0.0
        return start_s, float(seen_s[-1]) if seen_s.size else start_s


def planned_flows(test: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The flows of a plan, by name; those that cannot be understood are left out."""
    found = test.get("flows")
    return {
        flow["name"]: flow
        for flow in (found if isinstance(found, list) else ())
        if isinstance(flow, dict) and isinstance(flow.get("name"), str)
    }


def planned_span(flow: Mapping[str, Any]) -> tuple[float, float] | None:
    """From when to when a flow of a plan runs, in seconds after the start; ``None`` where no end is planned."""
    length_s = document.finite(flow.get("duration_s"))
    if length_s is None:
        return None
    start_s = document.finite(flow.get("start_s")) or 0.0
    return start_s, start_s + length_s


def computed_plans(test: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The computed series of a plan, by name; those that cannot be understood are left out."""
    found = test.get("computed")
    return {
        plan["name"]: plan
        for plan in (found if isinstance(found, list) else ())
        if isinstance(plan, dict) and isinstance(plan.get("name"), str) and plan.get("by") in METHODS
    }


def computed_series(plan: Mapping[str, Any]) -> Series:
    """The name and units of a computed series."""
    return Series(plan["name"], None, "computed", str(plan["by"]), str(plan.get("units") or ""))
