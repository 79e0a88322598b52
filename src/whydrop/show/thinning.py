"""Thinning to the resolution of the picture: what is left looks the same, and rare events are all left.

Lines keep, in each column of pixels, their first, last, lowest and highest point, so that no peak is lost; clouds of
points keep one point in each cell of pixels. Layers of rare events pass unchanged.
"""

from __future__ import annotations

import polars as pl

from whydrop.show.charts.figure import Figure, Layer
from whydrop.show.extremes import extremes


def thin(layer: Layer, figure: Figure, columns: int, rows: int) -> Layer:
    """The layer at a resolution of so many columns and rows over the whole figure."""
    if layer.rare or layer.mark in ("bars", "rule") or layer.data.height <= columns:
        return layer
    low, high = figure.x_range()
    column = ((pl.col("x") - low) / (high - low) * columns).floor()
    if layer.mark in ("line", "step"):
        data = extremes(layer.data, column=column)
    else:
        data = _cells(layer.data, column, columns / (high - low), figure.y_range(), rows)
    return Layer(layer.name, layer.style, layer.mark, data, layer.rare, layer.stretch)


def _cells(
    data: pl.DataFrame, column: pl.Expr, columns_per_x: float, y_range: tuple[float, float], rows: int
) -> pl.DataFrame:
    low, high = y_range
    cells = [column.alias("column")]
    for name in ("y", "y2"):
        if name in data.columns:
            cells.append(((pl.col(name) - low) / (high - low) * rows).floor().alias(f"cell_{name}"))
    if "x2" in data.columns:
        # Two slants that begin together may end apart.
        cells.append(((pl.col("x2") - pl.col("x")) * columns_per_x).floor().alias("cell_x2"))
    keys = [f"cell_{name}" for name in ("y", "y2", "x2") if name in data.columns]
    return data.with_columns(cells).unique(["column", *keys], keep="first", maintain_order=True).select(data.columns)
