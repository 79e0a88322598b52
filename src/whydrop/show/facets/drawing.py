"""Faceted pictures drawn by Vega-Lite: one chart, or a file (PNG, SVG, PDF, one HTML page that needs no network)."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any, Literal

import altair as alt
import vl_convert

from whydrop.runtime import durable
from whydrop.show.facets import marks, ticks
from whydrop.show.facets.building import Drawn, Facets, Panel, Scale
from whydrop.show.facets.looks import DASHES, Look
from whydrop.show.facets.marks import Datasets, Place
from whydrop.show.flattening import flattened
from whydrop.show.plots.labels import shortened
from whydrop.show.plots.page import page
from whydrop.show.printable import printable
from whydrop.show.vega import CONFIG, TITLE_CHARACTERS, legend_columns

FORMATS = ("png", "svg", "pdf", "html")

WIDTH = 900
# Below this width axes have no room for their words.
_NARROWEST = 118
_BETWEEN = 16
# Of an axis's numbers and its title beside the panel.
_AXIS_PIXELS = 76
_LEAST_LETTER_PIXELS = 5.6
_NOTE_CHARACTERS = 145
_MOST_LABEL = 44
_LINES = {
    DASHES[0]: "M-1.3,0L1.3,0",
    DASHES[1]: "M-1.3,0L-0.3,0M0.3,0L1.3,0",
    DASHES[2]: "M-1.2,0L-0.9,0M-0.5,0L-0.2,0M0.2,0L0.5,0M0.9,0L1.2,0",
    DASHES[3]: "M-1.3,0L-0.2,0M0,0L0.3,0M0.5,0L1.3,0",
    DASHES[4]: "M-1.4,0L-0.2,0M0.3,0L1.4,0",
}
_VEGA_LITE = ".".join(alt.VEGALITE_VERSION.split(".")[:2])
# Unseen numbers keep the height of seen ones, so that the titles of a row of panels stand at one height.
_SILENT: dict[str, dict[str, Any]] = {
    "x": {"labels": False, "ticks": False},
    "y": {"labelExpr": "'.'", "labelOpacity": 0, "ticks": False},
}


def write(facets: Facets, path: Path, kind: str, *, legend: bool = True, size: tuple[int, int] | None = None) -> None:
    """Write a picture, whole or not at all; ``size`` is that of the whole in pixels (a PNG has twice as many)."""
    durable.write_bytes(path, rendered(facets, kind, legend=legend, size=size))


def rendered(facets: Facets, kind: str, *, legend: bool = True, size: tuple[int, int] | None = None) -> bytes:
    """A picture as the bytes of a file."""
    width, height = (WIDTH, None) if size is None else _fitted(facets, legend, size)
    drawn = chart(facets, width, height, legend=legend)
    match kind:
        case "html":
            return page(drawn, facets.title or facets.key).encode()
        case "svg":
            return svg(drawn).encode()
        case "pdf":
            made: bytes = vl_convert.svg_to_pdf(flattened(svg(drawn)))
            return made
        case _:
            png: bytes = vl_convert.vegalite_to_png(_specification(drawn), vl_version=_VEGA_LITE, scale=2)
            return png


def svg(drawn: alt.VConcatChart) -> str:
    """A chart as SVG."""
    text: str = vl_convert.vegalite_to_svg(_specification(drawn), vl_version=_VEGA_LITE)
    return text


def _specification(drawn: alt.VConcatChart) -> dict[str, Any]:
    # Altair validated the parts as they were made; with the data in it a second time would take many times as long.
    found: dict[str, Any] = drawn.to_dict(validate=False)
    return found


def chart(
    facets: Facets, width: int = WIDTH, height: int | None = None, *, legend: bool = True, words: bool = True
) -> alt.VConcatChart:
    """A picture as an Altair chart.

    Args:
        facets: what is drawn.
        width: of the whole, roughly, in pixels.
        height: of one panel; ``None``: as its width asks for.
        legend: whether there are legends.
        words: whether the title and the footnotes are in it; a page may say them itself.
    """
    columns = _columns(facets, width)
    shared = facets.spec.share
    each = int(
        (width - _AXIS_PIXELS * (1 if shared in ("both", "y") else columns) - _BETWEEN * (columns - 1)) / columns
    )
    each = max(60, each)
    tall = height if height is not None else _height(facets, each, columns)
    datasets = Datasets()
    panels = []
    for number, panel in enumerate(facets.panels):
        outer = (
            number % columns == 0 or shared in ("x", "none"),
            number + columns >= len(facets.panels) or shared in ("y", "none"),
        )
        panels.append(_panel(facets, panel, datasets, each, tall, outer, legend))
    how = _resolution(facets)
    grid = alt.concat(*panels, columns=columns, spacing=_BETWEEN).resolve_scale(
        fill=how, stroke=how, shape=how, x="independent", y="independent"
    )
    if words:
        grid = grid.properties(title=_below(facets, width))
    whole = alt.vconcat(grid)
    if words:
        title = textwrap.wrap(facets.title, max(20, int(TITLE_CHARACTERS * width / WIDTH)))
        subtitle = textwrap.wrap(facets.subtitle, max(30, int(_NOTE_CHARACTERS * width / WIDTH)))
        whole = whole.properties(title=alt.TitleParams(title or [""], subtitle=subtitle, anchor="start"))
    whole = whole.resolve_scale(fill=how, stroke=how, shape=how).configure(**CONFIG)
    whole["datasets"] = dict(datasets)
    return whole


def _resolution(facets: Facets) -> Literal["shared", "independent"]:
    return "shared" if facets.one_legend else "independent"


def _columns(facets: Facets, width: int) -> int:
    """Panels side by side: by their number, and no more than have room for their words."""
    count = len(facets.panels)
    narrowest = max(_NARROWEST, 0 if facets.one_legend else _longest_label(facets))
    room = max(1, int((width - _AXIS_PIXELS + _BETWEEN) / (narrowest + _BETWEEN)))
    if facets.spec.columns is not None:
        return min(facets.spec.columns, count, room)
    if facets.spec.wide:
        wanted = 1 if count <= 4 else 2 if count <= 12 else 3
    else:
        wanted = next((n for most, n in ((1, 1), (2, 2), (3, 3), (4, 2), (9, 3), (12, 4), (30, 5)) if count <= most), 6)
    return min(wanted, count, room)


def _longest_label(facets: Facets) -> int:
    """The width of the widest entry of a legend: a panel that is narrower would be pulled apart by it."""
    labels = [min(_MOST_LABEL, len(drawn.label)) for panel in facets.panels for drawn in panel.listed]
    return int(max(labels, default=0) * _LEAST_LETTER_PIXELS + 30)


def _height(facets: Facets, width: int, columns: int) -> int:
    rows = -(-len(facets.panels) // columns)
    if facets.spec.wide and columns == 1:
        return int(max(150, min(380 if rows == 1 else 230, width * 0.55)))
    return int(max(110, min(380, width * (0.45 if rows == 1 else 0.68))))


def _below(facets: Facets, width: int) -> alt.TitleParams:
    characters = max(40, int(_NOTE_CHARACTERS * width / WIDTH))
    lines = [line for note in facets.footnotes() for line in textwrap.wrap(note, characters)]
    return alt.TitleParams(
        lines, orient="bottom", anchor="start", frame="group", fontWeight="normal", fontSize=12,
        color="#4b5563", offset=10, lineHeight=16,
    )  # fmt: skip


def _panel(
    facets: Facets, panel: Panel, datasets: Datasets, width: int, height: int, outer: tuple[bool, bool], legend: bool
) -> alt.LayerChart:
    x = alt.X(
        "x:Q",
        title=_title(panel.x) if outer[1] else None,
        scale=_scale(panel.x),
        axis=_axis("x", panel.x, width, outer[1]),
    )
    y = alt.Y(
        "y:Q",
        title=_title(panel.y) if outer[0] else None,
        scale=_scale(panel.y),
        axis=_axis("y", panel.y, height, outer[0]),
    )
    place = Place(panel, x, y, width, height, datasets)
    layers = [_unseen(facets, panel, x, y, width, legend), *marks.zero_lines(place)]
    for drawn in panel.groups:
        layers += marks.layers(facets.spec, drawn, place)
    if not panel.groups:
        layers.append(marks.nothing(place))
    title = alt.TitleParams(
        shortened(panel.title, max(16, int(width / 8))),
        anchor="start",
        frame="group",
        fontSize=14,
        fontWeight=600,
        offset=6,
    )
    how = _resolution(facets)
    axes = alt.layer(*layers).properties(width=width, height=height, title=title)
    return axes.resolve_scale(fill=how, stroke=how, shape=how)


def _title(scale: Scale) -> str | None:
    axis = scale.axis
    title = f"{axis.title} ({axis.unit})" if axis.title and axis.unit else axis.title or axis.unit
    day = ticks.day(scale)
    return printable(", ".join(part for part in (title, day) if part)) or None


def _scale(scale: Scale) -> alt.Scale:
    # That an axis need not begin at 0 is said of linear ones only; of others it goes without saying, with a warning.
    kind: dict[str, Any] = {"type": "log"} if scale.axis.scale == "log" else {"zero": False}
    return alt.Scale(domain=list(scale.domain), nice=False, **kind)


def _axis(name: str, scale: Scale, room: int, labelled: bool) -> alt.Axis:
    found = ticks.of(scale, room)
    silent: dict[str, Any] = {} if labelled else _SILENT[name]
    if not found:
        many = max(map(abs, scale.ends)) >= 1e5
        words: dict[str, Any] = (
            {"labelExpr": "format(datum.value, '~s')"} if many and scale.axis.scale == "linear" else {}
        )
        return alt.Axis(**{"tickCount": max(2, min(8, room // 45)), "labelOverlap": True, **words, **silent})
    labels = ticks.expression(found, scale.axis.scale == "log")
    places = [place for place, _ in found]
    # Without a count of their own Vega leaves out every other one where there are more than about eight.
    own: dict[str, Any] = {"values": places, "tickCount": len(places), "labelExpr": labels, "labelOverlap": False}
    return alt.Axis(**{**own, **silent})


def _unseen(facets: Facets, panel: Panel, x: alt.X, y: alt.Y, width: int, legend: bool) -> alt.Chart:
    """A layer without marks that alone feeds the legend, so that an entry shows colour, form and filling together."""
    listed = _of_all(facets) if facets.one_legend else panel.listed
    room = WIDTH if facets.one_legend else width
    names = [shortened(drawn.label, _MOST_LABEL) for drawn in listed]
    if len(set(names)) < len(names):
        # Long names that differ only in their middle.
        names = [printable(drawn.group) for drawn in listed]
    kept = dict(zip(names, listed, strict=True))
    data = alt.Chart(alt.InlineData(values=[{"name": name, "x": None, "y": None} for name in kept]))
    fill = [one.look.colour if one.look.filled else "transparent" for one in kept.values()]
    shape = [_symbol(facets.spec.kind, one.look) for one in kept.values()]
    stroke = [one.look.colour for one in kept.values()]
    # One group needs no legend where the panel's title or the picture's names it.
    shown = (
        alt.Legend(columns=legend_columns(list(kept), room), symbolStrokeWidth=1.8, symbolOpacity=1, title=None)
        if legend and kept
        else None
    )
    domain = list(kept)
    return data.mark_point().encode(
        x=x,
        y=y,
        fill=alt.Fill("name:N", scale=alt.Scale(domain=domain, range=fill), sort=domain, legend=shown),
        stroke=alt.Stroke("name:N", scale=alt.Scale(domain=domain, range=stroke), sort=domain, legend=shown),
        shape=alt.Shape("name:N", scale=alt.Scale(domain=domain, range=shape), sort=domain, legend=shown),
    )


def _of_all(facets: Facets) -> list[Drawn]:
    """Each group of any panel once."""
    found: dict[str, Drawn] = {}
    for panel in facets.panels:
        for drawn in panel.listed:
            found.setdefault(drawn.group, drawn)
    order = [group.name for group in facets.spec.groups]
    return sorted(found.values(), key=lambda one: order.index(one.group) if one.group in order else len(order))


def _symbol(kind: str, look: Look) -> str:
    if kind in ("line", "density"):
        return _LINES[look.dash]
    return "square" if kind == "bars" else look.shape


def _fitted(facets: Facets, legend: bool, size: tuple[int, int]) -> tuple[int, int]:
    """The width and the height of a panel with which the whole has a size: drawn, and corrected by the difference."""
    width = size[0]
    height = _height(facets, width // _columns(facets, width), _columns(facets, width))
    for _ in range(4):
        found = re.search(
            r'<svg[^>]*?width="([\d.]+)"[^>]*?height="([\d.]+)"', svg(chart(facets, width, height, legend=legend))
        )
        if found is None:
            break
        # Half a pixel for each row of panels is what whole pixels can do.
        rows = -(-len(facets.panels) // _columns(facets, width))
        if abs(size[0] - float(found[1])) < 2 and abs(size[1] - float(found[2])) < 1 + rows / 2:
            break
        width = max(160, round(width + size[0] - float(found[1])))
        height = max(60, round(height + (size[1] - float(found[2])) / rows))
    return width, height
