"""How values are spread: cumulative distributions, boxes, bars, lines over groups, and numbers as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from whydrop.show import labels, theme
from whydrop.show.figure import Counts, Ends, Layer, Panel
from whydrop.show.plots import axes
from whydrop.show.plots.choosing import Item, Values
from whydrop.show.plots.schema import Kind, PanelSpec
from whydrop.show.plots.traces import INK, panel, trace
from whydrop.show.theme import Style
from whydrop.text.quantities import significant

# With so few values, the values themselves say more than their quartiles.
_FEW = 6
_SPREAD = (5.0, 25.0, 50.0, 75.0, 95.0)
# A curve of fewer samples would pass for more than it is: their number is said.
_HARDLY_A_CURVE = 50
_MOST_BINS = 400
# Points that a cumulative distribution is drawn with; its ends are kept whole.
_STEPS, _TAIL = 1_000, 50
# From light to dark, as red, green and blue; and how dark a cell is on which white is read.
_BLUES = ((0xCF, 0xE1, 0xF2), (0x5B, 0xA3, 0xCF), (0x0A, 0x4A, 0x90))
DARK = 0.55
BOX_NOTE = "Boxes: quartiles and median; whiskers: 5th to 95th percentile; dots: the lowest and the highest value."
FEW_NOTE = "Each dot is one value; the bar is their mean."
LINE_NOTE = "Points: mean; whiskers: one standard deviation to both sides."
MATRIX_NOTE = "Cells: the mean over the recordings of a row; the darker, the larger."
BAR_NOTE = "Bars: mean; whiskers: one standard deviation to both sides."


@dataclass(frozen=True)
class Sample:
    """Values that make one box, bar or curve.

    ``category`` is its place (a series), ``group`` its colour (a recording, or a group of them); combined the other
    order, they change places.
    """

    category: str
    group: str
    units: str
    values: Values
    left_out: Counts = field(default_factory=Counts)
    series: str = ""

    @property
    def of(self) -> tuple[str, str, str]:
        """The series, the recording or group, and the units, for the numbers of a trace."""
        return self.series or self.category, self.group, self.units


def of_items(items: Sequence[Item]) -> list[Sample]:
    """The values of series as they are: one sample for each series of each recording."""
    named = dict.fromkeys((item.spec.label or item.name, item.spec.label) for item in items)
    told = dict(zip(named, labels.of_series([name for name, _ in named], [label for _, label in named]), strict=True))
    found = []
    for item in items:
        known = item.values[~np.isnan(item.values)]
        category = told[item.spec.label or item.name, item.spec.label]
        if len(known):
            found.append(Sample(category, item.source.label, item.units, known, item.left_out, item.name))
    return found


def _distinct(samples: Sequence[Sample], name: str) -> list[str]:
    return list(dict.fromkeys(getattr(sample, name) for sample in samples))


def drawn(kind: Kind, spec: PanelSpec, samples: Sequence[Sample], *, groups: Sequence[str] = ()) -> Panel:
    """One panel of samples that all have the same unit; ``groups`` are those of a cdf in order of colour."""
    match kind:
        case "cdf":
            return _cdf(spec, samples, groups)
        case "histogram":
            return _histogram(spec, samples)
        case "matrix":
            return _matrix(spec, samples)
        case "line":
            return _line(spec, samples)
        case _:
            return _rows(kind, spec, samples)


def _cdf(spec: PanelSpec, samples: Sequence[Sample], groups: Sequence[str]) -> Panel:
    x_ends = _along(spec, samples)
    groups = list(groups or _distinct(samples, "group"))
    categories = _distinct(samples, "category")
    traces, left_out = [], Counts()
    for number, sample in enumerate(samples):
        both = len(groups) > 1 and len(categories) > 1
        one = sample.group if len(groups) > 1 or not sample.category else sample.category
        label = f"{sample.group}: {sample.category}" if both else one
        # Where panels share a legend, a group has one name in all.
        if len(sample.values) < _HARDLY_A_CURVE and sample.category:
            label += f" (n = {len(sample.values)})"
        colour = groups.index(sample.group) if len(groups) > 1 else number
        dash = categories.index(sample.category) if both else 0
        traces.append(trace(label, sample.of, "line", _steps(sample.values), colour, dash))
        left_out += replace(sample.left_out, beyond=axes.beyond(sample.values, x_ends))
    return panel(
        spec.title, axes.title(spec.y, samples[0].units), "Share of samples (%)", traces,
        x_ends=x_ends, y_ends=(0.0, 101.0), x_log=spec.log, left_out=left_out,
    )  # fmt: skip


def _along(spec: PanelSpec, samples: Sequence[Sample]) -> Ends:
    return along(spec, [sample.values for sample in samples], samples[0].units)


def along(spec: PanelSpec, values: Sequence[Values], units: str) -> Ends:
    """Ends of an axis on which values stand anywhere: unlike lengths of bars, they need no zero of their own."""
    own = spec if axes.begins_at_zero(spec, units) else spec.model_copy(update={"from_zero": False})
    return axes.ends(values, own, units)


def _steps(values: Values) -> pl.DataFrame:
    """The empirical distribution as corners of steps: x sorted, y in per cent at and below x."""
    ordered = np.sort(values)
    n = len(ordered)
    picked = np.arange(n)
    if n > _STEPS + 2 * _TAIL:
        inner = np.linspace(_TAIL, n - _TAIL - 1, _STEPS).astype(int)
        picked = np.unique(np.concatenate((np.arange(_TAIL), inner, np.arange(n - _TAIL, n))))
    x, y = ordered[picked], (picked + 1) / n * 100
    # Corners: up to the new share only where the value is reached.
    return pl.DataFrame({"x": np.repeat(x, 2), "y": np.column_stack((np.concatenate(([0.0], y[:-1])), y)).ravel()})


def _histogram(spec: PanelSpec, samples: Sequence[Sample]) -> Panel:
    """Shares of samples in even bins, the same for all."""
    x_ends = _along(spec, samples)
    edges = _bins(np.concatenate([sample.values for sample in samples]))
    groups = _distinct(samples, "group")
    traces, left_out, highest = [], Counts(), 0.0
    for number, sample in enumerate(samples):
        shares = np.histogram(sample.values, edges)[0] / len(sample.values) * 100
        highest = max(highest, float(shares.max()))
        label = f"{sample.group}: {sample.category}" if len(groups) > 1 else sample.category
        if len(samples) == 1:
            data = pl.DataFrame({"x": edges[:-1], "x2": edges[1:], "y": np.zeros(len(shares)), "y2": shares})
            traces.append(trace(label, sample.of, "bars", data.filter(pl.col("y2") > 0), number))
        else:
            corners = {"x": np.repeat(edges, 2), "y": np.concatenate(([0.0], np.repeat(shares, 2), [0.0]))}
            traces.append(trace(label, sample.of, "line", pl.DataFrame(corners), number))
        left_out += replace(sample.left_out, beyond=axes.beyond(sample.values, x_ends))
    return panel(
        spec.title, axes.title(spec.y, samples[0].units), "Share of samples (%)", traces,
        x_ends=x_ends, y_ends=(0.0, highest * 1.05), x_log=spec.log, left_out=left_out,
    )  # fmt: skip


def _bins(values: Values) -> Values:
    """Edges after Freedman and Diaconis (1981), of whole numbers between them; not more than a screen can show."""
    low, high = float(values.min()), float(values.max())
    quarter, three = np.percentile(values, (25, 75))
    width = 2 * float(three - quarter) / len(values) ** (1 / 3)
    width = max(width, (high - low) / _MOST_BINS) or 1.0
    if (values == np.floor(values)).all():
        width = float(np.ceil(width))
        low -= 0.5
    return np.asarray(low + width * np.arange(int((high - low) / width) + 2))


def _rows(kind: Kind, spec: PanelSpec, samples: Sequence[Sample]) -> Panel:
    """Boxes or bars, one below the other, so that long names can be read."""
    categories = _distinct(samples, "category")
    groups = _distinct(samples, "group")
    lone = len(groups) == 1
    ends = ends_of(kind, spec, [sample.values for sample in samples], samples[0].units)
    slot = 0.8 / len(groups)
    traces: list[Layer] = []
    left_out, few = Counts(), True
    for sample in samples:
        place = -float(categories.index(sample.category))
        if not lone:
            place += 0.4 - slot * (groups.index(sample.group) + 0.5)
        colour = categories.index(sample.category) if lone else groups.index(sample.group)
        label = "" if lone else sample.group
        if kind == "bar":
            traces += _bar(sample, place, slot, colour, label, ends)
        else:
            few = few and len(sample.values) < _FEW
            traces += _box(sample, place, slot, colour, label)
        seen = _extent(kind, sample.values) if kind == "bar" else sample.values
        left_out += replace(sample.left_out, beyond=axes.beyond(seen, ends))
    words = tuple((-float(number), category) for number, category in enumerate(categories))
    note = BAR_NOTE if kind == "bar" else FEW_NOTE if few else BOX_NOTE
    return panel(
        spec.title, axes.title(spec.y, samples[0].units), "", traces, x_ends=ends,
        y_ends=(-len(categories) + 0.5, 0.5), x_log=spec.log, y_words=words, left_out=left_out, notes=[note],
    )  # fmt: skip


def ends_of(kind: Kind, spec: PanelSpec, values: Sequence[Values], units: str) -> Ends:
    """The ends of the axis of values of curves, boxes or bars."""
    if kind in ("cdf", "histogram"):
        return along(spec, values, units)
    known = [found for one in values if len(found := one[~np.isnan(one)])]
    return axes.ends([_extent(kind, one) for one in known], _based(kind, spec), units)


def _based(kind: Kind, spec: PanelSpec) -> PanelSpec:
    """Bars must begin at zero: their length is what is compared."""
    return spec.model_copy(update={"from_zero": True, "zoom": None}) if kind == "bar" and not spec.log else spec


def _extent(kind: Kind, values: Values) -> Values:
    if kind != "bar":
        return values
    return np.array([values.mean() - values.std(), values.mean(), values.mean() + values.std()])


def _bar(sample: Sample, place: float, slot: float, colour: int, label: str, ends: tuple[float, float]) -> list[Layer]:
    mean, std, half = float(sample.values.mean()), float(sample.values.std()), slot * 0.4
    base = min(max(0.0, ends[0]), ends[1])
    bar = pl.DataFrame({"x": [base], "x2": [mean], "y": [place - half], "y2": [place + half]})
    numbers = bar.with_columns(mean=pl.lit(mean), std=pl.lit(std), count=pl.lit(len(sample.values)))
    whisker = pl.DataFrame({"x": [mean - std], "x2": [mean + std], "y": [place]})
    return [
        trace(label, sample.of, "bars", numbers, colour),
        trace(label, sample.of, "spans", whisker, INK, helper=True),
    ]


def _box(sample: Sample, place: float, slot: float, colour: int, label: str) -> list[Layer]:
    values, half = sample.values, slot * 0.36
    if len(values) < _FEW:
        dots = pl.DataFrame({"x": values, "y": np.full(len(values), place)})
        mean = float(values.mean())
        bar = pl.DataFrame({"x": [mean], "y": [place - half], "y2": [place + half]})
        return [
            trace(label, sample.of, "ticks", bar, INK, helper=True),
            replace(trace(label, sample.of, "points", dots, colour), rare=True),
        ]
    low, q1, median, q3, high = (float(p) for p in np.percentile(values, _SPREAD))
    box = pl.DataFrame({"x": [q1], "x2": [q3], "y": [place - half], "y2": [place + half]})
    numbers = box.with_columns(
        minimum=pl.lit(float(values.min())), p5=pl.lit(low), median=pl.lit(median), p95=pl.lit(high),
        maximum=pl.lit(float(values.max())), mean=pl.lit(float(values.mean())), count=pl.lit(len(values)),
    )  # fmt: skip
    whiskers = pl.DataFrame({"x": [low, q3], "x2": [q1, high], "y": [place, place]})
    middle = pl.DataFrame({"x": [median], "y": [place - half], "y2": [place + half]})
    extremes = pl.DataFrame({"x": [float(values.min()), float(values.max())], "y": [place, place]})
    return [
        trace(label, sample.of, "spans", whiskers, colour, helper=True),
        trace(label, sample.of, "bars", numbers, colour),
        trace(label, sample.of, "ticks", middle, INK, helper=True),
        trace(label, sample.of, "points", extremes, colour, helper=True),
    ]


def _line(spec: PanelSpec, samples: Sequence[Sample]) -> Panel:
    """Means over groups that stand in a row: by number where their names are numbers."""
    categories = _distinct(samples, "category")
    numbers = [_number(category) for category in categories]
    known = [number for number in numbers if number is not None]
    numeric = len(known) == len(categories)
    places = dict(zip(categories, known if numeric else map(float, range(len(categories))), strict=True))
    lines = _distinct(samples, "group")
    traces: list[Layer] = []
    for number, line in enumerate(lines):
        own = sorted((one for one in samples if one.group == line), key=lambda one: places[one.category])
        means = [float(one.values.mean()) for one in own]
        data = pl.DataFrame({"x": [places[one.category] for one in own], "y": means})
        stds = [float(one.values.std()) for one in own]
        spread = data.select("x", y=pl.col("y") - pl.Series(stds), y2=pl.col("y") + pl.Series(stds))
        of = own[0].series or line, line, own[0].units
        traces.append(trace(line, of, "line", data, number))
        traces.append(trace(line, of, "points", data, number, helper=True, rare=True))
        traces.append(trace(line, of, "spans", spread, number, helper=True))
    reaches = [one.data[name].to_numpy() for one in traces if one.mark == "spans" for name in ("y", "y2")]
    ends = axes.ends(reaches, spec, samples[0].units)
    words = tuple((place, category) for category, place in places.items())
    reach = list(places.values())
    room = (max(reach) - min(reach)) * 0.05 or 0.5
    return panel(
        spec.title, spec.x, axes.title(spec.y, samples[0].units), traces,
        x_ends=(min(reach) - room, max(reach) + room), y_ends=ends, y_log=spec.log, x_words=words,
        left_out=sum((sample.left_out for sample in samples), Counts()), notes=[LINE_NOTE],
    )  # fmt: skip


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _matrix(spec: PanelSpec, samples: Sequence[Sample]) -> Panel:
    """Means as numbers on shaded cells: recordings or groups down, series across."""
    across = _distinct(samples, "category")
    down = _distinct(samples, "group")
    means = np.array([float(sample.values.mean()) for sample in samples])
    shares = (means - means.min()) / (np.ptp(means) or 1.0)
    traces: list[Layer] = []
    for sample, mean, share in zip(samples, means, shares, strict=True):
        x, y = float(across.index(sample.category)), -float(down.index(sample.group))
        cell = pl.DataFrame({"x": [x - 0.5], "x2": [x + 0.5], "y": [y - 0.5], "y2": [y + 0.5], "value": [mean]})
        text = pl.DataFrame({"x": [x], "y": [y], "text": [significant(mean)]})
        tint, ink = shade(share), "#ffffff" if share > DARK else theme.INK
        traces.append(replace(trace("", sample.of, "cells", cell, 0), style=Style(tint, tint)))
        traces.append(replace(trace("", sample.of, "text", text, INK, helper=True), style=Style(ink, ink)))
    return panel(
        axes.title(spec.title or spec.y, samples[0].units), "", "", traces,
        x_ends=(-0.5, len(across) - 0.5), y_ends=(-len(down) + 0.5, 0.5),
        x_words=tuple((float(number), name) for number, name in enumerate(across)),
        y_words=tuple((-float(number), name) for number, name in enumerate(down)),
        left_out=sum((sample.left_out for sample in samples), Counts()), notes=[MATRIX_NOTE],
    )  # fmt: skip


def shade(share: float) -> str:
    """A blue that is the darker, the larger the share.

    >>> shade(0.0), shade(0.5), shade(1.0)
    ('#cfe1f2', '#5ba3cf', '#0a4a90')
    """
    mixed = [round(float(np.interp(share, (0.0, 0.5, 1.0), levels))) for levels in zip(*_BLUES, strict=True)]
    return f"#{bytes(mixed).hex()}"
