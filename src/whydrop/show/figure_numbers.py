"""The numbers of a figure: everything that it shows, before it was thinned for the pixels."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import polars as pl

from whydrop.show import ticks
from whydrop.show.figure import Axis, Figure, Layer, Panel
from whydrop.text import csv


def frame(figure: Figure) -> pl.DataFrame:
    """One row a mark.

    Columns: figure, panel, what the mark is of (a group, or recording, series, units and mark), then its places and
    numbers. A zero is 0 here, wherever it is drawn.
    """
    parts = [
        _rows(layer, panel).select(
            *(
                pl.lit(value, pl.String).alias(name)
                for name, value in {
                    "figure": figure.key,
                    "panel": panel.name or panel.title or str(number),
                    **layer.of,
                }.items()
            ),
            pl.all(),
        )
        for number, panel in enumerate(figure.panels, start=1)
        for layer in panel.layers
        if not layer.helper
    ]
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()


def csv_text(figure: Figure) -> str:
    """The rows of :func:`frame` as CSV."""
    return csv.text(frame(figure))


def json_text(figure: Figure) -> str:
    """A document: the words of the figure, what is left out, its axes, and each layer with its columns."""
    counts = figure.left_out
    document = {
        "plot": figure.key,
        "title": figure.title,
        "subtitle": figure.subtitle,
        "notes": figure.footnotes(),
        "left_out": counts and {**counts.numbers(), "silent": counts.silent, "share": counts.share},
        "panels": [
            {
                "title": panel.title,
                **_axis("x", panel.x),
                **_axis("y", panel.y),
                "traces": [_trace(layer) for layer in panel.layers if not layer.helper],
            }
            for panel in figure.panels
        ],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _axis(name: str, axis: Axis) -> dict[str, Any]:
    return {
        name: ticks.label(axis),
        f"{name}_scale": axis.scale,
        f"{name}_categories": [word for _, word in axis.words],
    }


def _numbers(layer: Layer) -> pl.DataFrame:
    return layer.data if layer.numbers is None else layer.numbers


def _trace(layer: Layer) -> dict[str, Any]:
    numbers = _numbers(layer).with_columns(pl.selectors.float().fill_nan(None))
    return {**layer.of, "columns": numbers.to_dict(as_series=False)}


def _rows(layer: Layer, panel: Panel) -> pl.DataFrame:
    """Numbers; places on an axis of categories mean nothing outside the picture: the category itself does."""
    numbers = _numbers(layer)
    for name, axis in (("x", panel.x), ("y", panel.y)):
        if axis.words and name in numbers.columns:
            categories = numbers[name].map_elements(partial(_nearest, axis), return_dtype=pl.String)
            numbers = numbers.with_columns(categories).drop(f"{name}2", strict=False)
    return numbers


def _nearest(axis: Axis, at: float) -> str:
    return min(axis.words, key=lambda word: abs(word[0] - at))[1]
