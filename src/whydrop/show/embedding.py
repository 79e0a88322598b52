"""Figures for the script of a page: thinned to a budget, columns packed as base64 in JSON, or as bytes behind it.

A layer that fits is embedded whole, so that zooming in shows every mark. Where all layers together exceed the budget,
the larger ones are thinned to a finer resolution than any screen has; rare events are never thinned. A page with a
server behind it is given fewer points, and those of a window when its reader zooms.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from whydrop.show import ticks
from whydrop.show.document import Choice
from whydrop.show.figure import Axis, Ends, Figure, Layer, Panel, ordered
from whydrop.show.layout import laid_out, listed
from whydrop.show.levels import Levels
from whydrop.show.theme import Style
from whydrop.show.thinning import thin

# At 8 to 16 bytes a point and 4/3 for base64, below 4 MB beside the library and the tables.
BUDGET_POINTS = 330_000
# Below this many columns a zoom of 2x would already show gaps.
_COARSEST, _FINEST = 1_000, 64_000
_MICROSECONDS_IN_INT32 = 2_147.0

_FORMATS = {"f8": "<f8", "f4": "<f4", "us": "<i4"}

# Puts the bytes of a column somewhere, and says where.
Put = Callable[[bytes], dict[str, Any]]


def data(parts: Mapping[str, Sequence[Choice]], *, exact: bool = True, legend: bool = True) -> dict[str, Any]:
    """The data that the page's script draws, as JSON values.

    Args:
        parts: by the identifier of the section of the page in which they are shown.
        exact: keep every digit of y; of millions of packets a tenth of a millionth is enough.
        legend: whether there are legends.
    """
    printable = {part: list(map(_printable, choices)) for part, choices in parts.items()}
    thinned = _thinned([one for choices in printable.values() for choice in choices for one in choice.figures])
    return _data(printable, _Packing(thinned, exact, legend, _in_text))


def binary(part: str, choice: Choice, columns: int, window: Ends | None = None, levels: Levels | None = None) -> bytes:
    """Figures as bytes: the length of a JSON document (32 bits, little endian), the document, and its columns.

    The document is that of :func:`data`, but a column has its place ``at`` behind the document, in bytes from its end
    on, and its number of bytes. Both are aligned to 8 bytes.

    Args:
        part: the section of the page.
        choice: its figures.
        columns: the resolution of a panel over its axis, or over the window.
        window: seconds of time: panels over time have only what lies in it.
        levels: coarse copies of the layers, where figures are asked for again and again.
    """
    figures = [one.printable() for one in choice.figures]
    drawn = figures if levels is None else [levels.coarse(one, columns, window) for one in figures]
    if window is not None:
        figures = drawn = [within(one, window) for one in drawn]
    thinned = {
        id(panel): _thin(panel, columns, own.layers)
        for figure, coarse in zip(figures, drawn, strict=True)
        for panel, own in zip(figure.panels, coarse.panels, strict=True)
    }
    blocks: list[bytes] = []
    size = 0

    def put(content: bytes) -> dict[str, Any]:
        nonlocal size
        found = {"at": size, "length": len(content)}
        padded = content + bytes(-len(content) % 8)
        blocks.append(padded)
        size += len(padded)
        return found

    made = _data({part: [replace(choice, figures=figures)]}, _Packing(thinned, True, True, put))
    head = json.dumps(made, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    head += b" " * (-(len(head) + 4) % 8)
    return b"".join((struct.pack("<I", len(head)), head, *blocks))


def _printable(choice: Choice) -> Choice:
    return replace(choice, figures=[one.printable() for one in choice.figures])


def _data(parts: Mapping[str, Sequence[Choice]], packing: _Packing) -> dict[str, Any]:
    made = {
        part: [
            {
                "name": choice.name,
                "focus": choice.focus,
                "origin": choice.origin_s,
                "cells": choice.cells,
                "figures": list(map(packing.figure, choice.figures)),
            }
            for choice in choices
        ]
        for part, choices in parts.items()
    }
    return {"styles": [{**asdict(style), "hollow": style.hollow} for style in packing.styles], "parts": made}


def within(figure: Figure, window: Ends) -> Figure:
    """A figure with only a window of time, in seconds, in its panels over time."""
    return replace(figure, panels=tuple(_within(panel, window) for panel in figure.panels))


def _within(panel: Panel, window: Ends) -> Panel:
    """A panel over time with only the rows of a window, and one more at each side for the lines."""
    if panel.zoom != "time":
        return panel
    layers = tuple(replace(layer, data=_rows_within(layer, window)) for layer in panel.layers)
    return replace(panel, x=replace(panel.x, ends=window), layers=layers)


def _rows_within(layer: Layer, window: Ends) -> pl.DataFrame:
    rows = layer.data
    if "x" not in rows.columns or layer.mark in ("outline", "rule"):
        return rows
    low, high = window
    last = "x2" if "x2" in rows.columns else "x"
    seen = rows.select((pl.col("x") <= high) & (pl.col(last) >= low)).to_series().to_numpy()
    if layer.mark in ("line", "step", "band"):
        seen = seen | np.append(seen[1:], False) | np.append(False, seen[:-1])
    return rows.filter(pl.Series(seen))


def script(values: Mapping[str, Any]) -> str:
    """The element of a page that holds the values; nothing in them can end it."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # "<" could end the script element, also inside a JSON string.
    harmless = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="chart-data">{harmless}</script>'


