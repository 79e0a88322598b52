"""The marks of one group in one panel: points, lines, steps, bars, and intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import polars as pl

from whydrop.show.facets.schema import FacetSpec
from whydrop.show.figure import Axis, Ends, Layer, Mark
from whydrop.show.theme import COLOURS, CYCLE, DASHES, Shape, Style, cycled

DAY_S = 86_400.0

# Of this many points each is drawn a little larger: areas in square pixels.
_FEW, _FEW_AREA, _MANY_AREA = 400, 34.0, 20.0
# A disc looks smaller than other shapes of its size.
_DISC = 1.6


@dataclass(frozen=True)
class Group:
    """A group in a panel.

    Attributes:
        name: in the frame.
        label: in the legend.
        style: its look.
        rows: line, x, y, low and high, and the places in the panel of the last four: zeros may stand elsewhere.
        front: rare events: on top, and never thinned.
    """

    name: str
    label: str
    style: Style
    rows: pl.DataFrame
    front: bool = False

    def layer(self, mark: Mark, data: pl.DataFrame, numbers: pl.DataFrame, style: Style) -> Layer:
        """Marks that stand for the numbers of these rows."""
        exported = numbers.select("x", "y", "low", "high")
        return Layer(self.label, style, mark, data, self.front, of={"group": self.name}, numbers=exported)

    def beside(self, mark: Mark, data: pl.DataFrame, style: Style) -> Layer:
        """Marks beside them, such as an interval."""
        return Layer(self.label, style, mark, data, helper=True)


def layers(spec: FacetSpec, group: Group, groups: Sequence[Group], x: Axis, y: Axis) -> list[Layer]:
    """The marks of a group, from back to front; ``groups`` are all of its panel."""
    match spec.kind:
        case "line":
            return [layer for (_,), own in _lines(group.rows) for layer in _line(group, own, breaks=spec.breaks)]
        case "density":
            steps = closed_steps(group.rows, x)
            return [group.layer("outline", steps, group.rows, group.style)]
        case "bars":
            return _bars(group, groups, x, y)
        case _:
            return [*_intervals(group, group.rows, group.style), _points(group)]


def _lines(rows: pl.DataFrame) -> list[tuple[tuple[object, ...], pl.DataFrame]]:
    return list(rows.group_by("line", maintain_order=True))


def _line(group: Group, rows: pl.DataFrame, *, breaks: bool) -> list[Layer]:
    whole = with_breaks(rows) if breaks else rows
    line = group.layer("line", whole.select(x="x_place", y="y_place"), rows, group.style)
    band = rows.drop_nulls(["low_place", "high_place"]).select(x="x_place", y="low_place", y2="high_place")
    return [*([group.beside("band", band, replace(group.style, opacity=0.18))] if band.height else []), line]


def _points(group: Group) -> Layer:
    few = group.rows.height <= _FEW
    area = (_FEW_AREA if few else _MANY_AREA) / (_DISC if group.style.shape == "dot" else 1.0)
    style = replace(group.style, size=round(area**0.5, 2), width=1.2, opacity=0.9 if few else 0.7)
    return group.layer("points", group.rows.select(x="x_place", y="y_place"), group.rows, style)


def _bars(group: Group, groups: Sequence[Group], x: Axis, y: Axis) -> list[Layer]:
    step = bar_step(pl.concat([one.rows["x"] for one in groups]), x.scale)
    number = [one.name for one in groups].index(group.name)
    placed = beside(group.rows, y, step, number, len(groups))
    bars = group.layer("bars", placed, group.rows, replace(group.style, opacity=0.85))
    # An interval stands on the middle of its own bar, in ink, or one would not see where it begins.
    middles = group.rows.with_columns(x_place=(placed["x"] + placed["x2"]) / 2)
    light, dark = COLOURS["ink"]
    return [bars, *_intervals(group, middles, Style(light, dark))]


def _intervals(group: Group, rows: pl.DataFrame, style: Style) -> list[Layer]:
    known = rows.drop_nulls(["low_place", "high_place"]).select(x="x_place", y="low_place", y2="high_place")
    return [group.beside("spans", known, replace(style, opacity=0.7, width=1.3, dash=()))] if known.height else []


def with_breaks(rows: pl.DataFrame) -> pl.DataFrame:
    """A line broken (a row with a null y) where nothing was measured for more than five steps."""
    steps = rows["x"].diff().drop_nulls()
    step = steps.filter(steps > 0).median()
    if not isinstance(step, (int, float)) or rows.height < 3:
        return rows
    after = rows.filter(pl.col("x").diff() > 5 * step)
    # Just before the sample after the gap: it need not be exact, it is not drawn.
    breaks = after.with_columns(x_place=pl.col("x_place") - step / 2, y_place=pl.lit(None, dtype=pl.Float64))
    return pl.concat([rows, breaks]).sort("x_place")


def closed_steps(rows: pl.DataFrame, x: Axis) -> pl.DataFrame:
    """Heights at bins' centres as the corners of a line of steps that begins and ends on the axis."""
    log = x.scale == "log"
    places, heights = rows["x_place"].to_list(), rows["y_place"].to_list()
    low, high = outer_edges(places, x.scale)
    between = [math.sqrt(a * b) if log else (a + b) / 2 for a, b in pairwise(places)]
    edges = [low, *between, high]
    corners = [(low, 0.0)]
    for number, height in enumerate(heights):
        corners += [(edges[number], height), (edges[number + 1], height)]
    return pl.DataFrame([*corners, (high, 0.0)], schema={"x": pl.Float64, "y": pl.Float64}, orient="row")


