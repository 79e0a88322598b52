"""Pictures drawn by Vega-Lite: PNG, SVG, PDF without a browser, HTML as one page that needs no network."""

from __future__ import annotations

import io
import json
import re
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import vl_convert

from whydrop.runtime import durable
from whydrop.show.charts.theme import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, VERMILLION
from whydrop.show.extremes import extremes
from whydrop.show.flattening import flattened
from whydrop.show.plots import labels, picture
from whydrop.show.plots.page import page
from whydrop.show.plots.picture import Panel, Picture, Trace
from whydrop.show.vega import CONFIG, LETTER_PIXELS, TITLE_CHARACTERS, legend_columns

FORMATS = ("png", "svg", "pdf", "html")

WIDTH = 900
# The height of one panel by how many are below each other.
_HEIGHTS = {1: 380, 2: 270, 3: 210}
_LEAST_HEIGHT = 160
_ROW_HEIGHT, _LEAST_ROWS = 26, 70
_BETWEEN = 60
_NOTE_CHARACTERS = 145
# More points than this in one mark are thinned to what the pixels can show.
_PIXELS_PER_POINT = 1

# Okabe and Ito without the yellow, which is too pale for lines on white. Vermillion is last: it is what is lost.
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, "#6b7280", VERMILLION)
_DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2), (9, 3, 2, 3), (12, 4))
_LINES = ("M-1.3,0L1.3,0", "M-1.3,0L-0.3,0M0.3,0L1.3,0", "M-1.2,0L-0.9,0M-0.5,0L-0.2,0M0.2,0L0.5,0M0.9,0L1.2,0")
_EVENTS = ("triangle-up", "triangle-down", "M-1,-1L1,1M1,-1L-1,1")
_WIDTHS = {"pale": 1.0, "normal": 1.4, "heavy": 2.6}
_OPACITIES = {"pale": 0.35, "normal": 0.9, "heavy": 1.0}


def write(drawn: Picture, path: Path, kind: str, *, legend: bool = True, size: tuple[int, int] | None = None) -> None:
    """Write a picture, whole or not at all; ``size`` is of the whole, in pixels (a PNG has twice as many each way)."""
    # Control characters would end the writer of SVG, and this process with it.
    drawn = picture.printable(drawn)
    width, heights = WIDTH, _heights(drawn, None)
    if size is not None:
        width, heights = _fitted(drawn, legend, size)
    with warnings.catch_warnings():
        # Panels over time share one selection, so that they are zoomed together: that is meant.
        warnings.filterwarnings("ignore", message="Automatically deduplicated selection parameter")
        chart = draw(drawn, width, heights, legend=legend, interactive=kind == "html")
    durable.write_bytes(path, _content(chart, kind, drawn.title or drawn.key))


def _content(chart: alt.VConcatChart, kind: str, title: str) -> bytes:
    if kind == "html":
        return page(chart, title).encode()
    if kind == "svg":
        return _svg(chart).encode()
    if kind == "pdf":
        pdf: bytes = vl_convert.svg_to_pdf(flattened(_svg(chart)))
        return pdf
    png = io.BytesIO()
    chart.save(png, format="png", scale_factor=2)
    return png.getvalue()


def draw(
    drawn: Picture, width: int, heights: Sequence[int], *, legend: bool = True, interactive: bool = False
) -> alt.VConcatChart:
    """The picture as an Altair chart, its footnotes below."""
    columns = min(drawn.columns, len(drawn.panels))
    each = (width - _BETWEEN * (columns - 1)) // columns
    panels = [
        _titled(panel, each, height, legend, _zoom(panel, number) if interactive else "")
        for number, (panel, height) in enumerate(zip(drawn.panels, heights, strict=True))
    ]
    grid = alt.concat(*panels, columns=columns, spacing=14, title=_footnotes(drawn, width))
    grid = grid.resolve_scale(color="independent", shape="independent")
    title = alt.TitleParams(
        textwrap.wrap(drawn.title, int(TITLE_CHARACTERS * width / WIDTH)) or [""],
        subtitle=textwrap.wrap(drawn.subtitle, int(_NOTE_CHARACTERS * width / WIDTH)),
        anchor="start",
    )
    whole = alt.vconcat(grid, title=title).resolve_scale(color="independent", shape="independent")
    return whole.configure(**CONFIG)


def _zoom(panel: Panel, number: int) -> str:
    """The name of what is zoomed together: all panels over time; others each by itself."""
    over_time = not panel.x_words and not panel.y_words and (panel.x_time or panel.x_title in ("", "Time (s)"))
    return "time" if over_time else f"zoom{number}"


