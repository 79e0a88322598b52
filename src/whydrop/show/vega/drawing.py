"""A figure as a specification of Vega-Lite, and as a file: PNG, SVG or PDF."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import vl_convert

from whydrop.runtime import durable
from whydrop.show import pictures, ticks
from whydrop.show.figure import Axis, Ends, Figure, Layer, ordered
from whydrop.show.labels import LONGEST, shortened
from whydrop.show.layout import LONGEST_NAME, WIDTH, Layout, laid_out, legend_columns, listed, wrapped
from whydrop.show.theme import GREY, INK
from whydrop.show.vega import marks
from whydrop.show.vega.marks import Datasets, Place, Spec

SOFT = "#4b5563"

CONFIG: dict[str, Any] = {
    "font": "Liberation Sans, Helvetica Neue, Arial, DejaVu Sans, sans-serif",
    "background": "white",
    "padding": 14,
    "view": {"stroke": "#9ca3af", "strokeWidth": 0.6},
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "titlePadding": 9,
        "gridColor": "#e5e7eb",
        "labelColor": INK,
        "titleColor": INK,
        "tickCount": 8,
    },
    "title": {
        "anchor": "start",
        "fontSize": 18,
        "fontWeight": 600,
        "subtitleFontSize": 13,
        "subtitleColor": SOFT,
        "subtitlePadding": 5,
        "color": INK,
        "offset": 12,
    },
    "legend": {
        "orient": "top",
        "direction": "horizontal",
        "labelFontSize": 12.5,
        "labelLimit": 420,
        "title": None,
        "titleOrient": "left",
        "titleFontSize": 12.5,
        "titleFontWeight": "normal",
        "titlePadding": 12,
        "symbolSize": 110,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
        "columnPadding": 18,
        "rowPadding": 4,
        "labelOffset": 7,
        "labelColor": INK,
        "offset": 8,
    },
}

# The line below which only zeros are, on a logarithmic axis.
ZERO_LINE = {"type": "rule", "color": GREY, "strokeDash": [3, 3], "strokeWidth": 0.8}

# The width of a letter of a title, of a panel's title, and of words at an axis.
_TITLE_LETTER, _PANEL_LETTER, _AXIS_LETTER = 8.6, 7.2, 6.6
# Unseen numbers keep the height of seen ones, so that the titles of a row of panels stand at one height.
_SILENT: dict[str, Spec] = {
    "x": {"labels": False, "ticks": False},
    "y": {"labelExpr": "'.'", "labelOpacity": 0, "ticks": False},
}


def write_all(figures: Iterable[Figure], folder: Path, kind: str) -> list[Path]:
    """Write each figure as ``folder/KEY.kind``; return the paths.

    Raises:
        ValueError: there is no such format.
    """
    if kind not in pictures.FORMATS:
        raise ValueError(f"no picture format {kind!r}; there are {', '.join(pictures.FORMATS)}")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for figure in figures:
        path = folder / f"{figure.key}.{kind}"
        durable.write_bytes(path, rendered(figure, kind))
        written.append(path)
    return written


def rendered(figure: Figure, kind: str, *, legend: bool = True, size: tuple[int, int] | None = None) -> bytes:
    """A figure as the bytes of a file; ``size`` is of the whole in pixels; a PNG has four times as many."""
    text = svg(specification(figure, legend=legend) if size is None else _fitted(figure, legend, size))
    if kind == "png":
        # Faster than by `vegalite_to_png`, and the same picture.
        png: bytes = vl_convert.svg_to_png(text, scale=2)
        return png
    if kind == "pdf":
        pdf: bytes = vl_convert.svg_to_pdf(flattened(text))
        return pdf
    return text.encode()


def svg(drawn: Spec) -> str:
    """A specification as SVG."""
    text: str = vl_convert.vegalite_to_svg(drawn)
    return text


def _fitted(figure: Figure, legend: bool, size: tuple[int, int]) -> Spec:
    """The specification with which the whole has a size: drawn, and corrected by the difference."""
    width, taller = size[0], 0.0
    drawn = specification(figure, width, legend=legend)
    for _ in range(4):
        found = re.search(r'<svg[^>]*?width="([\d.]+)"[^>]*?height="([\d.]+)"', svg(drawn))
        rows = laid_out(figure, width).rows
        # Half a pixel for each row of panels is what whole pixels can do.
        if found is None or (abs(size[0] - float(found[1])) < 2 and abs(size[1] - float(found[2])) < 1 + rows / 2):
            break
        width = max(160, round(width + size[0] - float(found[1])))
        taller += (size[1] - float(found[2])) / rows
        drawn = specification(figure, width, taller, legend=legend)
    return drawn


def specification(figure: Figure, width: int = WIDTH, taller: float = 0.0, *, legend: bool = True) -> Spec:
    """A figure as Vega-Lite has it, with what must be known of it below.

    Args:
        figure: what is drawn.
        width: of the whole, about, in pixels.
        taller: than by itself each panel is to be, in pixels.
        legend: whether there are legends.
    """
    figure = figure.printable()
    layout = laid_out(figure, width, taller)
    datasets = Datasets()
    panels = [_panel(figure, number, layout, datasets, legend) for number in range(len(figure.panels))]
    resolve = _resolve(figure)
    grid: Spec = {"concat": panels, "columns": layout.columns, "spacing": 16, "title": _below(figure, width)}
    title = {"text": wrapped(figure.title, width, _TITLE_LETTER) or [""], "subtitle": wrapped(figure.subtitle, width)}
    # The title stands on an outer chart: on the inner one the legend would come above it.
    return {
        "config": CONFIG,
        "datasets": datasets,
        "title": title,
        "vconcat": [grid | {"resolve": resolve}],
        "resolve": resolve,
    }


def _resolve(figure: Figure) -> Spec:
    how = "shared" if figure.one_legend else "independent"
    return {"scale": {"fill": how, "stroke": how, "shape": how, "x": "independent", "y": "independent"}}


def _below(figure: Figure, width: int) -> Spec:
    lines = [line for words in (figure.see, *figure.footnotes()) for line in wrapped(words, width)]
    return {
        "text": lines, "orient": "bottom", "frame": "group", "fontWeight": "normal", "fontSize": 12.5, "color": SOFT,
        "offset": 10, "lineHeight": 17,
    }  # fmt: skip


def _panel(figure: Figure, number: int, layout: Layout, datasets: Datasets, legend: bool) -> Spec:
    """One pair of axes with its layers, its legend, and its title."""
    panel, height = figure.panels[number], layout.heights[number]
    across = figure.share in ("y", "none") or number + layout.columns >= len(figure.panels)
    along = figure.share in ("x", "none") or number % layout.columns == 0
    x = _encoding("x", panel.x, panel.x_ends(), layout.width, across)
    y = _encoding("y", panel.y, panel.y_ends(), height, along)
    place = Place(panel, x, y, layout.width, height, datasets)
    room = layout.columns * layout.width if figure.one_legend else layout.width
    layers = [_legend(figure, number, place, room)] if legend and listed(figure, number) else []
    layers += _zero_lines(place)
    layers += [marks.drawn(layer, place) for layer in ordered(panel.layers) if not layer.data.is_empty()]
    if not panel.layers:
        layers.append(_nothing(place))
    axes: Spec = {"layer": layers, "width": layout.width, "height": height}
    if not panel.title:
        return axes
    title = {
        "text": wrapped(panel.title, layout.width, _PANEL_LETTER), "frame": "group", "fontSize": 14, "offset": 6,
    }  # fmt: skip
    if figure.one_legend:
        return axes | {"title": title}
    return {"vconcat": [axes], "title": title, "resolve": _resolve(figure)}


def _encoding(name: str, axis: Axis, ends: Ends, room: int, labelled: bool) -> Spec:
    scale: Spec = {"domain": list(ends), "nice": False, **({"type": "log"} if axis.scale == "log" else {"zero": False})}
    return {
        "field": name,
        "type": "quantitative",
        "title": (ticks.label(axis) or None) if labelled else None,
        "scale": scale,
        "axis": {**_ticks(name, axis, ends, room), **({} if labelled else _SILENT[name])},
    }


def _ticks(name: str, axis: Axis, ends: Ends, room: int) -> Spec:
    # Words beside each other share the room.
    letters = LONGEST if name == "y" else min(LONGEST, max(6, int(room / max(1, len(axis.words)) / _AXIS_LETTER)))
    found = ticks.of(axis, ends, room, letters)
    if not found:
        many = {"labelExpr": "format(datum.value, '~s')"} if max(map(abs, ends)) >= 1e5 else {}
        pixels = 30 if name == "y" else 45
        return {"tickCount": max(2, min(8, room // pixels)), "labelOverlap": True, **many}
    # Without a count of their own Vega leaves out every other one where there are more than about eight.
    return {
        "values": [place for place, _ in found],
        "tickCount": len(found),
        "labelExpr": ticks.expression(found, axis.scale == "log"),
        "labelOverlap": False,
        "labelLimit": 330,
        "grid": not axis.words,
    }


def _legend(figure: Figure, number: int, place: Place, room: int) -> Spec:
    """An unseen layer that alone feeds the legend, so that every entry shows colour, form and filling together."""
    layers = listed(figure, number)
    names = [shortened(layer.name, LONGEST_NAME) for layer in layers]
    if len(set(names)) < len(names):
        # Long names that differ only in their middle.
        names = [layer.name for layer in layers]
    title = "" if figure.one_legend else place.panel.legend
    columns = legend_columns(names, room - len(title) * _AXIS_LETTER)
    legend = {"columns": columns, "title": title or None}
    looks = {
        "fill": ["transparent" if _outlined(layer) else layer.style.light for layer in layers],
        "stroke": [layer.style.light for layer in layers],
        "shape": [marks.symbol(layer) for layer in layers],
    }
    encoding = {
        name: {"field": "name", "type": "nominal", "scale": {"domain": names, "range": found}, "sort": names,
               "legend": legend}
        for name, found in looks.items()
    }  # fmt: skip
    rows: list[dict[str, Any]] = [{"name": name, "x": None, "y": None} for name in names]
    return {"data": {"values": rows}, "mark": {"type": "point"}, "encoding": {"x": place.x, "y": place.y, **encoding}}


def _outlined(layer: Layer) -> bool:
    return layer.mark == "points" and layer.style.hollow


def _zero_lines(place: Place) -> list[Spec]:
    """Where a logarithmic axis ends and its zeros begin."""
    return [
        {"data": {"values": [{name: axis.zeros[1]}]}, "mark": ZERO_LINE, "encoding": {name: encoding}}
        for name, axis, encoding in (("x", place.panel.x, place.x), ("y", place.panel.y, place.y))
        if axis.zeros is not None
    ]


def _nothing(place: Place) -> Spec:
    """An empty panel, which says that there are no data."""
    at: Spec = {"x": {"value": place.width / 2}, "y": {"value": place.height / 2}}
    axes = {"data": {"values": [{"x": None, "y": None}]}, "mark": "point", "encoding": {"x": place.x, "y": place.y}}
    words = {"data": {"values": [{}]}, "mark": {"type": "text", "text": "no data", "fontSize": 13, "color": GREY}}
    return {"layer": [axes, {**words, "encoding": at}]}


_SVG = "http://www.w3.org/2000/svg"
_GROUP = f"{{{_SVG}}}g"
# Attributes that change what a group shows; all others can go.
_SHOWN = {"transform", "clip-path", "fill", "stroke", "stroke-miterlimit", "opacity"}


def flattened(svg: str) -> str:
    """The same picture without groups that show nothing by themselves.

    >>> flattened('<svg xmlns="http://www.w3.org/2000/svg"><g class="x"><g><path d="M0,0" /></g></g></svg>')
    '<svg xmlns="http://www.w3.org/2000/svg"><path d="M0,0" /></svg>'
    """
    ET.register_namespace("", _SVG)
    root = ET.fromstring(svg)
    _dissolve(root)
    return ET.tostring(root, encoding="unicode")


def _dissolve(element: ET.Element) -> None:
    kept: list[ET.Element] = []
    for child in list(element):
        _dissolve(child)
        kept.extend(list(child) if child.tag == _GROUP and _SHOWN.isdisjoint(child.attrib) else [child])
        element.remove(child)
    element.extend(kept)
