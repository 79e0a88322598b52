"""Charts for print: drawn by Vega-Lite, as PNG, SVG or PDF, without a browser."""

from __future__ import annotations

import io
import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import altair as alt
import polars as pl
import vl_convert

from whydrop.runtime import durable
from whydrop.show.charts.figure import Drawing, Figure, Layer
from whydrop.show.charts.theme import STYLES, Style
from whydrop.show.flattening import flattened
from whydrop.show.thinning import thin
from whydrop.show.vega import CONFIG, TITLE_CHARACTERS

WIDTH, HEIGHT = 900, 380
# A panel among others, as high where they stand beside each other as where they stand below.
_PANEL_HEIGHT = 250
_BETWEEN_PANELS = 70
FORMATS = ("png", "svg", "pdf")
# Spans and dots are wider than a pixel: two columns of pixels tell them apart as well as one would.
_ROWS_OF = 2
# So many marks have room beside each other at their full size.
_ROOMY = 300
_SEE_CHARACTERS = 150
# The width of a character of a panel's title.
_TITLE_PIXELS = 7

# Paths in a square from -1 to 1, as Vega takes them; the others are its own.
_SHAPES = {
    "dot": "circle",
    "ring": "circle",
    "cross": "M-1,-1L1,1M1,-1L-1,1",
    "triangle-up": "triangle-up",
    "triangle-down": "triangle-down",
    "square": "square",
    "diamond": "diamond",
}
_LINE = "M-1.2,0L1.2,0"
_DASHES = "M-1.2,0L-0.3,0M0.3,0L1.2,0"
_DOTS = "M-1.2,0L-0.9,0M-0.5,0L-0.2,0M0.2,0L0.5,0M0.9,0L1.2,0"
_SPAN = "M0,-1L0,1"


Several = TypeVar("Several", alt.VConcatChart, alt.ConcatChart)


