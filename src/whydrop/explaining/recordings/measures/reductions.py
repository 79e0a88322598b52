"""Reductions of a flow's congestion window by the events that its kernel recorded (table ``tcp_events``).

Two samples show that a window fell; the events between them show why. A fall is attributed if a reduction with a known
cause lies between the samples, or if the window was in a recovery that had begun before: it approaches the threshold
over a round trip (RFC 6937). The window of a rate-based control (BBR) falls by its model.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.explaining.recordings.measures.series import STATES, Flow, Times, read_from_ns
from whydrop.recording.end_limits import BY_RATE

# The acknowledgment after a reduction outside of recovery comes within so many smoothed round trips.
_LATE_ROUND_TRIPS = 2

Flags = NDArray[np.bool_]

SIGNALS = ("fast-retransmit", "timeout", "ecn", "local-queue", "tail-loss-probe")
OTHERS = ("application-limited", "path-mtu", "congestion-control")
UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Reductions:
    """Of one flow, in all of its time.

    Attributes:
        causes: reductions by cause, as the kernel's events name it.
        undone: reductions that were reverted.
        falls: pairs of successive samples between which the window fell.
        attributed: those of them with a known cause.
        duplicate_acks: acknowledgments that were duplicates.
        of_reordering: those of them in a disorder that ended without a retransmission.
    """

    causes: dict[str, int]
    undone: int
    falls: int
    attributed: int
    duplicate_acks: int
    of_reordering: int
    others: dict[str, int] = field(default_factory=dict)

    @property
    def share(self) -> float | None:
        """The share of falls that are attributed; ``None`` without falls."""
        return self.attributed / self.falls if self.falls else None


def measure(flow: Flow) -> Reductions | None:
    """Of a flow with recorded events; ``None`` for others."""
    events = flow.events
    if events is None:
        return None
    reductions = events.filter(pl.col("event") == "reduction")
    causes = {cause: int((reductions["cause"] == cause).sum()) for cause in (*SIGNALS, *OTHERS, UNEXPLAINED)}
    falls, attributed = _falls(flow, reductions)
    duplicates = flow.counted["duplicate_acks"]
    known = duplicates[np.isfinite(duplicates)]
    seen = int(known[-1]) if known.size else int(events["duplicate_acks"].max() or 0)  # type: ignore[arg-type]
    return Reductions(
        causes,
        int((events["event"] == "undone").sum()),
        falls,
        attributed,
        seen,
        int(events["duplicate_acks_of_reordering"].max() or 0),  # type: ignore[arg-type]
        {cause: causes[cause] for cause in OTHERS if causes[cause]},
    )


def _falls(flow: Flow, reductions: pl.DataFrame) -> tuple[int, int]:
    """How often the window fell from one sample to the next, and how often with a known cause."""
    assert flow.events is not None
    counted = flow.counted
    window = counted["congestion_window_packets"]
    known = np.isfinite(window)
    times_ns, window = counted.times_ns[known], window[known]
    fell = np.flatnonzero(np.diff(window) < 0)
    if flow.control in BY_RATE:
        return len(fell), len(fell)
    begun_ns, ended_ns = read_from_ns(times_ns[fell], flow.polls_ns), times_ns[fell + 1]
    explained = reductions.filter(pl.col("cause") != UNEXPLAINED)["time_ns"].to_numpy()
    between = np.searchsorted(explained, ended_ns, "right") > np.searchsorted(explained, begun_ns, "right")
    unused = _unused(reductions, begun_ns, ended_ns)
    return len(fell), int((between | unused | _recovering(flow.events, begun_ns)).sum())


def _unused(reductions: pl.DataFrame, begun_ns: Times, ended_ns: Times) -> Flags:
    """Falls of a window that was not used: the event comes with the next acknowledgment, a round trip later."""
    own = reductions.filter(pl.col("cause") == "application-limited")
    if own.is_empty():
        return np.zeros(len(begun_ns), dtype=bool)
    seen_ns = own["time_ns"].to_numpy()
    first_ns = seen_ns - _LATE_ROUND_TRIPS * own["srtt_ns"].fill_null(0).to_numpy()
    next_one = np.searchsorted(seen_ns, begun_ns, "right")
    there = next_one < len(seen_ns)
    return np.asarray(there & (first_ns[np.minimum(next_one, len(seen_ns) - 1)] <= ended_ns))


def _recovering(events: pl.DataFrame, times_ns: Times) -> Flags:
    """At which times a recovery went on: the last event before shows one of its states."""
    if not events.height:
        return np.zeros(len(times_ns), dtype=bool)
    state = events["congestion_state"].replace_strict(STATES, default=0.0, return_dtype=pl.Float64).to_numpy()
    last = np.searchsorted(events["time_ns"].to_numpy(), times_ns, "right") - 1
    return np.asarray((last >= 0) & (state[np.maximum(last, 0)] >= STATES["reduced"]))
