"""Places on the axes of a grid of panels: where zeros stand, how wide bars and bins are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from whydrop.show.figure import Axis, Ends

DAY_S = 86_400.0


def seen(axis: Axis) -> Ends:
    """The ends of an axis without the band below it in which zeros stand."""
    low, high = axis.ends or (0.0, 1.0)
    return (low if axis.zeros is None else axis.zeros[1]), high


def lane(axis: Axis, share: float) -> float:
    """A place in the band of zeros, from its upper to its lower end."""
    assert axis.zeros is not None
    assert axis.ends is not None
    top, foot = axis.zeros[1], axis.ends[0]
    return float(top * (foot / top) ** share)


def bar_step(places: pl.Series, scale: str) -> float:
    """From one place of bars to the next; of a single place a day of time, else 1."""
    steps = places.drop_nulls().unique().sort().diff().drop_nulls()
    least = steps.filter(steps > 0).min()
    return float(least) if isinstance(least, float) else DAY_S if scale == "time" else 1.0


def outer_edges(places: Sequence[float], scale: str) -> Ends:
    """The first bin's lower and the last one's upper edge, from bins' centres in order.

    The width of the bins is the distance of the first two; that of a single bin is not known: a tenth of a decade, or
    of the number itself, stands for it.
    """
    log = scale == "log"
    known = [math.log10(place) for place in places] if log else list(places)
    width = known[1] - known[0] if len(known) > 1 else 0.1 if log else abs(known[0]) * 0.1 or 1.0
    low, high = known[0] - width / 2, known[-1] + width / 2
    return (10.0**low, 10.0**high) if log else (low, high)