def _heights(drawn: Picture, total: int | None) -> list[int]:
    rows = -(-len(drawn.panels) // max(1, drawn.columns))
    plain = (total or 0) // rows if total else _HEIGHTS.get(rows, _LEAST_HEIGHT)
    return [plain if total or not panel.y_words else _height_of_rows(panel) for panel in drawn.panels]


def _height_of_rows(panel: Panel) -> int:
    """Of boxes, bars and cells: as many pixels as their rows need to be told apart."""
    lines = len({round(float(y), 6) for trace in panel.traces if not trace.helper for y in trace.data["y"]})
    return max(_LEAST_ROWS, _ROW_HEIGHT * max(lines, len(panel.y_words)) + 20)


def _fitted(drawn: Picture, legend: bool, size: tuple[int, int]) -> tuple[int, list[int]]:
    """The sizes of the panels with which the whole has a size: drawn once, and corrected by what was too much."""
    width, heights = WIDTH, _heights(drawn, None)
    for _ in range(2):
        svg = _svg(draw(drawn, width, heights, legend=legend))
        found = re.search(r'<svg[^>]*?width="([\d.]+)"[^>]*?height="([\d.]+)"', svg)
        if found is None:
            break
        rows = -(-len(drawn.panels) // max(1, drawn.columns))
        width = max(160, round(width + size[0] - float(found[1])))
        heights = [max(60, round(height + (size[1] - float(found[2])) / rows)) for height in heights]
    return width, heights


def _svg(chart: alt.VConcatChart) -> str:
    svg = io.StringIO()
    chart.save(svg, format="svg")
    return svg.getvalue()


def _footnotes(drawn: Picture, width: int) -> alt.TitleParams:
    characters = int(_NOTE_CHARACTERS * width / WIDTH)
    lines = [line for note in drawn.footnotes() for line in textwrap.wrap(note, characters)]
    return alt.TitleParams(
        lines,
        orient="bottom",
        anchor="start",
        frame="group",
        fontWeight="normal",
        fontSize=12,
        color="#4b5563",
        offset=10,
        lineHeight=16,
    )


def _titled(panel: Panel, width: int, height: int, legend: bool, zoom: str) -> alt.VConcatChart:
    title = alt.TitleParams(panel.title, anchor="start", fontSize=14, fontWeight=600, offset=4)
    axes = _axes(panel, width, height, legend, zoom)
    return alt.vconcat(axes, title=title).resolve_scale(color="independent", shape="independent")


def _axes(panel: Panel, width: int, height: int, legend: bool, zoom: str) -> alt.LayerChart | alt.FacetChart:
    """One pair of axes with its legend; ``zoom`` names what can be dragged and scaled in a page, if anything."""
    x = alt.X(
        "x:T" if panel.x_time else "x:Q",
        title=panel.x_title or None,
        scale=_scale(panel.x_ends, panel.x_log, panel.x_time),
        axis=_axis(panel.x_words, panel.x_time, room=width),
    )
    y = alt.Y(
        "y:Q", title=panel.y_title or None, scale=_scale(panel.y_ends, panel.y_log, False), axis=_axis(panel.y_words)
    )
    ordered = sorted(panel.traces, key=lambda trace: trace.rare)
    layers = [_legend(panel, x, y, width)] if legend and picture.count(panel.traces) > 0 else []
    for trace in ordered:
        if not trace.data.is_empty():
            layers.append(_layer(trace, _thinned(trace, width, height), x, y, bool(zoom)))
    if zoom and layers:
        layers[0] = layers[0].add_params(alt.selection_interval(name=zoom, bind="scales", encodings=["x"]))
    return alt.layer(*layers).properties(width=width, height=height)


def _scale(ends: tuple[float, float] | None, log: bool, time: bool) -> alt.Scale:
    if time:
        return alt.Scale(type="utc")
    kind: dict[str, Any] = {"type": "log"} if log else {}
    if ends is None:
        return alt.Scale(zero=False, **kind)
    return alt.Scale(domain=list(ends), nice=False, zero=False, **kind)


def _axis(words: tuple[tuple[float, str], ...], time: bool = False, room: float | None = None) -> alt.Axis:
    """Numbers, times of day, or words at places; where words stand beside each other, they share the ``room``."""
    if time:
        return alt.Axis(format="%H:%M:%S", labelOverlap=True)
    if not words:
        return alt.Axis()
    # As JavaScript writes a number: 0, -1, 2.5.
    longest = labels.LONGEST if room is None else max(6, int(room / len(words) / LETTER_PIXELS))
    text = {f"{place + 0.0:g}": labels.shortened(label, min(longest, labels.LONGEST)) for place, label in words}
    expression = f"{json.dumps(text)}[datum.value] || ''"
    # Without a count of their own Vega leaves out every other word, until about as many are left as numbers should be.
    return alt.Axis(
        values=[place for place, _ in words], tickCount=len(words), labelExpr=expression, grid=False, labelLimit=330,
        labelOverlap=False,
    )  # fmt: skip


def _legend(panel: Panel, x: alt.X, y: alt.Y, width: int) -> alt.Chart:
    """An unseen layer that alone feeds the legend, so that every entry shows its colour and its form together."""
    listed = [trace for trace in panel.traces if trace.label]
    # What is on top comes first.
    listed.sort(key=lambda trace: (not trace.rare, trace.weight != "heavy"))
    names = [labels.shortened(trace.label) for trace in listed]
    columns = legend_columns(names, width - len(panel.legend) * LETTER_PIXELS)
    look = alt.Legend(
        symbolStrokeWidth=2.2,
        symbolOpacity=1,
        columns=columns,
        title=panel.legend or None,
        titleOrient="left",
        titleFontSize=12.5,
        titleFontWeight="normal",
        titlePadding=12,
    )
    data = alt.InlineData(values=[{"name": name, "x": None, "y": None} for name in names])
    colours = alt.Scale(domain=names, range=[_colour(trace) for trace in listed])
    shapes = alt.Scale(domain=names, range=[_symbol(trace) for trace in listed])
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


def _colour(trace: Trace) -> str:
    if trace.mark == "crosses":
        return VERMILLION
    return INK if trace.colour == picture.INK else _COLOURS[trace.colour % len(_COLOURS)]


def _dash(trace: Trace) -> tuple[int, ...]:
    """Where the colours begin again, the dashes differ."""
    again = max(0, trace.colour) // len(_COLOURS)
    return _DASHES[(trace.dash + again) % len(_DASHES)]


def _symbol(trace: Trace) -> str:
    if trace.mark == "crosses":
        return _EVENTS[trace.colour % len(_EVENTS)]
    if trace.mark in ("bars", "spans", "cells"):
        return "square"
    if trace.mark in ("line", "outline"):
        return _LINES[min(_DASHES.index(_dash(trace)), len(_LINES) - 1)]
    return "circle"


def _layer(trace: Trace, data: pl.DataFrame, x: alt.X, y: alt.Y, interactive: bool) -> alt.Chart:
    chart = alt.Chart(alt.InlineData(values=data.to_dicts()))
    colour, opacity = _colour(trace), _OPACITIES[trace.weight]
    tip = {"tooltip": [alt.Tooltip("x", type="quantitative"), alt.Tooltip("y", type="quantitative")]}
    tips: dict[str, Any] = tip if interactive and trace.mark in ("points", "crosses", "bars") else {}
    line: dict[str, Any] = {"color": colour, "strokeWidth": _WIDTHS[trace.weight], "opacity": opacity, "clip": True}
    if _dash(trace) and trace.mark in ("line", "outline"):
        line["strokeDash"] = list(_dash(trace))
    x2: dict[str, Any] = {"x2": "x2:Q"} if "x2" in data.columns else {}
    y2: dict[str, Any] = {"y2": "y2:Q"} if "y2" in data.columns else {}
    match trace.mark:
        case "line":
            # Vega-Lite joins points in the order of x, and breaks the line where y is null.
            return chart.mark_line(strokeJoin="round", **line).encode(x=x, y=y)
        case "outline":
            return chart.mark_line(strokeJoin="round", **line).encode(x=x, y=y, order="order:Q")
        case "spans":
            return chart.mark_rule(**line).encode(x=x, y=y, **x2, **y2)
        case "ticks":
            return chart.mark_rule(**{**line, "strokeWidth": 2.4}).encode(x=x, y=y, **x2, **y2)
        case "bars" | "cells":
            fill: dict[str, Any] = {"color": colour, "opacity": 0.8, "clip": True}
            if trace.mark == "cells":
                shade = alt.Color("value:Q", scale=alt.Scale(scheme="blues"), legend=None)
                return chart.mark_rect(clip=True).encode(x=x, y=y, color=shade, **x2, **y2)
            return chart.mark_rect(**fill).encode(x=x, y=y, **x2, **y2, **tips)
        case "text":
            ink = alt.Color("ink:N", scale=None) if "ink" in data.columns else alt.value(INK)
            return chart.mark_text(fontSize=12, align="center").encode(x=x, y=y, text="text:N", color=ink)
        case "crosses":
            shape = _EVENTS[trace.colour % len(_EVENTS)]
            hollow = shape.startswith("M")
            return chart.mark_point(
                shape=shape, size=46, filled=not hollow, color=colour, strokeWidth=1.8 if hollow else 0, opacity=1
            ).encode(x=x, y=y, **tips)
        case _:
            size = 55 if trace.rare or trace.weight == "heavy" else 22
            return chart.mark_point(filled=True, size=size, color=colour, opacity=opacity, clip=True).encode(
                x=x, y=y, **tips
            )


def _thinned(trace: Trace, width: int, height: int) -> pl.DataFrame:
    """The rows that a picture of so many pixels can show: extremes for lines, one a cell for clouds of points."""
    data = trace.data
    if trace.rare or trace.mark not in ("line", "points") or data.height <= 2 * width:
        return data
    low, high = data["x"].min(), data["x"].max()
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)) or high <= low:
        return data.head(2 * width)
    columns = 2 * width // _PIXELS_PER_POINT
    column = ((pl.col("x") - low) / (high - low) * columns).floor()
    if trace.mark == "points":
        bottom, top = data["y"].min(), data["y"].max()
        tall = (top - bottom) or 1.0  # type: ignore[operator]
        cell = ((pl.col("y") - bottom) / tall * height).floor()
        return (
            data.with_columns(column=column, cell=cell)
            .unique(["column", "cell"], maintain_order=True)
            .select(data.columns)
        )
    # A gap is a null: its stretch begins anew in the count of nulls so far, and each stretch is thinned for itself.
    return extremes(data, stretch=pl.col("y").is_null().cum_sum(), column=column)
