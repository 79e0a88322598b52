"""From a frame and what a catalogue says of it to a figure: axes, places, looks, and what is not seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from whydrop.show import figure
from whydrop.show.facets import marks
from whydrop.show.facets.marks import DAY_S, Group, bar_step, outer_edges
from whydrop.show.facets.schema import Axis, FacetSpec
from whydrop.show.facets.schema import Group as Fixed
from whydrop.show.figure import Counts, Ends, Figure, Layer, Panel
from whydrop.show.labels import natural
from whydrop.show.layout import below_each_other
from whydrop.text.printable import printable

# The band below a logarithmic axis in which zeros stand, as a share of the axis.
# Each group has a lane of its own in it, or zeros could not be attributed to a group.
_ZERO_BAND, _ZERO_LANE, _WIDEST_BAND = 0.09, 0.022, 0.3
_HEADROOM = 0.04
# No axis goes further: sums of numbers beyond it are infinite.
_LARGEST, _SMALLEST = 1e300, 1e-300


@dataclass(frozen=True)
class Words:
    """The words in a picture beside its numbers.

    Attributes:
        subtitle: below the title.
        labels: what the legend says, by panel and group.
        panels: panels to show even if they are empty, in order; others come after them.
        groups: by panel, groups that have a place in the palette although the frame lacks them, so that a site looks
            the same in every picture.
        notes: below the picture.
        counts: of the rows behind a frame that was thinned already.
    """

    subtitle: str = ""
    labels: Mapping[tuple[str, str], str] = field(default_factory=dict)
    panels: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()
    counts: Counts | None = None


def build(key: str, spec: FacetSpec, frame: pl.DataFrame, words: Words = Words()) -> Figure:
    """Lay a figure out.

    Args:
        key: the figure's name.
        spec: what it looks like.
        frame: panel, group, x, y; low, high and line if there are any. Unordered.
        words: what is said beside it.
    """
    data = _completed(frame)
    panels = _panel_names(data, words)
    groups = {panel: _group_names(spec, data, panel, words) for panel in panels}
    split = _split(spec, groups)
    styles, one_legend = marks.of_panels(spec, {title: own for title, (_, own) in split.items()})
    scales = _scales(spec, data, [name for name, _ in split.values()])
    zoom = "time" if spec.x.scale == "time" or spec.wide else key if spec.share in ("both", "x") else ""
    fixed = {group.name: group for group in spec.groups}
    made = []
    for title, (panel, own) in split.items():
        x, y = scales[panel]
        part = data.filter(pl.col("panel").eq(panel) & pl.col("group").is_in(own))
        placed, counts = _placed(part, x, y)
        of_groups = []
        for group in own:
            as_said = fixed.get(group, Fixed(name=group))
            label = printable(words.labels.get((panel, group)) or as_said.label or group)
            rows = placed.filter(pl.col("group") == group)
            of_groups.append(Group(group, label, styles[title][group], rows, as_said.front))
        listed = [group for group in of_groups if group.rows.height]
        made.append(
            Panel(x, y, _layers(spec, listed, x, y), title=printable(title), name=panel, zoom=zoom,
                  order=tuple(group.label for group in listed), left_out=counts)
        )  # fmt: skip
    what = "bins" if spec.kind == "density" else "points"
    return Figure(
        key,
        # Control characters in words would command a terminal.
        title=printable(spec.title),
        subtitle=printable(words.subtitle),
        panels=tuple(made),
        columns=below_each_other(len(made)) if spec.wide else None,
        left_out=words.counts or sum((panel.left_out for panel in made), Counts(because=spec.missing, what=what)),
        notes=tuple(map(printable, words.notes)),
        share=spec.share,
        one_legend=one_legend and not words.labels,
    )


def _layers(spec: FacetSpec, groups: Sequence[Group], x: figure.Axis, y: figure.Axis) -> tuple[Layer, ...]:
    """The marks of all groups, from back to front: rare groups on top, small ones above large ones."""
    # Of lines the dashed ones come later in the palette: above solid ones both are seen.
    lines = spec.kind in ("line", "density")
    in_depth = sorted(groups, key=lambda group: (group.front, 0 if lines else -group.rows.height))
    return tuple(layer for group in in_depth for layer in marks.layers(spec, group, groups, x, y))


def _completed(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with all columns. Numbers that are none (NaN, infinity), or as good as infinite, are null: missing."""
    numbers = ["x", "y", "low", "high"]
    made = frame.with_columns(pl.lit(None, dtype=pl.Float64).alias(name) for name in numbers if name not in frame)
    if "line" not in made.columns:
        made = made.with_columns(pl.lit("").alias("line"))
    return made.select(
        pl.col("panel").fill_null("unknown"),
        pl.col("group").fill_null("unknown"),
        pl.col("line").cast(pl.String),
        *(pl.when(pl.col(name).cast(pl.Float64).abs() <= _LARGEST).then(pl.col(name).cast(pl.Float64)).alias(name)
          for name in numbers),
    )  # fmt: skip


