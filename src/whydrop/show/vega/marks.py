"""The marks of one layer, as Vega-Lite has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop.show.figure import Layer, Panel
from whydrop.show.theme import Style
from whydrop.show.thinning import thin
from whydrop.show.vega.clipping import within

Spec = dict[str, Any]

# Paths in a square from -1 to 1, as Vega takes them; the others are its own.
_SHAPES = {"dot": "circle", "ring": "circle", "cross": "M-1,-1L1,1M1,-1L-1,1", "plus": "cross"}
_SPAN = "M0,-1L0,1"
# Half of a line in a legend, in the unit of these paths, and in pixels.
_HALF_LINE, _HALF_PIXELS = 1.3, 6.8

# Spans and dots are wider than a pixel: two columns of pixels distinguish them as well as one would.
_ROWS_OF = 2
# Lines cross within a column of pixels: two for each keep their corners. A dot covers two columns.
_COLUMNS_OF = {"line": 2.0, "step": 2.0, "band": 2.0, "points": 0.5}
# So many rare marks have room beside each other at their full size.
_ROOMY = 300
# In panels narrower than this the dots of clouds are smaller.
_FULL_SIZE_FROM = 260
# Bars as wide as this are separated from their neighbours by a thin line.
_WIDE_BAR = 5.0


class Datasets(dict[str, list[dict[str, Any]]]):
    """Rows by name, which stand once in a specification."""

    def named(self, data: pl.DataFrame) -> Spec:
        """A layer's reference to its rows."""
        name = f"rows-{len(self)}"
        self[name] = data.to_dicts()
        return {"name": name}


@dataclass(frozen=True)
class Place:
    """Where marks are drawn: a panel, the encodings of its axes, its size in pixels, and where rows go."""

    panel: Panel
    x: Spec
    y: Spec
    width: int
    height: int
    datasets: Datasets


def drawn(layer: Layer, place: Place) -> Spec:
    """A layer's marks."""
    columns = round(place.width * _COLUMNS_OF.get(layer.mark, 1))
    data = thin(layer, place.panel, columns, place.height // _ROWS_OF).data
    data, mark, clipped = within(data, layer.mark, place.panel)
    names = [name for name in ("x", "y", "x2", "y2", "text") if name in data.columns]
    encoding: Spec = {name: getattr(place, name) for name in ("x", "y") if name in names}
    encoding |= {name: {"field": name} for name in ("x2", "y2") if name in names}
    data = data.select(names)
    if mark == "outline":
        data, encoding["order"] = data.with_row_index("order"), {"field": "order", "type": "quantitative"}
    if mark == "text":
        encoding["text"] = {"field": "text", "type": "nominal"}
    look = {"aria": False, **({"clip": True} if clipped else {}), **_mark(layer, mark, place)}
    return {"data": place.datasets.named(data), "mark": look, "encoding": encoding}


def _mark(layer: Layer, mark: str, place: Place) -> Spec:
    style = layer.style
    line: Spec = {"color": style.light, "strokeWidth": style.width, **_opacity("stroke", style.opacity)}
    line |= {"strokeDash": list(style.dash)} if style.dash else {}
    match mark:
        case "points":
            return _points(layer, place)
        case "line" | "outline":
            # Pointed joins of a dense line would stick out as spikes that are not in the data. Where there is a corner
            # for each pixel no one sees that they are round, which costs as much as the rest of the line.
            dense = layer.data.height > place.width
            return {"type": "line", "strokeJoin": "bevel" if dense else "round", **line}
        case "step":
            return {"type": "line", "interpolate": "step-after", **line}
        case "spans" | "slants":
            # Round ends keep a packet visible where its length is less than a pixel.
            upright = mark == "spans" and not style.dash
            return {"type": "rule", **line, "strokeCap": "round" if upright else "butt"}
        case "bars":
            edge = {"stroke": "white", "strokeWidth": 0.7} if _wide(layer, place) else {}
            return {"type": "rect", "color": style.light, **_opacity("fill", style.opacity), **edge}
        case "band":
            return {"type": "area", "color": style.light, **_opacity("fill", style.opacity)}
        case "text":
            return {"type": "text", "fontSize": 12, "align": "center", "color": style.light}
        case _:
            return {"type": "rule", **line}


def _points(layer: Layer, place: Place) -> Spec:
    """Points; many rare ones are smaller, down to half, as a thousand crosses would hide all else."""
    style = layer.style
    scale = max(0.5, min(1.0, (_ROOMY / max(1, layer.data.height)) ** 0.5)) if layer.rare else 1.0
    narrow = 1.0 if layer.rare else min(1.0, max(0.4, place.width / _FULL_SIZE_FROM))
    area = (style.size * scale) ** 2 * (1.6 if style.shape == "dot" else 1.0) * narrow
    return {
        "type": "point",
        "shape": _SHAPES.get(style.shape, style.shape),
        "size": area,
        "filled": not style.hollow,
        "color": style.light,
        "strokeWidth": style.width * scale if style.hollow else 0,
        **_opacity("stroke" if style.hollow else "fill", style.opacity),
    }


def _opacity(of: str, opacity: float) -> Spec:
    """Not the opacity of the whole mark: that is a group of its own, in PDF 700 bytes, in PNG a picture to lay over."""
    return {"opacity": 1, f"{of}Opacity": opacity}


def _wide(layer: Layer, place: Place) -> bool:
    low, high = place.panel.x_ends()
    if place.panel.x.scale == "log" or not layer.data.height:
        return layer.data.height < place.width / _WIDE_BAR
    narrowest = (layer.data["x2"] - layer.data["x"]).abs().min()
    return isinstance(narrowest, float) and narrowest / (high - low) * place.width >= _WIDE_BAR


def symbol(layer: Layer) -> str:
    """The shape by which a legend shows a layer."""
    match layer.mark:
        case "line" | "outline" | "step" | "rule" | "slants":
            return _dashes(layer.style)
        case "spans":
            return _SPAN
        case "bars" | "band":
            return "square"
        case _:
            return _SHAPES.get(layer.style.shape, layer.style.shape)


def _dashes(style: Style) -> str:
    """A piece of a line with its dashes, as a path.

    >>> _dashes(Style("black", "white", dash=(6, 6)))
    'M-1.30,0L-0.15,0M0.99,0L1.30,0'
    """
    pixels = _HALF_LINE / _HALF_PIXELS
    at, path = -_HALF_LINE, ""
    lengths = [length * pixels for length in style.dash] or [2 * _HALF_LINE, 1.0]
    for number in range(100):
        if at >= _HALF_LINE:
            break
        end = min(at + lengths[number % len(lengths)], _HALF_LINE)
        path += f"M{at:.2f},0L{end:.2f},0" if number % 2 == 0 else ""
        at = end
    return path
