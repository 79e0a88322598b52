"""The time when a recording's path was under load, between idle times before and after; and its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording.errors import RecordingError
from whydrop.recording.grid import MOST_STEPS

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

Values = NDArray[np.float64]

_LOADING = ("tcp", "udp", "burst", "http")


@dataclass(frozen=True)
class Window:
    """A span of time, ``start_ns`` included and ``end_ns`` excluded, and how it was found (for people)."""

    start_ns: int
    end_ns: int
    found: str


def window(recording: Recording) -> Window | None:
    """The time under load: what the flows that make load did, else what the plan says; ``None`` where none did.

    Where the flows overlap only in part (a square wave), it is from the first one's start to the last one's end.
    """
    flows = recording.table("flows").to_dicts()
    loading = [row for row in flows if row["kind"] in _LOADING]
    if loading and all(row["start_ns"] is not None and row["end_ns"] is not None for row in loading):
        return Window(
            min(row["start_ns"] for row in loading), max(row["end_ns"] for row in loading), "while flows were running"
        )
    planned = _planned(recording.metadata.get("test") or {}) if loading or not flows else None
    if planned is not None:
        origin = recording.started_ns
        return Window(origin + round(planned[0] * 1e9), origin + round(planned[1] * 1e9), "as the test was planned")
    intervals = recording.table("intervals")
    if intervals.is_empty():
        return None
    first, last = intervals["start_ns"].min(), intervals["end_ns"].max()
    if not isinstance(first, int) or not isinstance(last, int):
        return None
    return Window(first, last, "while data arrived")


def _planned(test: dict[str, Any]) -> tuple[float, float] | None:
    """Start and end in seconds after the common start."""
    spans = [
        (float(flow.get("start_s") or 0.0), float(flow.get("start_s") or 0.0) + float(flow["duration_s"]))
        for flow in test.get("flows") or []
        if isinstance(flow, dict) and flow.get("kind") in _LOADING and isinstance(flow.get("duration_s"), (int, float))
    ]
    if spans:
        return min(start for start, _ in spans), max(end for _, end in spans)
    length, delay = test.get("length_s"), test.get("delay_s")
    if isinstance(length, (int, float)) and isinstance(delay, (int, float)) and length > 0 and delay > 0:
        return float(delay), float(delay + length)
    return None


@dataclass(frozen=True)
class Steps:
    """Steps of equal length from ``start_ns`` on, each with its start."""

    start_ns: int
    step_ns: int
    count: int

    @classmethod
    def of(cls, span: Window, recording: Recording) -> Steps:
        """Those of a recording's own length in a span of time.

        Raises:
            RecordingError: there are too many of them to make sense.
        """
        step_ns = max(1, round(recording.step_s * 1e9))
        count = max(1, -(-(span.end_ns - span.start_ns) // step_ns))
        if count > MOST_STEPS:
            raise RecordingError(f"{recording.path}: {count} steps under load: a clock must have jumped")
        return cls(span.start_ns, step_ns, count)

    def number(self, times_ns: pl.Series) -> NDArray[np.int64]:
        """The step of each time; negative before the first."""
        return np.asarray(((times_ns - self.start_ns) // self.step_ns).to_numpy(), dtype=np.int64)

    def means(self, steps: NDArray[np.int64], values: Values) -> Values:
        """The mean of the values in each step; NaN where there are none."""
        return means_in(steps, values, self.count)


def means_in(steps: NDArray[np.int64], values: Values, count: int) -> Values:
    """The mean of the values in each of ``count`` steps; NaN where there are none."""
    sums = np.bincount(steps, values, count)[:count]
    counts = np.bincount(steps, minlength=count)[:count]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(counts > 0, sums / counts, np.nan))
