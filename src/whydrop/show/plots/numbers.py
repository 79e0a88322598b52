"""The numbers of a plot: everything that its figure shows, before it was thinned for the pixels."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import polars as pl

from whydrop.show.figure import Figure, Layer, Panel
from whydrop.show.plots.traces import LeftOut


def frame(figure: Figure) -> pl.DataFrame:
    """One row a mark. Columns: panel, recording, series, units, mark, then its places and numbers."""
    rows = list(_rows(figure))
    return pl.DataFrame(rows, infer_schema_length=None) if rows else pl.DataFrame()


def csv_text(figure: Figure) -> str:
    """The rows of :func:`frame` as CSV."""
    text = io.StringIO()
    found = frame(figure)
    if found.width:
        found.write_csv(text)
    return text.getvalue()


def json_text(figure: Figure) -> str:
    """A document: the words of the figure, what is left out, and each trace with its columns."""
    assert isinstance(figure.left_out, LeftOut)
    document = {
        "plot": figure.key,
        "title": figure.title,
        "subtitle": figure.subtitle,
        "notes": figure.footnotes(),
        "left_out": {**asdict(figure.left_out), "share": figure.left_out.share},
        "panels": [
            {
                "title": panel.title,
                "x": panel.x.title,
                "y": panel.y.title,
                "x_categories": [word for _, word in panel.x.words],
                "y_categories": [word for _, word in panel.y.words],
                "traces": [_trace(layer) for layer in _exported(panel)],
            }
            for panel in figure.panels
        ],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _exported(panel: Panel) -> list[Layer]:
    return [layer for layer in panel.layers if not layer.helper]


def _numbers(layer: Layer) -> pl.DataFrame:
    return layer.data if layer.numbers is None else layer.numbers


def _trace(layer: Layer) -> dict[str, Any]:
    return {
        **layer.of,
        "columns": {
            name: [None if isinstance(value, float) and value != value else value for value in column]
            for name, column in _numbers(layer).to_dict(as_series=False).items()
        },
    }


def _rows(figure: Figure) -> Iterator[dict[str, Any]]:
    for number, panel in enumerate(figure.panels, start=1):
        for layer in _exported(panel):
            head = {"panel": panel.title or number, **layer.of}
            for row in _numbers(layer).iter_rows(named=True):
                yield {**head, **_in_words(row, panel)}


def _in_words(row: dict[str, Any], panel: Panel) -> dict[str, Any]:
    """A row; places on an axis of categories mean nothing outside the picture: the category itself does."""
    found = {}
    for name, value in row.items():
        categories = {"x": panel.x.words, "y": panel.y.words}.get(name[0], ()) if name in ("x", "y", "x2", "y2") else ()
        if categories and name in ("x", "y") and isinstance(value, (int, float)):
            found[name] = min(categories, key=lambda word: abs(word[0] - value))[1]
        elif not (categories and name in ("x2", "y2")):
            found[name] = value
    return found
