"""Thinning to what pixels show, group by group: small groups stay whole, and no extreme of a line is lost."""

from __future__ import annotations

import math

import polars as pl

from whydrop.show.extremes import extremes
from whydrop.show.facets.building import Scale

# Marks are some five pixels wide: two within this many pixels look like one.
_CELL_PIXELS = 1.5


def place(name: str, scale: Scale, pixels: float) -> pl.Expr:
    """Where on an axis of so many pixels a column's values are drawn."""
    low, high = scale.domain
    if scale.axis.scale == "log":
        return (pl.col(name).log() - math.log(low)) / (math.log(high) - math.log(low)) * pixels
    return (pl.col(name) - low) / ((high - low) or 1.0) * pixels


def points(data: pl.DataFrame, x: Scale, y: Scale, width: int, height: int) -> pl.DataFrame:
    """One point in each cell of pixels; points with an interval stay, and groups of few points."""
    if data.height <= 2 * width:
        return data
    cells = data.with_columns(
        column=(place("x", x, width) / _CELL_PIXELS).floor(), cell=(place("y", y, height) / _CELL_PIXELS).floor()
    )
    bare = cells.filter(pl.col("low").is_null())
    kept = [
        cells.filter(pl.col("low").is_not_null()),
        bare.unique(["column", "cell"], keep="first", maintain_order=True),
    ]
    return pl.concat(kept).select(data.columns)


def line(data: pl.DataFrame, x: Scale, width: int) -> pl.DataFrame:
    """Of each column of pixels and line the first, last, lowest and highest point; breaks (y null) stay."""
    if data.height <= 4 * width:
        return data
    column = (place("x", x, width) * 2).floor()
    return extremes(data, line=pl.col("line"), stretch=pl.col("y").is_null().cum_sum(), column=column)


def with_breaks(data: pl.DataFrame) -> pl.DataFrame:
    """Lines broken (a row whose y is null) where nothing was measured for more than five steps."""
    parts = []
    for _, own in data.group_by("line", maintain_order=True):
        steps = own["x"].diff().drop_nulls()
        step = steps.filter(steps > 0).median()
        parts.append(own)
        if not isinstance(step, (int, float)) or own.height < 3:
            continue
        after = own.filter(pl.col("x").diff() > 5 * step)
        if after.height:
            nothing = pl.lit(None, dtype=pl.Float64)
            # Just before the sample after the gap: it need not be exact, it is not drawn.
            breaks = after.with_columns(
                pl.col("x") - step / 2, nothing.alias("y"), nothing.alias("low"), nothing.alias("high")
            )
            parts.append(breaks)
    return pl.concat(parts).sort("line", "x") if parts else data