def _thinned(figures: Sequence[Figure]) -> dict[int, list[Layer]]:
    """The layers of each panel, by its identity: as fine as keeps all to the budget.

    The panel with the most points is thinned first, so that one noisy cloud does not coarsen all the others.
    """
    panels = {id(panel): panel for figure in figures for panel in figure.panels}
    columns = dict.fromkeys(panels, _FINEST)
    layers = {key: _thin(panel, _FINEST) for key, panel in panels.items()}
    points = {key: _points(of) for key, of in layers.items()}
    while sum(points.values()) > BUDGET_POINTS:
        finer = [key for key in panels if columns[key] > _COARSEST]
        if not finer:
            break
        largest = max(finer, key=lambda key: points[key])
        columns[largest] //= 2
        # Columns of half the number hold two each of those before: what is thinned already loses nothing more.
        layers[largest] = _thin(panels[largest], columns[largest], layers[largest])
        points[largest] = _points(layers[largest])
    return layers


def _points(layers: Sequence[Layer]) -> int:
    """The cost of layers in the budget; slants cost three times as much as points, for two ends and exact times."""
    return sum(layer.data.height * (3 if layer.mark == "slants" else 1) for layer in layers)


def _thin(panel: Panel, columns: int, layers: Sequence[Layer] | None = None) -> list[Layer]:
    return [
        thin(layer, panel, columns, max(400, columns // 4)) for layer in (panel.layers if layers is None else layers)
    ]


@dataclass(frozen=True)
class _Packing:
    """Figures that become JSON: their thinned layers, by the identity of the panel, and the styles met so far."""

    thinned: Mapping[int, Sequence[Layer]]
    exact: bool
    legend: bool
    put: Put
    styles: dict[Style, int] = field(default_factory=dict)

    def figure(self, figure: Figure) -> dict[str, Any]:
        layout = laid_out(figure)
        names = [[layer.name for layer in listed(figure, number)] for number in range(len(figure.panels))]
        return {
            "key": figure.key,
            "title": figure.title,
            "subtitle": figure.subtitle,
            "see": figure.see,
            "notes": figure.footnotes(),
            "columns": layout.columns,
            "legend": names[0] if figure.one_legend and self.legend else None,
            "panels": [
                {**self._panel(panel), "legend": own if self.legend and not figure.one_legend else [], "height": height}
                for panel, own, height in zip(figure.panels, names, layout.heights, strict=True)
            ],
        }

    def _panel(self, panel: Panel) -> dict[str, Any]:
        left = dict(zip(map(id, panel.layers), self.thinned[id(panel)], strict=True))
        return {
            "title": panel.title,
            "zoom": panel.zoom,
            "x": _axis(panel.x, panel.x_ends()),
            "y": _axis(panel.y, panel.y_ends()),
            "legendTitle": panel.legend if self.legend else "",
            "layers": [self._layer(layer, left[id(layer)].data) for layer in ordered(panel.layers)],
        }

    def _layer(self, layer: Layer, rows: pl.DataFrame) -> dict[str, Any]:
        if "x" in rows.columns and layer.mark not in ("line", "outline", "step", "band"):
            # The script finds what is seen by its place; lines are in order, and a closed one must stay as it is.
            rows = rows.sort("x", maintain_order=True)
        # The length of a slant may be a few microseconds of many seconds.
        exactly = self.exact or layer.mark == "slants"
        columns = [name for name in ("x", "y", "x2", "y2") if name in rows.columns]
        return {
            "name": layer.name,
            "style": self.styles.setdefault(layer.style, len(self.styles)),
            "mark": layer.mark,
            "rare": layer.rare,
            "helper": layer.helper,
            # How many events there are says something; how many means or boxes does not.
            "counted": layer.rare and not layer.of,
            "stretch": layer.stretch,
            "rows": layer.data.height,
            "shown": rows.height,
            **({"text": rows["text"].to_list()} if "text" in rows.columns else {}),
            **{name: self._column(rows[name], exactly) for name in columns},
        }

    def _column(self, column: pl.Series, exactly: bool) -> dict[str, Any]:
        """A column: whole microseconds for x where they fit 32 bits, 32-bit floats for y; else 64-bit floats.

        What is missing, as where a line breaks, is not a number.
        """
        values = column.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        kind = "f8"
        if not exactly and not column.name.startswith("x"):
            kind = "f4"
        elif not exactly and np.abs(values).max(initial=0.0) < _MICROSECONDS_IN_INT32:
            kind, values = "us", np.rint(values * 1e6)
        return {"kind": kind, **self.put(values.astype(_FORMATS[kind]).tobytes())}


def _axis(axis: Axis, ends: Ends) -> dict[str, Any]:
    return {
        "title": ticks.label(axis),
        "scale": axis.scale,
        "ends": ends,
        "fixed": axis.ends is not None,
        "fromZero": axis.from_zero,
        "words": axis.words,
        "zeros": axis.zeros,
    }


def _in_text(content: bytes) -> dict[str, Any]:
    return {"data": base64.b64encode(content).decode("ascii")}