def beside(rows: pl.DataFrame, y: Axis, step: float, number: int, count: int) -> pl.DataFrame:
    """Bars from the axis's lower end, those of the groups of a place beside each other."""
    width = 0.84 * step / count
    left = pl.col("x_place") - 0.42 * step + number * width
    low, high = y.ends or (0.0, 1.0)
    foot = low if y.scale == "log" else min(max(0.0, low), high)
    return rows.select(x=left, x2=left + width, y="y_place", y2=pl.lit(foot))


def bar_step(places: pl.Series, scale: str) -> float:
    """From one place of bars to the next; of a single place a day of time, else 1."""
    steps = places.drop_nulls().unique().sort().diff().drop_nulls()
    least = steps.filter(steps > 0).min()
    return float(least) if isinstance(least, float) else DAY_S if scale == "time" else 1.0


def outer_edges(places: Sequence[float], scale: str) -> Ends:
    """The first bin's lower and the last one's upper edge, from bins' centres in order.

    The width of the bins is the distance of the first two; that of a single bin is not known: a tenth of a decade, or
    of the number itself, stands for it.
    """
    log = scale == "log"
    known = [math.log10(place) for place in places] if log else list(places)
    width = known[1] - known[0] if len(known) > 1 else 0.1 if log else abs(known[0]) * 0.1 or 1.0
    low, high = known[0] - width / 2, known[-1] + width / 2
    return (10.0**low, 10.0**high) if log else (low, high)


_SHAPES: tuple[Shape, ...] = ("dot", "square", "triangle-up", "diamond", "triangle-down", "plus")
# With colours for sites, what is measured has shapes of its own, filled or hollow.
_BY_PART: tuple[tuple[Shape, bool], ...] = (
    ("dot", True), ("triangle-up", False), ("square", True), ("diamond", False), ("triangle-down", True),
)  # fmt: skip


def most(spec: FacetSpec) -> int:
    """How many groups of one panel an eye can distinguish; of two parts, how many first parts."""
    return 12 if spec.look == "group" and spec.kind == "points" else len(CYCLE)


def parts(group: str) -> tuple[str, str]:
    """The last word of a group's name, and what is before it.

    >>> parts("dfw01 discards"), parts("dfw01")
    (('dfw01', 'discards'), ('dfw01', ''))
    """
    first, _, last = group.rpartition(" ")
    return (first, last) if first else (last, "")


def looks(spec: FacetSpec, groups: Sequence[str]) -> dict[str, Style]:
    """A look for each group: what the catalogue fixed, and the next of the palette for the others."""
    fixed = {group.name: group for group in spec.groups}
    free = [name for name in groups if name not in fixed or fixed[name].colour is None]
    first = list(dict.fromkeys(parts(name)[0] for name in free))
    last = list(dict.fromkeys(parts(name)[1] for name in groups))
    found = {}
    for name in groups:
        number = free.index(name) if name in free else 0
        match spec.look:
            case "parts":
                shape, filled = _BY_PART[last.index(parts(name)[1]) % len(_BY_PART)]
                look = _cycled(first.index(parts(name)[0]) if name in free else 0, shape, filled)
            case "overlay":
                look = _cycled(first.index(parts(name)[0]) if name in free else 0, "dot")
            case _:
                look = _cycled(number, _SHAPES[number % len(_SHAPES)])
        own = fixed.get(name)
        if own is not None:
            light, dark = COLOURS[own.colour] if own.colour else (look.light, look.dark)
            dash = DASHES[list(fixed).index(name) % len(DASHES)]
            shape = own.shape or look.shape
            look = replace(look, light=light, dark=dark, shape=shape, dash=dash)
        found[name] = look
    return found


def _cycled(number: int, shape: Shape, filled: bool = True) -> Style:
    light, dark = cycled(number)
    return Style(light, dark, shape, dash=DASHES[number % len(DASHES)], filled=filled)


def of_panels(spec: FacetSpec, groups: Mapping[str, Sequence[str]]) -> tuple[dict[str, dict[str, Style]], bool]:
    """Looks by panel and group, and whether one legend serves all panels.

    Where panels have groups of their own (the sites of a metro), each panel begins the palette again; where they share
    groups, a group looks the same in all.
    """
    every = list(dict.fromkeys(group for own in groups.values() for group in own))
    shared = len(every) < sum(map(len, groups.values()))
    if not shared:
        return {panel: looks(spec, own) for panel, own in groups.items()}, False
    of_all = looks(spec, every)
    return {panel: {group: of_all[group] for group in own} for panel, own in groups.items()}, True
