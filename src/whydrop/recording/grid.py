"""The series of one recording on grids of equal steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from whydrop.recording import gridding
from whydrop.recording.series import SampledSeries, Series

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_NS_PER_S = 1_000_000_000


class Grid:
    """Puts series on a grid of one step; keeps what it worked out."""

    def __init__(
        self,
        step_s: float,
        count: int,
        started_ns: int,
        sources: Mapping[str, SampledSeries],
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
            return self._apart(gridding.interpolate, rows["time_s"].to_numpy(), rows["value"].to_numpy())
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
        return self._apart(gridding.mean_in_steps if source.averaged else gridding.interpolate, times_s, values)

    def _apart(self, put: Callable[..., Floats], times_s: Floats, values: Floats) -> Floats:
        return gridding.apart(put, times_s, values, self.step_s, self.time_s.size, self._edges_s)

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
        return gridding.compute(self._plans[name]["by"], values, expected)

    def _members(self, name: str) -> list[str]:
        """The members of a computed series: measured series by pattern, earlier computed ones by their exact names.

        An optional flow that yielded nothing is left out.
        """
        patterns = [str(pattern) for pattern in self._plans[name].get("of") or ()]
        every = list(self._plans)
        earlier = [other for other in every[: every.index(name)] if other in patterns]
        measured = [source.series for source in self._sources.values() if source.series.name not in self._absent]
        members = [series.name for series in measured if any(series.matches(pattern) for pattern in patterns)]
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
        start_s = _number(planned.get("start_s")) or 0.0
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
    length_s = _number(flow.get("duration_s"))
    if length_s is None:
        return None
    start_s = _number(flow.get("start_s")) or 0.0
    return start_s, start_s + length_s


def computed_plans(test: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The computed series of a plan, by name; those that cannot be understood are left out."""
    found = test.get("computed")
    return {
        plan["name"]: plan
        for plan in (found if isinstance(found, list) else ())
        if isinstance(plan, dict) and isinstance(plan.get("name"), str) and plan.get("by") in gridding.METHODS
    }


def computed_series(plan: Mapping[str, Any]) -> Series:
    """The name and units of a computed series."""
    return Series(plan["name"], None, "computed", str(plan["by"]), str(plan.get("units") or ""))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