def _panel_names(data: pl.DataFrame, words: Words) -> list[str]:
    found = sorted(data["panel"].unique().to_list(), key=natural)
    return list(dict.fromkeys([*words.panels, *found])) or [""]


def _group_names(spec: FacetSpec, data: pl.DataFrame, panel: str, words: Words) -> list[str]:
    found = data.filter(pl.col("panel") == panel)["group"].unique().to_list()
    wanted = [group.name for group in spec.groups if group.name in found]
    return list(dict.fromkeys([*wanted, *sorted({*words.groups.get(panel, ()), *found}, key=natural)]))


def _split(spec: FacetSpec, groups: Mapping[str, list[str]]) -> dict[str, tuple[str, list[str]]]:
    """Panels with more groups than an eye distinguishes, as several with fewer: title, then panel and its groups."""
    made: dict[str, tuple[str, list[str]]] = {}
    for panel, own in groups.items():
        heads = {name: name if spec.look == "group" else marks.parts(name)[0] for name in own}
        order = list(dict.fromkeys(heads.values()))
        count = max(1, math.ceil(len(order) / marks.most(spec)))
        size = math.ceil(len(order) / count)
        for number in range(count):
            chosen = order[number * size : (number + 1) * size]
            title = panel if count == 1 else f"{panel} ({number + 1} of {count})"
            made[title] = (panel, [name for name in own if heads[name] in chosen])
    return made


def _scales(spec: FacetSpec, data: pl.DataFrame, panels: Iterable[str]) -> dict[str, tuple[figure.Axis, figure.Axis]]:
    """The axes of each panel: of all panels together where they are shared."""
    shared = {"x": spec.share in ("both", "x"), "y": spec.share in ("both", "y")}
    made = {}
    for panel in panels:
        own = data.filter(pl.col("panel") == panel)
        x, y = (_scale(getattr(spec, name), data if shared[name] else own, name, spec) for name in ("x", "y"))
        made[panel] = (x, y)
    return made


def _scale(axis: Axis, data: pl.DataFrame, name: str, spec: FacetSpec) -> figure.Axis:
    known = data.filter(pl.col("x").is_not_null() & pl.col("y").is_not_null())
    columns = [name] if name == "x" else ["y", "low", "high"]
    values = pl.concat([known[column].drop_nulls() for column in columns])
    if name == "x" and spec.kind == "density":
        placed = known.filter(pl.col("x") > 0) if axis.scale == "log" else known
        own = [part["x"].to_list() for _, part in placed.sort("x").group_by("panel", "group", "line")]
        values = pl.Series([edge for places in own for edge in outer_edges(places, axis.scale)], dtype=pl.Float64)
    if name == "x" and spec.kind == "bars" and axis.scale != "log" and len(values):
        half = bar_step(values, axis.scale) / 2
        values = pl.concat([values - half, values + half])
    ends = _ends(axis, values, from_zero=name == "y" and spec.kind in ("bars", "density"))
    if axis.scale != "log" or not (values == 0).any():
        return figure.Axis(axis.title, axis.unit, axis.scale, ends)
    groups = known.filter(pl.col(name) == 0).group_by("panel").agg(pl.col("group").n_unique())["group"].max()
    lanes = _ZERO_LANE * groups if isinstance(groups, int) else 0.0
    band = min(_WIDEST_BAND, max(_ZERO_BAND, 0.02 + lanes))
    foot = ends[0] * (ends[0] / ends[1]) ** band
    middle = float(ends[0] * (foot / ends[0]) ** 0.5)
    return figure.Axis(axis.title, axis.unit, axis.scale, (foot, ends[1]), zeros=(middle, ends[0]))


