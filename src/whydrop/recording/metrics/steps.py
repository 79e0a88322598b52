"""The time under load in steps, to which samples of any pace are assigned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.recording import gridding
from whydrop.recording.errors import RecordingError
from whydrop.recording.metrics.load import Window

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

Values = NDArray[np.float64]


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
        if count > gridding.MOST_STEPS:
            raise RecordingError(f"{recording.path}: {count} steps under load: a clock must have jumped")
        return cls(span.start_ns, step_ns, count)

    def number(self, times_ns: pl.Series) -> NDArray[np.int64]:
        """The step of each time; negative before the first."""
        return np.asarray(((times_ns - self.start_ns) // self.step_ns).to_numpy(), dtype=np.int64)

    def means(self, steps: NDArray[np.int64], values: Values) -> Values:
        """The mean of the values in each step; NaN where there are none."""
        sums = np.bincount(steps, values, self.count)[: self.count]
        counts = np.bincount(steps, minlength=self.count)[: self.count]
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(counts > 0, sums / counts, np.nan))
