"""From a frame and what a catalogue says of it to panels: axes, places, looks, and what is not seen."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from whydrop import units
from whydrop.show.facets import looks
from whydrop.show.facets.looks import Look
from whydrop.show.facets.schema import Axis, FacetSpec
from whydrop.show.printable import printable

Ends = tuple[float, float]

# The band below a logarithmic axis in which zeros stand, as a share of the axis.
# Each group has a lane of its own in it, or one would not see whose zeros they are.
_ZERO_BAND, _ZERO_LANE, _WIDEST_BAND = 0.09, 0.022, 0.3
_HEADROOM = 0.04
_DAY_S = 86_400.0
# No axis goes further: sums of numbers beyond it are infinite.
_LARGEST, _SMALLEST = 1e300, 1e-300


@dataclass(frozen=True)
class Counts:
    """Rows of a picture, and why some of them are not where their numbers say, or not seen at all."""

    rows: int = 0
    zeros: int = 0  # drawn on the line marked 0 of a logarithmic axis
    beyond: int = 0  # of fixed axes: not drawn
    negative: int = 0  # on a logarithmic axis: not drawn
    missing: int = 0  # without a value: not drawn

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows, self.zeros + other.zeros, self.beyond + other.beyond,
            self.negative + other.negative, self.missing + other.missing,
        )  # fmt: skip

    def words(self, missing: str, what: str = "points") -> str:
        """One sentence: how many, and where those are that one does not see at their place."""
        if not self.rows:
            return "Nothing to draw: there are no rows."
        drawn = self.rows - self.beyond - self.negative - self.missing
        share = "" if drawn == self.rows else f" of {units.count(self.rows)}"
        parts = [f"Drawn: {units.count(drawn)}{share} {what if self.rows != 1 else what.removesuffix('s')}"]
        for count, why in (
            (self.zeros, "at 0, below the dashed line"),
            (self.beyond, "beyond the axes"),
            (self.negative, "below 0, where a logarithmic axis has no place"),
            (self.missing, re.sub(r"^(\w+)s have\b", r"\1 has", missing) if self.missing == 1 else missing),
        ):
            if count:
                parts.append(f"{units.count(count)} {why}")
        return "; ".join(parts) + "."


@dataclass(frozen=True)
class Scale:
    """An axis as it is drawn; ``zeros_from`` is the lower end of the band of zeros, where there is one."""

    axis: Axis
    ends: Ends
    zeros_from: float | None = None

    @property
    def domain(self) -> Ends:
        """The ends with the band of the zeros."""
        return self.ends if self.zeros_from is None else (self.zeros_from, self.ends[1])

    @property
    def zero(self) -> float | None:
        """Where the number 0 stands: the middle of the band."""
        return None if self.zeros_from is None else self.lane(0.5)

    def lane(self, share: float) -> float:
        """A place in the band of zeros, from its upper to its lower end."""
        assert self.zeros_from is not None
        return float(self.ends[0] * (self.zeros_from / self.ends[0]) ** share)


@dataclass(frozen=True)
class Drawn:
    """A group in a panel: what is drawn of it, in the axes' units; ``line`` tells its lines apart."""

    group: str
    label: str
    look: Look
    data: pl.DataFrame
    front: bool = False  # on top, and never thinned


@dataclass(frozen=True)
class Panel:
    """One pair of axes; groups from back to front, the rarest in front."""

    name: str
    title: str
    x: Scale
    y: Scale
    groups: tuple[Drawn, ...]
    listed: tuple[Drawn, ...]  # in the order of the legend


@dataclass(frozen=True)
class Facets:
    """One picture as data."""

    key: str
    title: str
    subtitle: str
    spec: FacetSpec
    panels: tuple[Panel, ...]
    one_legend: bool
    counts: Counts
    notes: tuple[str, ...] = ()

    def footnotes(self) -> list[str]:
        """The words below: what is not seen first."""
        what = "bins" if self.spec.kind == "density" else "points"
        return [self.counts.words(self.spec.missing, what), *self.notes]

    def titled(self, title: str | None) -> Facets:
        """The same with another title."""
        return self if title is None else replace(self, title=printable(title))