def _ends(axis: Axis, values: pl.Series, *, from_zero: bool) -> Ends:
    if axis.limits is not None:
        return axis.limits
    log = axis.scale == "log"
    values = values.filter(values > 0) if log else values
    numbers = [float(values.min()), float(values.max())] if len(values) else []  # type: ignore[arg-type]
    if axis.cover is not None:
        numbers += axis.cover
        if (min(numbers), max(numbers)) == axis.cover:
            return axis.cover
    if not numbers:
        return (1.0, 10.0) if log else (0.0, DAY_S if axis.scale == "time" else 1.0)
    low, high = min(numbers), max(numbers)
    if log:
        return _logarithmic(low, high)
    alone = DAY_S if axis.scale == "time" else abs(high) * 0.1 or 1.0
    # Below a billionth of a number so large, its neighbours are the same number.
    room = max((high - low) * _HEADROOM or alone, abs(high) * 1e-9, abs(low) * 1e-9)
    touches_zero = axis.scale == "linear" and (from_zero or 0 <= low < high / 2)
    return (min(0.0, low) if touches_zero else low - room), high + room


def _logarithmic(low: float, high: float) -> Ends:
    """Whole decades where there is more than one, so that an axis always has numbers; else a little room."""
    low, high = max(low, _SMALLEST), max(high, _SMALLEST)
    if high / 10 > low:
        return 10.0 ** math.floor(math.log10(low)), 10.0 ** math.ceil(math.log10(high))
    return low / 1.5, high * 1.5


def _placed(part: pl.DataFrame, x: figure.Axis, y: figure.Axis) -> tuple[pl.DataFrame, Counts]:
    """The rows that are drawn, with the places of x, y, low and high (zeros at their line); and the count of all."""
    scales = {"x": x, "y": y}
    known = part.filter(pl.col("x").is_not_null() & pl.col("y").is_not_null())
    signed = known.filter(*(pl.col(name) >= 0 for name, scale in scales.items() if scale.scale == "log"))
    inside = signed.filter(_within("x", x), _within("y", y))
    at_zero = (pl.col(name).eq(0) for name, scale in scales.items() if scale.zeros is not None)
    zeros = inside.filter(pl.any_horizontal(pl.lit(False), *at_zero)).height
    moved = inside.with_columns(
        _with_lanes(name, scale, inside).alias(f"{name}_place")
        for name, scale in (("x", x), ("y", y), ("low", y), ("high", y))
    )
    # A vertical step is two points of one x, in the order of the frame.
    return moved.sort("group", "line", "x", maintain_order=True), Counts(
        rows=part.height,
        zeros=zeros,
        beyond=signed.height - inside.height,
        negative=known.height - signed.height,
        missing=part.height - known.height,
    )


def seen(axis: figure.Axis) -> Ends:
    """The ends of an axis without the band below it in which zeros stand."""
    low, high = axis.ends or (0.0, 1.0)
    return (low if axis.zeros is None else axis.zeros[1]), high


def _lane(axis: figure.Axis, share: float) -> float:
    """A place in the band of zeros, from its upper to its lower end."""
    assert axis.zeros is not None
    assert axis.ends is not None
    top, foot = axis.zeros[1], axis.ends[0]
    return float(top * (foot / top) ** share)


def _with_lanes(name: str, scale: figure.Axis, rows: pl.DataFrame) -> pl.Expr:
    """The places of a column, its zeros in the lane of their group."""
    if scale.zeros is None:
        return pl.col(name)
    groups = sorted(rows.filter(pl.col(name) == 0)["group"].unique().to_list(), key=natural)
    lanes = {group: _lane(scale, (number + 1) / (len(groups) + 1)) for number, group in enumerate(groups)}
    own = pl.col("group").replace_strict(lanes, default=None, return_dtype=pl.Float64)
    return pl.when(pl.col(name).eq(0)).then(own).otherwise(pl.col(name))


def _within(name: str, scale: figure.Axis) -> pl.Expr:
    inside = pl.col(name).is_between(*seen(scale))
    return inside | pl.col(name).eq(0) if scale.zeros is not None else inside
