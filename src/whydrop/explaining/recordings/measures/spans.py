"""When a path was idle and when it was under load, in steps of equal length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whydrop.explaining.recordings.measures.series import Flow, Stream, Times, Values
from whydrop.explaining.recordings.thresholds import DRAINING_S, MOST_SETTLING, SETTLING_S

_NS = 1_000_000_000

# A day has 86 400 seconds; a longer recording (or one with a clock that jumped) is read in longer steps.
# Resampling costs time with their number, and finer steps add nothing for so long a test.
MOST_STEPS = 100_000


@dataclass(frozen=True)
class Spans:
    """The time under load from ``start_ns`` to ``end_ns``; steady from ``steady_ns`` on.

    Attributes:
        quiet_ns: from here on after the load the path is idle again.
        first_ns, last_ns: of everything that was measured.
    """

    start_ns: int
    steady_ns: int
    end_ns: int
    quiet_ns: int
    first_ns: int
    last_ns: int
    step_ns: int

    @property
    def steps(self) -> int:
        """How many steps the steady load has."""
        return int(max(1, min(MOST_STEPS, -(-(self.end_ns - self.steady_ns) // self.step_ns))))

    @property
    def second_ns(self) -> int:
        """A second; longer where the load lasts so long that there would be too many."""
        return max(_NS, (self.end_ns - self.steady_ns) // MOST_STEPS + 1)

    def idle(self, times_ns: Times) -> NDArray[np.bool_]:
        """Which times are before the load, or long enough after it."""
        return np.asarray((times_ns < self.start_ns) | (times_ns >= self.quiet_ns))

    def loaded(self, times_ns: Times) -> NDArray[np.bool_]:
        """Which times are in the steady load."""
        return np.asarray((times_ns >= self.steady_ns) & (times_ns < self.end_ns))

    def step(self, times_ns: Times) -> NDArray[np.int64]:
        """The step of each time in the steady load."""
        return np.asarray(np.clip((times_ns - self.steady_ns) // self.step_ns, 0, self.steps - 1), dtype=np.int64)

    def means(self, times_ns: Times, values: Values) -> Values:
        """The mean of the values of each step of the steady load; NaN where there is none."""
        kept = self.loaded(times_ns) & np.isfinite(values)
        number = self.step(times_ns[kept])
        sums = np.bincount(number, values[kept], self.steps)
        counts = np.bincount(number, minlength=self.steps)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(counts > 0, sums / counts, np.nan))


def of(flows: Sequence[Flow], streams: Sequence[Stream], step_s: float) -> Spans | None:
    """The spans of a recording; ``None`` where nothing was measured. Without load, all of it is idle."""
    times = [stream.times_ns for stream in streams if len(stream.times_ns)]
    edges = [edge for flow in flows for edge in (flow.start_ns, flow.end_ns)]
    firsts, lasts = [*(int(t[0]) for t in times), *edges], [*(int(t[-1]) for t in times), *edges]
    if not firsts:
        return None
    first_ns, last_ns = min(firsts), max(lasts) + 1
    step_ns = max(1, round(step_s * _NS))
    if not flows:
        return Spans(last_ns, last_ns, last_ns, last_ns, first_ns, last_ns, step_ns)
    start_ns, end_ns = min(flow.start_ns for flow in flows), max(flow.end_ns for flow in flows)
    settling_ns = min(round(SETTLING_S * _NS), round((end_ns - start_ns) * MOST_SETTLING))
    step_ns = max(step_ns, (end_ns - start_ns) // MOST_STEPS + 1)
    slowest_s = max((_longest(stream, end_ns) for stream in streams), default=0.0)
    quiet_ns = end_ns + round((DRAINING_S + slowest_s) * _NS)
    return Spans(start_ns, start_ns + settling_ns, end_ns, quiet_ns, first_ns, last_ns, step_ns)


def _longest(stream: Stream, end_ns: int) -> float:
    """The longest round trip at the end of the load: so long the queue may take to drain."""
    near = stream.delays_s["both"][np.abs(stream.times_ns - end_ns) < DRAINING_S * _NS]
    near = near[np.isfinite(near)]
    return float(near.max()) if len(near) else 0.0
