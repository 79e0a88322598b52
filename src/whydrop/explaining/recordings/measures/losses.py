"""Probes that were lost: how many, in which direction, and whether time, load or delay had a part in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whydrop.explaining.recordings.likelihood import dependence
from whydrop.explaining.recordings.measures.series import Stream, Times, Values
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.explaining.recordings.thresholds import FEWEST_EVENTS

# Most cells of time that the load is cut into.
_MOST_CELLS = 8


@dataclass(frozen=True)
class Losses:
    """Of one direction (``both``: of the round trip).

    Attributes:
        idle_sent, idle_lost, sent, lost: probes without load, and under it (settling included).
        inflation: by how much losses in clumps vary more than single ones would.
        cells_lost, cells_sent: of pieces of time in order, long enough for several losses each.
        steps_lost: probes lost in each step of the steady load.
    """

    way: str
    idle_sent: int
    idle_lost: int
    sent: int
    lost: int
    inflation: float
    cells_lost: Values
    cells_sent: Values
    steps_lost: Values


def measure(streams: Sequence[Stream], spans: Spans, way: str) -> Losses | None:
    """The losses of one direction; ``None`` where no stream counts them."""
    known = [_of(stream, way) for stream in streams if _tells(stream, way)]
    if not known:
        return None
    times = np.concatenate([times for times, _ in known])
    lost = np.concatenate([lost for _, lost in known])
    order = np.argsort(times, kind="stable")
    times, lost = times[order], lost[order]
    idle = spans.idle(times)
    loaded = (times >= spans.start_ns) & (times < spans.end_ns)
    of_interest = lost[loaded] if loaded.any() else lost[idle]
    # Streams that are sent at one time meet one queue: in order of time they are neighbours.
    inflation = dependence(of_interest) if of_interest.any() else 1.0
    events = float(lost.sum()) / inflation
    cells = int(max(1, min(_MOST_CELLS, events // FEWEST_EVENTS)))
    number = np.minimum(np.arange(len(lost)) * cells // max(1, len(lost)), cells - 1)
    return Losses(
        way,
        int(idle.sum()),
        int(lost[idle].sum()),
        int(loaded.sum()),
        int(lost[loaded].sum()),
        inflation,
        np.asarray(np.bincount(number, lost, cells), dtype=np.float64),
        np.bincount(number, minlength=cells).astype(np.float64),
        _by_step(spans, times, lost),
    )


def _tells(stream: Stream, way: str) -> bool:
    if not np.isfinite(stream.lost).any():
        return False
    # Only a stream with a far end that reports the direction counts for one direction.
    return way == "both" or bool(np.isfinite(stream.delays_s[way]).any() or (stream.directions != "").any())


def _by_step(spans: Spans, times: Times, lost: Values) -> Values:
    loaded = spans.loaded(times)
    return np.asarray(np.bincount(spans.step(times[loaded]), lost[loaded], spans.steps), dtype=np.float64)


def _of(stream: Stream, way: str) -> tuple[Times, Values]:
    kept = np.isfinite(stream.lost)
    lost = stream.lost if way == "both" else np.where(stream.directions == way, stream.lost, 0.0)
    return stream.times_ns[kept], np.asarray(lost[kept], dtype=np.float64)
