"""What is drawn as numbers: the rows of every panel, before they are thinned for the pixels."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import polars as pl

from whydrop.show.facets.building import Facets, Panel


def frame(facets: Facets) -> pl.DataFrame:
    """The rows that are drawn: figure, panel, group, x, y, low, high. Zeros are 0 here, wherever they are drawn."""
    parts = [
        drawn.data.select(
            pl.lit(facets.key).alias("figure"),
            pl.lit(panel.name).alias("panel"),
            pl.lit(drawn.group).alias("group"),
            *(_told(name, panel) for name in ("x", "y", "low", "high")),
        )
        for panel in facets.panels
        for drawn in panel.listed
    ]
    return pl.concat(parts) if parts else pl.DataFrame()


def _told(name: str, panel: Panel) -> pl.Expr:
    scale = panel.x if name == "x" else panel.y
    value = pl.col(name)
    if scale.zeros_from is not None:
        value = pl.when(value < scale.ends[0]).then(0.0).otherwise(value)
    return value.alias(name)


def csv_text(facets: Facets) -> str:
    """The rows as CSV."""
    return frame(facets).write_csv()


def document(facets: Facets) -> dict[str, Any]:
    """The words of the picture, its axes, the counts of what is not seen, and the rows by column, for JSON."""
    spec = facets.spec
    return {
        "plot": facets.key,
        "title": facets.title,
        "subtitle": facets.subtitle,
        "notes": facets.footnotes(),
        "counts": asdict(facets.counts),
        "x": {"title": spec.x.title, "unit": spec.x.unit, "scale": spec.x.scale},
        "y": {"title": spec.y.title, "unit": spec.y.unit, "scale": spec.y.scale},
        "rows": frame(facets).to_dict(as_series=False),
    }
