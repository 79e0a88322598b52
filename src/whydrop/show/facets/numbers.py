"""The numbers of a faceted figure: the rows of every panel, before they are thinned for the pixels."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from whydrop.show.facets.building import Counts
from whydrop.show.figure import Axis, Figure, Layer, Panel


def frame(figure: Figure) -> pl.DataFrame:
    """The rows that are drawn: figure, panel, group, x, y, low, high. Zeros are 0 here, wherever they are drawn."""
    parts = [
        layer.numbers.select(
            pl.lit(figure.key).alias("figure"),
            pl.lit(panel.name).alias("panel"),
            pl.lit(layer.of["group"]).alias("group"),
            "x", "y", "low", "high",
        )
        for panel in figure.panels
        for layer in _listed(panel)
        if layer.numbers is not None
    ]  # fmt: skip
    return pl.concat(parts) if parts else pl.DataFrame()


def _listed(panel: Panel) -> list[Layer]:
    """The layers that are exported, in the order of the legend."""
    exported = (layer for layer in panel.layers if not layer.helper)
    return sorted(exported, key=lambda layer: panel.order.index(layer.name))


def csv_text(figure: Figure) -> str:
    """The rows as CSV."""
    return frame(figure).write_csv()


def json_text(figure: Figure) -> str:
    """The words of the figure, its axes, the counts of what is not seen, and the rows by column, as JSON."""
    assert isinstance(figure.left_out, Counts)
    first = figure.panels[0]
    document = {
        "plot": figure.key,
        "title": figure.title,
        "subtitle": figure.subtitle,
        "notes": figure.footnotes(),
        "counts": figure.left_out.numbers(),
        "x": _axis(first.x),
        "y": _axis(first.y),
        "rows": frame(figure).to_dict(as_series=False),
    }
    return json.dumps(document, allow_nan=False) + "\n"


def _axis(axis: Axis) -> dict[str, Any]:
    return {"title": axis.title, "unit": axis.unit, "scale": axis.scale}
