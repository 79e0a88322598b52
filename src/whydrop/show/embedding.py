"""Chart data for the page: figures of the top flows, thinned to a budget, columns packed as base64.

A layer that fits is embedded whole, so that zooming in shows every packet. Where all layers together exceed the budget,
the larger ones are thinned to a finer resolution than any screen has; rare events are never thinned.
"""

from __future__ import annotations

import base64
import sys
from array import array
from dataclasses import asdict
from typing import Any

import polars as pl

from whydrop.explaining.explained import Explained
from whydrop.show import charts
from whydrop.show.charts import close_up
from whydrop.show.charts.figure import Drawing, Figure, Grid, Layer, Scene, panels
from whydrop.show.charts.pair_scene import PairScene, lost
from whydrop.show.charts.theme import STYLES
from whydrop.show.thinning import thin

MOST_FLOWS = 5
# At 8 bytes a point and 4/3 for base64, below 4 MB beside the library and the tables.
BUDGET_POINTS = 330_000
# Below this many columns a zoom of 2x would already show gaps.
_COARSEST, _FINEST = 1_000, 64_000
_MICROSECONDS_IN_INT32 = 2_147.0


def charts_of(found: Explained, flow: str | None) -> list[tuple[int, list[Drawing]]]:
    """The flows to offer, the first shown first, each with its figures; those that show nothing are left out."""
    first = charts.choose_flow(found, flow)
    numbers = [first, *(number for number in charts.by_losses(found) if number != first)][:MOST_FLOWS]
    offered = []
    for number in numbers:
        # The page zooms, so it needs no close-ups of its own.
        drawings = [drawing for drawing in charts.flow_figures(found, number) if not drawing.key.endswith("close-up")]
        if drawings:
            offered.append((number, drawings))
    return offered


def charts_json(found: Explained, flow: str | None) -> dict[str, Any]:
    """What the page's script draws, as JSON values."""
    offered = charts_of(found, flow)
    path = charts.path_figures(found, charts.choose_flow(found, flow))
    embedded = _thinned([*path, *(drawing for _, drawings in offered for drawing in drawings)])
    return {
        "styles": {name: asdict(style) for name, style in STYLES.items()},
        "flows": [
            {
                "name": found.flows[number].flow,
                "lost": found.flows[number].lost,
                "focus": _focus(found, number),
                "figures": _figures(drawings, embedded),
            }
            for number, drawings in offered
        ],
        # What is of all packets between two captures; none where there is one.
        "path": {"focus": _path_focus(found), "figures": _figures(path, embedded)} if path else None,
    }


def _focus(found: Explained, number: int) -> list[float] | None:
    window = close_up.heaviest(Scene.of(found, number))
    return None if window is None else list(window)


def _path_focus(found: Explained) -> list[float] | None:
    scene = PairScene.of(found, charts.choose_flow(found))
    window = close_up.window_of(scene.rows, lost(scene.rows)["t"], None)
    return None if window is None else list(window)


def _thinned(drawings: list[Drawing]) -> dict[int, list[Layer]]:
    """The layers of each figure, by its identity: as fine as keeps all to the budget.

    The figure with the most points gives way first, so that one noisy cloud does not coarsen all the others.
    """
    figures = {id(figure): figure for drawing in drawings for figure in panels(drawing)}
    columns = dict.fromkeys(figures, _FINEST)
    layers = {key: _thin(figure, _FINEST) for key, figure in figures.items()}
    points = {key: _points(of) for key, of in layers.items()}
    while sum(points.values()) > BUDGET_POINTS:
        finer = [key for key in figures if columns[key] > _COARSEST]
        if not finer:
            break
        largest = max(finer, key=lambda key: points[key])
        columns[largest] //= 2
        layers[largest] = _thin(figures[largest], columns[largest])
        points[largest] = _points(layers[largest])
    return layers


def _points(layers: list[Layer]) -> int:
    """What layers take of the budget; slants three times as much as points, for two ends and exact times."""
    return sum(layer.data.height * (3 if layer.mark == "slants" else 1) for layer in layers)


def _thin(figure: Figure, columns: int) -> list[Layer]:
    return [thin(layer, figure, columns, max(400, columns // 4)) for layer in figure.layers]


def _figures(drawings: list[Drawing], embedded: dict[int, list[Layer]]) -> list[dict[str, Any]]:
    """Every pair of axes, those of one chart after each other with the same ``group``."""
    return [
        _figure(figure, embedded[id(figure)]) | {"group": _group(drawing)}
        for drawing in drawings
        for figure in panels(drawing)
    ]


def _group(drawing: Drawing) -> dict[str, Any] | None:
    if not isinstance(drawing, Grid):
        return None
    return {"key": drawing.key, "title": drawing.title, "see": drawing.see, "columns": drawing.columns}


def _figure(figure: Figure, thinned: list[Layer]) -> dict[str, Any]:
    return {
        "key": figure.key,
        "title": figure.title,
        "see": figure.see,
        "xTitle": figure.x_title,
        "yTitle": figure.y_title,
        "overTime": figure.over_time,
        "fromZero": figure.y_from_zero,
        "xLog": figure.x_log,
        "yLog": figure.y_log,
        "ySpan": figure.y_span,
        "yLabels": figure.y_labels,
        "xRange": list(figure.x_range()),
        "legend": [figure.layers.index(layer) for layer in figure.by_importance()],
        "layers": [_layer(layer, left) for layer, left in zip(figure.layers, thinned, strict=True)],
    }


def _layer(whole: Layer, thinned: Layer) -> dict[str, Any]:
    # The length of a slant may be a few microseconds of many seconds.
    exact = whole.mark == "slants"
    packed: dict[str, Any] = {name: _packed(thinned.data[name], exact) for name in thinned.data.columns}
    return {
        "name": whole.name,
        "style": whole.style,
        "mark": whole.mark,
        "rare": whole.rare,
        "stretch": whole.stretch,
        "rows": whole.data.height,
        "shown": thinned.data.height,
        **packed,
    }


def _packed(column: pl.Series, exact: bool) -> dict[str, Any]:
    """A column as base64: whole microseconds for x where they fit 32 bits, else 64-bit floats; 32-bit floats for y."""
    values = column.to_list()
    if not column.name.startswith("x"):
        return _encoded("f4", array("f", values))
    furthest = max((abs(value) for value in values), default=0.0)
    if furthest < _MICROSECONDS_IN_INT32 and not exact:
        return _encoded("us", array("i", [round(value * 1e6) for value in values]))
    return _encoded("f8", array("d", values))


def _encoded(kind: str, values: array[Any]) -> dict[str, Any]:
    if sys.byteorder == "big":
        values.byteswap()
    return {"kind": kind, "data": base64.b64encode(values.tobytes()).decode("ascii")}