def write_all(drawings: Iterable[Drawing], folder: Path, kind: str) -> list[Path]:
    """Write each chart as ``folder/KEY.kind``; return the paths."""
    if kind not in FORMATS:
        raise ValueError(f"no picture format {kind!r}; there are {', '.join(FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for drawing in drawings:
        path = folder / f"{drawing.key}.{kind}"
        save(drawing, path)
        written.append(path)
    return written


def save(drawing: Drawing, path: Path) -> None:
    """Write one chart, whole or not at all, in the format that the path's suffix names."""
    kind = path.suffix.removeprefix(".")
    if kind == "pdf":
        durable.write_bytes(path, _pdf(drawing))
        return
    options: dict[str, Any] = {"scale_factor": 2} if kind == "png" else {}
    chart = draw(drawing)
    durable.write_by(path, lambda temporary: chart.save(temporary, format=kind, **options))  # type: ignore[arg-type]


def _pdf(drawing: Drawing) -> bytes:
    svg = io.StringIO()
    draw(drawing).save(svg, format="svg")
    pdf: bytes = vl_convert.svg_to_pdf(flattened(svg.getvalue()))
    return pdf


def draw(drawing: Drawing) -> alt.VConcatChart:
    """The chart as an Altair chart, with its explanation below."""
    title = alt.TitleParams(
        textwrap.wrap(drawing.title, TITLE_CHARACTERS), subtitle=_shortened(drawing.flow), anchor="start"
    )
    # The title stands on the outer chart: on the inner one the legend would come above it.
    if isinstance(drawing, Figure):
        chart = _panel(drawing, WIDTH, HEIGHT, legend_columns=4).properties(title=_below(drawing.see))
        return alt.vconcat(chart, title=title).configure(**CONFIG)
    width = (WIDTH - _BETWEEN_PANELS * (drawing.columns - 1)) // drawing.columns
    titled = [_titled(panel, width, max(1, 4 // drawing.columns)) for panel in drawing.panels]
    grid = _apart(alt.concat(*titled, columns=drawing.columns, spacing=26, title=_below(drawing.see)))
    return _apart(alt.vconcat(grid, title=title)).configure(**CONFIG)


def _titled(panel: Figure, width: int, legend_columns: int) -> alt.VConcatChart:
    title = alt.TitleParams(
        textwrap.wrap(panel.title, width // _TITLE_PIXELS), anchor="start", fontSize=14, fontWeight=600, offset=6
    )
    return _apart(alt.vconcat(_panel(panel, width, _PANEL_HEIGHT, legend_columns), title=title))


def _apart(chart: Several) -> Several:
    """Keep the legends of charts that stand beside each other apart: Vega-Lite would make one of all."""
    return chart.resolve_scale(color="independent", shape="independent")


def _below(see: str) -> alt.TitleParams:
    return alt.TitleParams(
        textwrap.wrap(see, _SEE_CHARACTERS),
        orient="bottom",
        anchor="start",
        frame="group",
        fontWeight="normal",
        fontSize=13,
        color="#374151",
        offset=10,
        lineHeight=18,
    )


def _panel(figure: Figure, width: int, height: int, legend_columns: int) -> alt.Chart | alt.LayerChart | alt.FacetChart:
    """One pair of axes with its layers and its legend."""
    x_range = _ends(figure.x_range(), 0.01, figure.x_log)
    y_range = figure.y_span or _headroom(figure)
    x = alt.X("x:Q", title=figure.x_title, scale=_scale(x_range, figure.x_log))
    y = alt.Y("y:Q", title=figure.y_title or None, scale=_scale(y_range, figure.y_log), axis=_y_axis(figure))
    layers = [_legend(figure, x, y, legend_columns)]
    for layer in figure.layers:
        layers.append(_layer(thin(layer, figure, width, height // _ROWS_OF), x, y, x_range, y_range))
    return alt.layer(*layers).properties(width=width, height=height)


def _scale(ends: tuple[float, float], log: bool) -> alt.Scale:
    if log:
        return alt.Scale(type="log", domain=ends, nice=False)
    return alt.Scale(domain=ends, nice=False, zero=False)


def _y_axis(figure: Figure) -> alt.Axis:
    if figure.y_log:
        return alt.Axis(values=[10.0**power for power in range(12)], format=",d")
    if not figure.y_labels:
        return alt.Axis()
    words = " : ".join(f"datum.value == {place} ? {json.dumps(label)}" for place, label in figure.y_labels)
    return alt.Axis(values=[place for place, _ in figure.y_labels], labelExpr=f"{words} : ''")


def _legend(figure: Figure, x: alt.X, y: alt.Y, columns: int) -> alt.Chart:
    """An unseen layer that alone feeds the legend, so that every entry shows its colour and its shape together."""
    layers = figure.by_importance()
    names = [layer.name for layer in layers]
    colours = alt.Scale(domain=names, range=[STYLES[layer.style].light for layer in layers])
    shapes = alt.Scale(domain=names, range=[_legend_shape(layer) for layer in layers])
    data = alt.InlineData(values=[{"name": name, "x": None, "y": None} for name in names])
    look = alt.Legend(symbolStrokeWidth=2, symbolOpacity=1, columns=columns)
    return (
        alt.Chart(data)
        .mark_point(filled=False)
        .encode(
            x=x,
            y=y,
            color=alt.Color("name:N", scale=colours, sort=names, legend=look),
            shape=alt.Shape("name:N", scale=shapes, sort=names),
        )
    )


def _legend_shape(layer: Layer) -> str:
    if layer.mark in ("line", "step", "rule", "slants"):
        dash = STYLES[layer.style].dash
        return _LINE if not dash else _DOTS if dash[0] <= 3 else _DASHES
    if layer.mark == "spans":
        return _SPAN
    return _SHAPES[STYLES[layer.style].shape]


def _layer(layer: Layer, x: alt.X, y: alt.Y, x_range: tuple[float, float], y_range: tuple[float, float]) -> alt.Chart:
    style = STYLES[layer.style]
    data = layer.data
    if layer.mark == "rule":
        ends = pl.DataFrame({"x": [x_range[0]], "x2": [x_range[1]]})
        data = data.join(ends, how="cross")
    chart = alt.Chart(alt.InlineData(values=data.to_dicts()))
    if layer.mark == "points":
        return _points(chart, style, layer.rare, _crowding(layer)).encode(x=x, y=y)
    line: dict[str, Any] = {"color": style.light, "strokeWidth": style.width, "opacity": style.opacity, "clip": True}
    if style.dash:
        line["strokeDash"] = list(style.dash)
    match layer.mark:
        case "line":
            # Pointed joins of a dense line would stick out as spikes that are not in the data.
            return chart.mark_line(strokeJoin="round", **line).encode(x=x, y=y)
        case "step":
            return chart.mark_line(interpolate="step-after", **line).encode(x=x, y=y)
        case "spans":
            # Round ends keep a packet visible where its length is less than a pixel.
            return chart.mark_rule(
                **{**line, "strokeWidth": style.width * 1.5}, strokeCap="butt" if style.dash else "round"
            ).encode(x=x, y=y, y2="y2:Q")
        case "slants":
            return chart.mark_rule(**line).encode(x=x, x2="x2:Q", y=y, y2="y2:Q")
        case "rule":
            return chart.mark_rule(**line).encode(x=x, x2="x2:Q", y=y)
        case _:
            # A rect from the base line: a bar between x and x2 would be horizontal to Vega-Lite.
            return chart.mark_rect(color=style.light, opacity=style.opacity, stroke="white", clip=True).encode(
                x=x, x2="x2:Q", y=y, y2=alt.datum(max(0.0, y_range[0]))
            )


def _crowding(layer: Layer) -> float:
    """The factor by which marks are smaller where there are many, down to half: a thousand crosses hide all else."""
    return max(0.5, min(1.0, (_ROOMY / max(1, layer.data.height)) ** 0.5)) if layer.rare else 1.0


def _points(chart: alt.Chart, style: Style, rare: bool, crowding: float) -> alt.Chart:
    area = (style.size * crowding) ** 2 * (1.0 if style.shape != "dot" else 1.6)
    hollow = style.shape in ("ring", "cross")
    return chart.mark_point(
        shape=_SHAPES[style.shape],
        size=area,
        filled=not hollow,
        color=style.light,
        strokeWidth=style.width * crowding if hollow else 0,
        opacity=style.opacity if rare else 0.6,
        # A cross on the base line must be seen whole.
        clip=not rare,
    )


def _padded(ends: tuple[float, float], share: float) -> tuple[float, float]:
    low, high = ends
    return low - (high - low) * share, high + (high - low) * share


def _ends(ends: tuple[float, float], share: float, log: bool) -> tuple[float, float]:
    """A little room at both ends of an axis."""
    low, high = ends
    return (low / 1.05, high * 1.05) if log and low > 0 else _padded(ends, share)


def _headroom(figure: Figure) -> tuple[float, float]:
    low, high = figure.y_range()
    padded = _padded((low, high), 0.05)
    return (0.0 if figure.y_from_zero and low >= 0 else padded[0]), padded[1]


def _shortened(name: str, longest: int = 110) -> str:
    """A flow's name with its middle left out where it is too long for the picture."""
    if len(name) <= longest:
        return name
    half = (longest - 1) // 2
    return f"{name[:half]}…{name[-half:]}"
