"""The marks of one group in one panel: points, lines, steps, bars, and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import altair as alt
import polars as pl

from whydrop.show.charts.theme import INK
from whydrop.show.facets import thinning
from whydrop.show.facets.building import Drawn, Panel, Scale, bar_step, outer_edges
from whydrop.show.facets.looks import Look
from whydrop.show.facets.schema import FacetSpec

GREY = "#6b7280"
# Of this many points each is drawn a little larger.
_FEW = 400


class Datasets(dict[str, list[dict[str, Any]]]):
    """Rows by name, put into the finished chart: Altair copies what is in a chart with every method."""

    def chart(self, frame: pl.DataFrame) -> alt.Chart:
        """A chart of a frame's rows."""
        name = f"rows-{len(self)}"
        self[name] = frame.to_dicts()
        return alt.Chart(alt.NamedData(name))


@dataclass(frozen=True)
class Place:
    """Where marks are drawn: a panel, its axes, its size in pixels, and where their rows go."""

    panel: Panel
    x: alt.X
    y: alt.Y
    width: int
    height: int
    datasets: Datasets


def layers(spec: FacetSpec, drawn: Drawn, place: Place) -> list[alt.Chart]:
    """The marks of a group, from back to front."""
    match spec.kind:
        case "line":
            return _line(drawn, place, breaks=spec.breaks)
        case "density":
            corners = closed_steps(drawn.data, place.panel.x).with_row_index("corner")
            steps = place.datasets.chart(corners).mark_line(**_stroke(drawn.look))
            return [steps.encode(x=place.x, y=place.y, order="corner:Q")]
        case "bars":
            return _bars(drawn, place)
        case _:
            return [*_intervals(drawn.data, drawn.look, place), _points(drawn, place)]


def _stroke(look: Look) -> dict[str, Any]:
    stroke = {"color": look.colour, "strokeWidth": 1.5, "clip": True, "strokeJoin": "round", "aria": False}
    return stroke | ({"strokeDash": list(look.dash)} if look.dash else {})


def _line(drawn: Drawn, place: Place, *, breaks: bool) -> list[alt.Chart]:
    whole = thinning.with_breaks(drawn.data) if breaks else drawn.data
    thinned = thinning.line(whole, place.panel.x, place.width)
    line = place.datasets.chart(thinned.select("line", "x", "y")).mark_line(**_stroke(drawn.look))
    return [*_band(thinned, drawn.look, place), line.encode(x=place.x, y=place.y, detail="line:N")]


def _band(data: pl.DataFrame, look: Look, place: Place) -> list[alt.Chart]:
    known = data.filter(pl.col("low").is_not_null() & pl.col("high").is_not_null())
    if not known.height:
        return []
    area = place.datasets.chart(known.select("line", "x", y="low", y2="high"))
    area = area.mark_area(color=look.colour, opacity=0.18, clip=True, aria=False)
    return [area.encode(x=place.x, y=place.y, y2="y2:Q", detail="line:N")]


def _bars(drawn: Drawn, place: Place) -> list[alt.Chart]:
    listed = place.panel.listed
    placed = beside(drawn.data, place.panel, listed.index(drawn), len(listed))
    bars = place.datasets.chart(placed).mark_rect(color=drawn.look.colour, opacity=0.85, clip=True, aria=False)
    # An interval stands on the middle of its own bar, in ink, or one would not see where it begins.
    middles = drawn.data.with_columns(x=(placed["x"] + placed["x2"]) / 2)
    return [bars.encode(x=place.x, x2="x2:Q", y=place.y, y2="y2:Q"), *_intervals(middles, Look(INK), place)]


def _points(drawn: Drawn, place: Place) -> alt.Chart:
    look, data = drawn.look, drawn.data
    thinned = data if drawn.front else thinning.points(data, place.panel.x, place.panel.y, place.width, place.height)
    few = data.height <= _FEW
    area = (34 if few else 20) * min(1.0, max(0.4, place.width / 260))
    # Not the opacity of the whole mark: writers of PDF make a group of each such mark, which takes 700 bytes.
    seen: dict[str, Any] = {"fillOpacity" if look.filled else "strokeOpacity": 0.9 if few else 0.7}
    points = place.datasets.chart(thinned.select("x", "y")).mark_point(
        shape=look.shape, filled=look.filled, size=area, color=look.colour, opacity=1,
        strokeWidth=0 if look.filled else 1.2, clip=True, aria=False, **seen,
    )  # fmt: skip
    return points.encode(x=place.x, y=place.y)


def _intervals(data: pl.DataFrame, look: Look, place: Place) -> list[alt.Chart]:
    known = data.filter(pl.col("low").is_not_null() & pl.col("high").is_not_null())
    if not known.height:
        return []
    rules = place.datasets.chart(known.select("x", y="low", y2="high"))
    rules = rules.mark_rule(color=look.colour, opacity=0.7, strokeWidth=1.3, clip=True, aria=False)
    return [rules.encode(x=place.x, y=place.y, y2="y2:Q")]


def closed_steps(data: pl.DataFrame, x: Scale) -> pl.DataFrame:
    """Heights at bins' centres as the corners of a line of steps that begins and ends on the axis."""
    if not data.height:
        return data.select("x", "y")
    log = x.axis.scale == "log"
    places, heights = data["x"].to_list(), data["y"].to_list()
    low, high = outer_edges(places, x.axis)
    between = [math.sqrt(a * b) if log else (a + b) / 2 for a, b in pairwise(places)]
    edges = [low, *between, high]
    corners = [(low, 0.0)]
    for number, height in enumerate(heights):
        corners += [(edges[number], height), (edges[number + 1], height)]
    return pl.DataFrame([*corners, (high, 0.0)], schema={"x": pl.Float64, "y": pl.Float64}, orient="row")


def beside(data: pl.DataFrame, panel: Panel, number: int, count: int) -> pl.DataFrame:
    """Bars from the axis's lower end, those of the groups of a place beside each other."""
    step = bar_step(pl.concat([group.data["x"] for group in panel.groups]), panel.x.axis)
    width = 0.84 * step / count
    left = pl.col("x") - 0.42 * step + number * width
    foot = panel.y.domain[0] if panel.y.axis.scale == "log" else min(max(0.0, panel.y.ends[0]), panel.y.ends[1])
    return data.select(x=left, x2=left + width, y=pl.col("y"), y2=pl.lit(foot))


def zero_lines(place: Place) -> list[alt.Chart]:
    """Where a logarithmic axis ends and its zeros begin."""
    made = []
    for scale, encoding in ((place.panel.x, {"x": place.x}), (place.panel.y, {"y": place.y})):
        if scale.zeros_from is not None:
            at = place.datasets.chart(pl.DataFrame({"x": [scale.ends[0]], "y": [scale.ends[0]]}))
            made.append(at.mark_rule(color=GREY, strokeDash=[3, 3], strokeWidth=0.8).encode(**encoding))
    return made


def nothing(place: Place) -> alt.Chart:
    """What an empty panel says."""
    at = place.datasets.chart(pl.DataFrame({"x": [_middle(place.panel.x)], "y": [_middle(place.panel.y)]}))
    return at.mark_text(text="no data", fontSize=13, color=GREY).encode(x=place.x, y=place.y)


def _middle(scale: Scale) -> float:
    low, high = scale.domain
    return math.sqrt(low * high) if scale.axis.scale == "log" else (low + high) / 2
