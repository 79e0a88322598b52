"""Thinning to the resolution of the picture: what is left looks the same, and rare events are all left.

Lines keep, in each column of pixels, their first, last, lowest and highest point, so that no peak is lost, and their
breaks; clouds of points keep one point in each cell of pixels. Layers of rare events pass unchanged.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import polars as pl

from whydrop.show.figure import Axis, Ends, Layer, Panel

_LINES = ("line", "step", "band")
_CLOUDS = ("points", "spans", "slants")


def thin(layer: Layer, panel: Panel, columns: int, rows: int) -> Layer:
    """The layer at a resolution of so many columns and rows over the whole panel."""
    if layer.rare or layer.mark not in (*_LINES, *_CLOUDS) or layer.data.height <= columns:
        return layer
    x = place("x", panel.x, panel.x_ends()) * columns
    data = _extremes(layer.data, x.floor()) if layer.mark in _LINES else _cells(layer.data, x, panel, columns, rows)
    return replace(layer, data=data)


def place(name: str, axis: Axis, ends: Ends) -> pl.Expr:
    """Where on an axis a column's values are drawn: 0 at its beginning, 1 at its end."""
    low, high = ends
    if axis.scale == "log":
        return (pl.col(name).log() - math.log(low)) / (math.log(high) - math.log(low))
    return (pl.col(name) - low) / ((high - low) or 1.0)


def _extremes(data: pl.DataFrame, column: pl.Expr) -> pl.DataFrame:
    """Of each column of pixels the first, the last, the lowest and the highest row: no peak is lost, and none moves.

    A break (``y`` is null) begins a new part of the line, each of which is thinned alone, and stays.
    """
    keys = data.select(column=column.cast(pl.Float64), part=pl.col("y").is_null().cum_sum(), y="y", top=_top(data))
    columns, parts = keys["column"].to_numpy(), keys["part"].to_numpy()
    begins = np.flatnonzero(np.concatenate(([True], (np.diff(columns) != 0) | (np.diff(parts) != 0))))
    kept = np.zeros(len(columns), dtype=bool)
    kept[begins] = kept[np.append(begins[1:], len(columns)) - 1] = True
    for name, extreme in (("y", np.fmin), ("top", np.fmax)):
        values = keys[name].cast(pl.Float64).to_numpy()
        own = extreme.reduceat(values, begins)
        at = np.flatnonzero(values == np.repeat(own, np.diff(begins, append=len(values))))
        # Of several that are as low or as high, the first.
        of = np.searchsorted(begins, at, side="right")
        kept[at[np.diff(of, prepend=0) != 0]] = True
    return _without_level(data.filter(pl.Series(kept)))


def _without_level(data: pl.DataFrame) -> pl.DataFrame:
    """Without the rows inside a level stretch: a line that stays as high as it is needs only its ends."""
    levels = [pl.col(name) for name in ("y", "y2") if name in data.columns]
    same = [level.eq_missing(level.shift(by)) for level in levels for by in (1, -1)]
    ends = pl.int_range(pl.len()).is_in([0, data.height - 1])
    return data.filter(~pl.all_horizontal(same) | ends)


def _top(data: pl.DataFrame) -> str:
    return "y2" if "y2" in data.columns else "y"


def _cells(data: pl.DataFrame, x: pl.Expr, panel: Panel, columns: int, rows: int) -> pl.DataFrame:
    cells = {"cell_x": x.floor()}
    for name in ("y", "y2"):
        if name in data.columns:
            cells[f"cell_{name}"] = (place(name, panel.y, panel.y_ends()) * rows).floor()
    if "x2" in data.columns:
        # Two slants that begin together may end apart.
        cells["cell_x2"] = ((place("x2", panel.x, panel.x_ends()) * columns) - x).floor()
    return data.with_columns(**cells).unique([*cells], keep="first", maintain_order=True).select(data.columns)