@dataclass(frozen=True)
class Words:
    """What is said in a picture beside its numbers.

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


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts numbers in words as numbers.

    >>> sorted(["dfw10", "dfw9"], key=natural)
    ['dfw9', 'dfw10']
    """
    return tuple((1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.findall(r"\d+|\D+", text))


def build(key: str, spec: FacetSpec, frame: pl.DataFrame, words: Words = Words()) -> Facets:
    """Lay a picture out.

    Args:
        key: the picture's name.
        spec: what it looks like.
        frame: panel, group, x, y; low, high and line if there are any. Unordered.
        words: what is said beside it.
    """
    data = _completed(frame)
    panels = _panel_names(data, words)
    groups = {panel: _group_names(spec, data, panel, words) for panel in panels}
    split = _split(spec, groups)
    found, one_legend = looks.of_panels(spec, {title: own for title, (_, own) in split.items()})
    if words.labels:
        one_legend = False
    scales = _scales(spec, data, [name for name, _ in split.values()])
    counts = Counts()
    made = []
    for title, (panel, own) in split.items():
        x, y = scales[panel]
        part = data.filter(pl.col("panel").eq(panel) & pl.col("group").is_in(own))
        placed, counted = _placed(part, x, y)
        counts += counted
        drawn = [
            Drawn(group, printable(words.labels.get((panel, group)) or _label(spec, group)), found[title][group],
                  placed.filter(pl.col("group") == group), _front(spec, group))
            for group in own
        ]  # fmt: skip
        listed = tuple(one for one in drawn if one.data.height)
        # Of lines the dashed ones come later in the palette: above solid ones both are seen.
        lines = spec.kind in ("line", "density")
        in_depth = sorted(listed, key=lambda one: (one.front, 0 if lines else -one.data.height))
        made.append(Panel(panel, printable(title), x, y, tuple(in_depth), listed))
    told = words.counts or counts
    # Control characters in words would end the writer of SVG, and with it this process.
    title, subtitle, notes = printable(spec.title), printable(words.subtitle), tuple(map(printable, words.notes))
    return Facets(key, title, subtitle, spec, tuple(made), one_legend, told, notes)


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
    """Panels with more groups than eyes tell apart, as several with fewer: title, then panel and its groups."""
    limit = looks.most(spec)
    made: dict[str, tuple[str, list[str]]] = {}
    for panel, own in groups.items():
        heads = list(dict.fromkeys(looks.parts(name)[0] if spec.look != "group" else name for name in own))
        count = max(1, math.ceil(len(heads) / limit))
        size = math.ceil(len(heads) / count) if heads else 0
        for number in range(count):
            chosen = set(heads[number * size : (number + 1) * size])
            part = [name for name in own if (looks.parts(name)[0] if spec.look != "group" else name) in chosen]
            title = panel if count == 1 else f"{panel} ({number + 1} of {count})"
            made[title] = (panel, part)
    return made


def _front(spec: FacetSpec, group: str) -> bool:
    return any(one.front for one in spec.groups if one.name == group)


def _label(spec: FacetSpec, group: str) -> str:
    return next((one.label for one in spec.groups if one.name == group and one.label), group)


def _scales(spec: FacetSpec, data: pl.DataFrame, panels: Iterable[str]) -> dict[str, tuple[Scale, Scale]]:
    """The axes of each panel: of all panels together where they are shared."""
    whole = {"x": _scale(spec.x, data, "x", spec), "y": _scale(spec.y, data, "y", spec)}
    made = {}
    for panel in panels:
        own = data.filter(pl.col("panel") == panel)
        x = whole["x"] if spec.share in ("both", "x") else _scale(spec.x, own, "x", spec)
        y = whole["y"] if spec.share in ("both", "y") else _scale(spec.y, own, "y", spec)
        made[panel] = (x, y)
    return made


def _scale(axis: Axis, data: pl.DataFrame, name: str, spec: FacetSpec) -> Scale:
    known = data.filter(pl.col("x").is_not_null() & pl.col("y").is_not_null())
    columns = [name] if name == "x" else ["y", "low", "high"]
    values = pl.concat([known[column].drop_nulls() for column in columns])
    if name == "x" and spec.kind == "density":
        placed = known.filter(pl.col("x") > 0) if axis.scale == "log" else known
        own = [part["x"].to_list() for _, part in placed.sort("x").group_by("panel", "group", "line")]
        values = pl.Series([edge for places in own for edge in outer_edges(places, axis)], dtype=pl.Float64)
    if name == "x" and spec.kind == "bars" and axis.scale != "log" and len(values):
        half = bar_step(values, axis) / 2
        values = pl.concat([values - half, values + half])
    ends = _ends(axis, values, from_zero=name == "y" and spec.kind in ("bars", "density"))
    if axis.scale != "log" or not (values == 0).any():
        return Scale(axis, ends)
    groups = known.filter(pl.col(name) == 0).group_by("panel").agg(pl.col("group").n_unique())["group"].max()
    lanes = _ZERO_LANE * groups if isinstance(groups, int) else 0.0
    band = min(_WIDEST_BAND, max(_ZERO_BAND, 0.02 + lanes))
    return Scale(axis, ends, ends[0] * (ends[0] / ends[1]) ** band)


def bar_step(places: pl.Series, axis: Axis) -> float:
    """From one place of bars to the next; of a single place a day of time, else 1."""
    steps = places.drop_nulls().unique().sort().diff().drop_nulls()
    least = steps.filter(steps > 0).min()
    return float(least) if isinstance(least, float) else _DAY_S if axis.scale == "time" else 1.0


def outer_edges(places: Sequence[float], axis: Axis) -> Ends:
    """The first bin's lower and the last one's upper edge, from bins' centres in order.

    The width of the bins is the distance of the first two; that of a single bin is not known: a tenth of a decade, or
    of the number itself, stands for it.
    """
    log = axis.scale == "log"
    known = [math.log10(place) for place in places] if log else list(places)
    width = known[1] - known[0] if len(known) > 1 else 0.1 if log else abs(known[0]) * 0.1 or 1.0
    low, high = known[0] - width / 2, known[-1] + width / 2
    return (10.0**low, 10.0**high) if log else (low, high)


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
        return (1.0, 10.0) if log else (0.0, _DAY_S if axis.scale == "time" else 1.0)
    low, high = min(numbers), max(numbers)
    if log:
        return _logarithmic(low, high)
    alone = _DAY_S if axis.scale == "time" else abs(high) * 0.1 or 1.0
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


def _placed(part: pl.DataFrame, x: Scale, y: Scale) -> tuple[pl.DataFrame, Counts]:
    """The rows that are drawn, zeros at their line; and the count of all."""
    known = part.filter(pl.col("x").is_not_null() & pl.col("y").is_not_null())
    missing = part.height - known.height
    signed = known.filter(*(pl.col(name) >= 0 for name, scale in (("x", x), ("y", y)) if scale.axis.scale == "log"))
    inside = signed.filter(_within("x", x), _within("y", y))
    zeros = inside.filter(
        pl.any_horizontal(
            pl.lit(False), *(pl.col(n).eq(0) for n, s in (("x", x), ("y", y)) if s.zeros_from is not None)
        )
    ).height
    moved = inside.with_columns(
        _with_lanes(name, scale, inside)
        for name, scale in (("x", x), ("y", y), ("low", y), ("high", y))
        if scale.zeros_from is not None
    )
    return moved.sort("group", "line", "x"), Counts(
        part.height, zeros, signed.height - inside.height, known.height - signed.height, missing
    )


def _with_lanes(name: str, scale: Scale, rows: pl.DataFrame) -> pl.Expr:
    """A column with its zeros in the lane of their group."""
    groups = sorted(rows.filter(pl.col(name) == 0)["group"].unique().to_list(), key=natural)
    lanes = {group: scale.lane((number + 1) / (len(groups) + 1)) for number, group in enumerate(groups)}
    lane = pl.col("group").replace_strict(lanes, default=None, return_dtype=pl.Float64)
    return pl.when(pl.col(name).eq(0)).then(lane).otherwise(pl.col(name)).alias(name)


def _within(name: str, scale: Scale) -> pl.Expr:
    low, high = scale.ends
    inside = pl.col(name).is_between(low, high)
    return inside | pl.col(name).eq(0) if scale.zeros_from is not None else inside
