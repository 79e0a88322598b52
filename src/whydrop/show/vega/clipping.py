"""Marks cut at the ends of the axes, so that no clip is needed.

A picture with a clipped mark is drawn by laying one picture over another, which takes most of the time of a PNG.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whydrop.show.figure import Axis, Ends, Panel
from whydrop.show.thinning import place

Values = NDArray[np.float64]


def within(data: pl.DataFrame, mark: str, panel: Panel) -> tuple[pl.DataFrame, str, bool]:
    """The part of marks that is seen, how it is drawn, and whether a clip is needed all the same."""
    ends = {"x": panel.x_ends(), "y": panel.y_ends()}
    names = [name for name in ("x", "y", "x2", "y2") if name in data.columns]
    if data.select(pl.all_horizontal((pl.col(name).is_between(*ends[name[0]]) | pl.col(name).is_null()).all()
                                     for name in names)).item():  # fmt: skip
        return data, mark, False
    if mark in ("line", "outline", "step"):
        return _line(data, panel, stepped=mark == "step"), "outline" if mark == "outline" else "line", False
    if mark not in ("points", "rule", "text", "spans", "bars"):
        return data, mark, True
    for axis in ("x", "y"):
        own = [pl.col(name) for name in names if name[0] == axis]
        if own:
            low, high = ends[axis]
            data = data.filter(pl.min_horizontal(own) <= high, pl.max_horizontal(own) >= low)
            data = data.with_columns(one.clip(low, high) for one in own)
    return data, mark, False


def _line(data: pl.DataFrame, panel: Panel, *, stepped: bool) -> pl.DataFrame:
    """The parts of a line within the panel, with a break after each."""
    placed = data.select(place("x", panel.x, panel.x_ends()), place("y", panel.y, panel.y_ends()))
    x, y = (placed[name].cast(pl.Float64).fill_null(np.nan).to_numpy() for name in ("x", "y"))
    if stepped:
        x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    enter, leave = _seen_shares((x[:-1], y[:-1]), (x[1:], y[1:]))
    seen = enter <= leave
    goes_on = np.append(seen[:-1] & seen[1:] & (leave[:-1] == 1) & (enter[1:] == 0), False)
    kept = np.column_stack((seen & ~np.append(False, goes_on[:-1]), seen, seen & ~goes_on)).ravel()
    found = {}
    for name, values, axis, ends in (("x", x, panel.x, panel.x_ends()), ("y", y, panel.y, panel.y_ends())):
        first, steps = values[:-1], np.diff(values)
        after = first + leave * steps if name == "x" else np.full(len(first), np.nan)
        with np.errstate(invalid="ignore"):
            corners = np.column_stack((first + enter * steps, first + leave * steps, after)).ravel()[kept]
        found[name] = pl.Series(_value(corners, axis, ends)).fill_nan(None)
    return pl.DataFrame(found)


def _seen_shares(begin: tuple[Values, Values], end: tuple[Values, Values]) -> tuple[Values, Values]:
    """Where lines enter and leave the square from 0 to 1, as shares of them (Liang and Barsky, 1984)."""
    enter, leave = np.zeros(len(begin[0])), np.ones(len(begin[0]))
    for start, stop in zip(begin, end, strict=True):
        step = stop - start
        with np.errstate(divide="ignore", invalid="ignore"):
            at = np.sort(np.vstack((-start / step, (1 - start) / step)), axis=0)
        never = np.where((start >= 0) & (start <= 1), 0.0, np.inf)
        enter = np.maximum(enter, np.where(step == 0, never, at[0]))
        leave = np.minimum(leave, np.where(step == 0, 1.0, at[1]))
    return enter, leave


def _value(places: Values, axis: Axis, ends: Ends) -> Values:
    """The inverse of `place`."""
    low, high = ends
    if axis.scale == "log":
        return np.asarray(np.exp(math.log(low) + places * (math.log(high) - math.log(low))))
    return np.asarray(low + places * ((high - low) or 1.0))
