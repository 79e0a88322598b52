"""Figures as JSON for the page's script: thinned to a budget, columns packed as base64.

A layer that fits is embedded whole, so that zooming in shows every mark. Where all layers together exceed the budget,
the larger ones are thinned to a finer resolution than any screen has; rare events are never thinned.
"""

from __future__ import annotations

import base64
import json
import sys
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from whydrop.show import ticks
from whydrop.show.document import Choice
from whydrop.show.figure import Axis, Ends, Figure, Layer, Panel, ordered
from whydrop.show.layout import laid_out, listed
from whydrop.show.theme import Style
from whydrop.show.thinning import thin

# At 8 to 16 bytes a point and 4/3 for base64, below 4 MB beside the library and the tables.
BUDGET_POINTS = 330_000
# Below this many columns a zoom of 2x would already show gaps.
_COARSEST, _FINEST = 1_000, 64_000
_MICROSECONDS_IN_INT32 = 2_147.0


def data(parts: Mapping[str, Sequence[Choice]], *, exact: bool = True, legend: bool = True) -> dict[str, Any]:
    """The data that the page's script draws, as JSON values.

    Args:
        parts: by the identifier of the section of the page in which they are shown.
        exact: keep every digit of y; of millions of packets a tenth of a millionth is enough.
        legend: whether there are legends.
    """
    printable = {
        part: [Choice([one.printable() for one in choice.figures], choice.name, choice.focus) for choice in choices]
        for part, choices in parts.items()
    }
    thinned = _thinned([one for choices in printable.values() for choice in choices for one in choice.figures])
    packing = _Packing(thinned, exact, legend)
    made = {
        part: [
            {"name": choice.name, "focus": choice.focus, "figures": list(map(packing.figure, choice.figures))}
            for choice in choices
        ]
        for part, choices in printable.items()
    }
    return {"styles": [{**asdict(style), "hollow": style.hollow} for style in packing.styles], "parts": made}


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
            **{name: _packed(rows[name], exactly) for name in columns},
        }


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


def _packed(column: pl.Series, exactly: bool) -> dict[str, Any]:
    """A column as base64: whole microseconds for x where they fit 32 bits, 32-bit floats for y; else 64-bit floats.

    What is missing, as where a line breaks, is not a number.
    """
    values = column.cast(pl.Float64).fill_null(float("nan")).to_list()
    if exactly:
        return _encoded("f8", array("d", values))
    if not column.name.startswith("x"):
        return _encoded("f4", array("f", values))
    furthest = max((abs(value) for value in values), default=0.0)
    if furthest < _MICROSECONDS_IN_INT32:
        return _encoded("us", array("i", [round(value * 1e6) for value in values]))
    return _encoded("f8", array("d", values))


def _encoded(kind: str, values: array[Any]) -> dict[str, Any]:
    if sys.byteorder == "big":
        values.byteswap()
    return {"kind": kind, "data": base64.b64encode(values.tobytes()).decode("ascii")}
