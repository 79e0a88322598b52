"""The moment of the heaviest loss: over a long flow single packets are too small to see."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from whydrop.show.charts.scene import Scene, present
from whydrop.show.figure import Ends, NothingToDraw, Panel

# Long enough for a loss, its detection and its repair, with a little before and after.
_ROUND_TRIPS = 8
_SHORTEST_S = 0.02
# Where the whole flow is no longer than this many times the window, the whole shows as much.
_WORTH_IT = 3.0


def cut(panel: Panel, window: Ends) -> Panel:
    """The part of a panel within a window of time; limits, which are at no time, stay."""
    within = pl.col("x").is_between(*window)
    layers = [
        layer if layer.mark == "rule" else replace(layer, data=layer.data.filter(within)) for layer in panel.layers
    ]
    return replace(panel, layers=present(layers))


def needed(window: Ends | None, flow: str) -> Ends:
    """The window, if there is use in one.

    Raises:
        NothingToDraw: there is none.
    """
    if window is None:
        raise NothingToDraw(f"{flow}: nothing was lost, or the whole flow is as short as a close-up")
    return window


def heaviest(scene: Scene) -> Ends | None:
    """Start and end (s) of the interval with most losses; ``None`` where there is no use in one."""
    return window_of(scene.segments, scene.lost["t"], scene.flow.rtt_min_s)


def window_of(packets: pl.DataFrame, lost_at: pl.Series, rtt_s: float | None) -> Ends | None:
    """The same of any packets with their times ``t``."""
    length = max((rtt_s or 0.0) * _ROUND_TRIPS, _SHORTEST_S)
    times = lost_at.sort()
    last = packets["t"].max()
    if times.is_empty() or not isinstance(last, float) or last < length * _WORTH_IT:
        return None
    # How many losses the inner half of an interval that begins just before this one holds.
    following = times.search_sorted(times + length / 2, side="right").cast(pl.Int64)
    held = following - pl.int_range(0, len(times), eager=True)
    best = held.arg_max() or 0
    start = max(0.0, float(times[best]) - length / 4)
    return start, start + length
