"""Flows of one direction together, and which of them have no values: a sum over some of them is no sum of all.

What the data say of a flow:

- an interval of zero bytes: it carried nothing then, and counts as zero;
- outside of the time that the test planned for it, no value: it carried nothing then either;
- a direction of responsiveness (RPM) outside of its own turn: no value, and it is not counted;
- while it was planned or, without a plan, while other flows have values, no value at a step: not known. The sum of
  that step is not known and left out, and where that is more than single steps, it is said. Where no step is left, the
  sum is of those that have values, and that is said;
- no value at all: not known. The sum is not known, and it is said which flow it is. A flow that the test calls optional
  is left out instead, which is said too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording.grid import FARTHEST_STEPS, planned_flows, planned_span
from whydrop.recording.metrics.responsiveness import RUNNER
from whydrop.text.phrases import listed
from whydrop.text.quantities import duration

if TYPE_CHECKING:
    from whydrop.recording.metrics.load import Steps
    from whydrop.recording.recording import Recording

Values = NDArray[np.float64]

DIRECTIONS = ("down", "up")
LOADING = ("tcp", "udp")


@dataclass(frozen=True)
class Members:
    """Flows of a direction by what is known of their goodput, in the order of the test.

    Attributes:
        present: yielded values.
        absent: yielded none, so that nothing can be said of all of them together.
        optional: yielded none, and the test does not need them.
    """

    present: tuple[str, ...]
    absent: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

    def words(self) -> str:
        """The caveat on a number of the flows that are present; empty where all are."""
        return f"without {listed(self.optional)}, which yielded no data" if self.optional else ""

    def words_of_absent(self) -> str:
        """Why a number of all of them is not known; empty where it is."""
        return f"{listed(self.absent)} yielded no data" if self.absent else ""


def members(
    recording: Recording,
    direction: str,
    kinds: Sequence[str] = LOADING,
    has_values: Callable[[str], bool] | None = None,
) -> Members:
    """The flows of a direction and these kinds; by default their samples show which of them have values."""
    plans = planned_flows(recording.metadata["test"])
    known = {series.name for series in recording.series()}

    def has_samples(name: str) -> bool:
        return name in known and bool(recording.samples(name)["value"].is_finite().any())

    flows = recording.table("flows").sort("flow")
    own = flows.filter(pl.col("kind").is_in(list(kinds)) & (pl.col("direction") == direction))
    found: dict[str, list[str]] = {"present": [], "absent": [], "optional": []}
    for name in own["name"].drop_nulls():
        if (has_values or has_samples)(name):
            found["present"].append(name)
        else:
            found["optional" if plans.get(name, {}).get("optional") else "absent"].append(name)
    return Members(*(tuple(found[key]) for key in ("present", "absent", "optional")))


@dataclass(frozen=True)
class Columns:
    """Goodput of flows at each step of the time under load.

    Attributes:
        names: one a column.
        measured: one row a step; NaN where there is no value.
        complete: the same, with zero where a flow was not planned to run.
    """

    names: tuple[str, ...]
    measured: Values
    complete: Values
    step_s: float

    @property
    def total(self) -> Values:
        """The sum at each step; NaN where it is not known of all flows.

        Where that is so at every step, the sum of those that are known, which is too small: see :meth:`words`.
        """
        total = np.asarray(self.complete.sum(axis=1))
        if np.isfinite(total).any():
            return total
        seen = np.isfinite(self.complete).any(axis=1)
        return np.where(seen, np.nansum(self.complete, axis=1), np.nan)

    def words(self) -> str:
        """Of what the total is, where that is not all of the time in which any flow has values."""
        unknown = np.isnan(self.complete)
        seen = np.isfinite(self.measured).any(axis=1)
        known = int((seen & ~unknown.any(axis=1)).sum())
        if int(seen.sum()) - known <= FARTHEST_STEPS:
            return ""
        lacking = np.count_nonzero(unknown[seen], axis=0)
        worst = int(np.argmax(lacking))
        any_s, all_s = (duration(count * self.step_s) for count in (int(seen.sum()), known))
        of = (
            f"over the {all_s} in which all flows have values, out of {any_s} in which any flow has one"
            if known
            else "at each step, the sum of the flows that have a value, since at no step all have one"
        )
        return f"{of}; {self.names[worst]} lacks most ({duration(lacking[worst] * self.step_s)} of {any_s})"


def columns(recording: Recording, names: Sequence[str], steps: Steps) -> Columns:
    """The goodput of flows, cut to the time under load."""
    plans = planned_flows(recording.metadata["test"])
    grid = recording.grid(*names)
    time_s = grid["time_s"].to_numpy()
    numbers = steps.number((grid["time_s"] * 1e9).round().cast(pl.Int64) + recording.started_ns)
    inside = (numbers >= 0) & (numbers < steps.count)
    measured = np.full((steps.count, len(names)), np.nan)
    complete = measured.copy()
    for place, name in enumerate(names):
        values = grid[name].cast(pl.Float64).to_numpy().astype(float)
        measured[numbers[inside], place] = values[inside]
        plan = plans.get(name, {})
        span = planned_span(plan)
        # A direction of responsiveness ends when it is stable, and the next one then has its turn.
        if span is not None and plan.get("runner") != RUNNER:
            values = np.where(np.isnan(values) & ((time_s < span[0]) | (time_s > span[1])), 0.0, values)
        complete[numbers[inside], place] = values[inside]
    return Columns(tuple(names), measured, complete, steps.step_ns / 1e9)
