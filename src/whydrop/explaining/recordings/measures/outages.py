"""Intervals in which nothing came through at all, neither probes nor data, after which it went on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whydrop.explaining.recordings.measures.series import Flow, Stream, Values
from whydrop.explaining.recordings.thresholds import LEAST_OUTAGE_S

# More than this and they are no outages of one path, but how it always is.
_MOST = 20


@dataclass(frozen=True)
class Outage:
    """From the first probe that was not answered to the first that was, in ns.

    Attributes:
        probes: that were sent in it and lost.
        streams: that they belong to.
        silent: flows that ran in it, and carried nothing.
        persistence: chance that a probe is lost after one that was, outside of outages.
    """

    start_ns: int
    end_ns: int
    probes: int
    streams: tuple[str, ...]
    silent: tuple[str, ...]
    persistence: float


def measure(streams: Sequence[Stream], flows: Sequence[Flow]) -> list[Outage]:
    """The outages of a recording, in order of time."""
    telling = [stream for stream in streams if np.isfinite(stream.lost).all() and len(stream.lost) > 1]
    if not telling:
        return []
    times = np.concatenate([stream.times_ns for stream in telling])
    lost = np.concatenate([stream.lost for stream in telling])
    order = np.argsort(times, kind="stable")
    times, lost = times[order], lost[order]
    intervals = [(first, last) for first, last in _runs(lost) if _long(times, first, last)]
    if len(intervals) > _MOST:
        return []
    persistence = _persistence(lost, intervals)
    found = []
    for first, last in intervals:
        # It ends with an answer, else it is the end of the test, or of a host.
        if last >= len(times) or first == 0:
            continue
        start_ns, end_ns = int(times[first]), int(times[last])
        running = [
            flow for flow in flows if flow.start_ns <= start_ns and flow.end_ns >= end_ns and len(flow.intervals)
        ]
        silent = [flow.name for flow in running if not _carried(flow, start_ns, end_ns)]
        if len(silent) < len(running):
            continue
        names = [stream.name for stream in telling if _sent(stream, start_ns, end_ns)]
        found.append(Outage(start_ns, end_ns, last - first, tuple(names), tuple(silent), persistence))
    return found


def _runs(lost: Values) -> list[tuple[int, int]]:
    """Runs of losses: the first, and the one behind the last."""
    edges = np.diff(np.concatenate([[0.0], lost, [0.0]]))
    return list(zip(np.flatnonzero(edges > 0).tolist(), np.flatnonzero(edges < 0).tolist(), strict=True))


def _long(times: Values, first: int, last: int) -> bool:
    return bool(times[min(last, len(times) - 1)] - times[first] >= LEAST_OUTAGE_S * 1e9) and last - first >= 2


def _persistence(lost: Values, intervals: list[tuple[int, int]]) -> float:
    """The chance of a loss after a loss outside of the outages; by Laplace's rule of succession, so never 0."""
    outside = np.ones(len(lost), dtype=bool)
    for first, last in intervals:
        outside[first : last + 1] = False
    after = outside[1:] & outside[:-1] & (lost[:-1] > 0)
    return float((lost[1:][after].sum() + 1) / (after.sum() + 2))


def _carried(flow: Flow, start_ns: int, end_ns: int) -> bool:
    """True if a flow carried data all through: an interval with bytes that lies within, for its middle half."""
    quarter = (end_ns - start_ns) / 4
    starts, ends, sizes = flow.intervals.T
    within = (starts >= start_ns + quarter) & (ends <= end_ns - quarter)
    across = (starts <= start_ns) & (ends >= end_ns) & (ends - starts < 2 * (end_ns - start_ns))
    return bool((sizes[within] > 0).any() or (sizes[across] > 0).any())


def _sent(stream: Stream, start_ns: int, end_ns: int) -> bool:
    return bool(((stream.times_ns >= start_ns) & (stream.times_ns < end_ns)).any())
