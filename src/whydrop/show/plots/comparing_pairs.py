"""One quantity against another: scatter, error ellipses; and one distribution against another: quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from whydrop.recording import derived
from whydrop.recording.metrics.reducing import reduce
from whydrop.recording.statistics.distributions import NORMAL
from whydrop.show import labels
from whydrop.show.figure import Counts, Layer, Panel
from whydrop.show.plots import axes, combining
from whydrop.show.plots.choosing import Item, Source, Values, chosen, matching, summed
from whydrop.show.plots.options import PlotOptions
from whydrop.show.plots.schema import PanelSpec, PlotSpec, SeriesSpec
from whydrop.show.plots.traces import INK, panel, trace
from whydrop.show.theme import CYCLE
from whydrop.text.quantities import count

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording, Series

_AROUND = 100
ELLIPSE_NOTE = "Ellipses: one standard deviation around the mean (two-dimensional, along the principal axes)."


def panels(plot: PlotSpec, spec: PanelSpec, sources: Sequence[Source], options: PlotOptions) -> list[Panel]:
    """The panel of one specification; none where a recording lacks what is compared."""
    if plot.kind == "qq":
        return _quantiles(spec, sources, options)
    if options.combine:
        groups = combining.grouped(sources, options.group_by, options.combine)
    else:
        groups = [combining.Group(source.label, (source,)) for source in sources]
    apart = len(groups) == 1 and options.combine is None and plot.kind == "scatter"
    clouds: list[Cloud] = []
    for group in groups:
        found = [one for source in group.sources for one in _clouds(plot, spec, source, options)]
        clouds += _together(found, group.name, apart=apart)
    return [_drawn(plot, spec, clouds)] if clouds else []


def applies(spec: PanelSpec, recording: Recording) -> bool:
    """True if a recording has both quantities, and the counters that choose the steps."""
    return all(matching(recording, one) for one in wanted(spec))


def wanted(spec: PanelSpec) -> list[SeriesSpec]:
    """All series that a panel is made of, with the counters that choose the steps."""
    return [
        *spec.series,
        *(SeriesSpec.model_validate({"match": names}) for names in (spec.steps_with, spec.steps_without) if names),
    ]


@dataclass(frozen=True)
class Cloud:
    """Values of two quantities at the same steps.

    Attributes:
        name: of the flow, or of the group of recordings.
        steps: how many there were, before some were chosen.
    """

    name: str
    x: Values
    y: Values
    units: tuple[str, str]
    left_out: Counts
    steps: int


def _together(clouds: Sequence[Cloud], name: str, *, apart: bool) -> list[Cloud]:
    """Clouds of single flows, where they are few enough to be distinguished; else one of all."""
    if not clouds or (apart and 1 < len(clouds) <= len(CYCLE)):
        return list(clouds)
    x, y = (np.concatenate([getattr(one, axis) for one in clouds]) for axis in ("x", "y"))
    left_out = sum((one.left_out for one in clouds), Counts())
    return [Cloud(name, x, y, clouds[0].units, left_out, sum(one.steps for one in clouds))]


def _clouds(plot: PlotSpec, spec: PanelSpec, source: Source, options: PlotOptions) -> list[Cloud]:
    """The values of the first two series at the same steps, by flow; or of each the number that it is reduced to."""
    first, second = (chosen(source, one, options) for one in spec.series[:2])
    if not first or not second:
        return []
    if options.combine:
        values = [reduce(item.spec.reduce or "mean", combining.of_item(item)) for item in (first[0], second[0])]
        if values[0] is None or values[1] is None:
            return []
        one = np.array([values[0]]), np.array([values[1]])
        return [Cloud("", *one, (first[0].units, second[0].units), first[0].left_out, 1)]
    by_flow = {item.flow: item for item in second if item.flow is not None}
    pairs = [(item, by_flow[item.flow]) for item in first if item.flow in by_flow]
    if plot.kind != "scatter" or not pairs:
        pairs = [(first[0], second[0])]
    found = [_cloud(spec, source, x, y) for x, y in pairs]
    return [one for one in found if one is not None and len(one.x)]


def _cloud(spec: PanelSpec, source: Source, x: Item, y: Item) -> Cloud | None:
    same = _at_same_steps(x, y)
    steps = same.height
    for names, grows in ((spec.steps_with, True), (spec.steps_without, False)):
        if names:
            counter = _counter_of(source.recording, names, x.flow)
            if counter is None:
                return None
            grown = _growth(source.recording, counter, max(x.step_s, y.step_s))
            same = same.join(grown, on="step").filter((pl.col("growth") > 0) == grows)
    name = labels.shortened(x.name.partition("::")[0])
    return Cloud(name, same["x"].to_numpy(), same["y"].to_numpy(), (x.units, y.units), x.left_out, steps)


def _counter_of(recording: Recording, names: Sequence[str], flow: int | None) -> Series | None:
    """The first counter of these names that a flow has."""
    for name in names:
        for series in matching(recording, SeriesSpec.model_validate({"match": name})):
            if series.flow == flow:
                return series
    return None


def _growth(recording: Recording, counter: Series, step_s: float) -> pl.DataFrame:
    samples = recording.samples(counter.name)
    times_s = (samples["time_ns"] - recording.started_ns).cast(float).to_numpy() / 1e9
    grown = derived.growth(samples["value"].cast(float).to_numpy().astype(float))
    # Steps of values have their number in their middle.
    at_s, values = summed(times_s + step_s / 2, grown, step_s)
    return pl.DataFrame({"step": np.round(at_s / step_s).astype(int), "growth": values})


def _at_same_steps(x: Item, y: Item) -> pl.DataFrame:
    """The means of both in each step in which both have values: ``step``, ``x``, ``y``."""
    step = max(x.step_s, y.step_s)
    frames = []
    for name, item in (("x", x), ("y", y)):
        frame = pl.DataFrame({"step": np.floor(item.times_s / step + 0.5).astype(int), name: item.values})
        frames.append(frame.filter(pl.col(name).is_not_nan()).group_by("step", maintain_order=True).mean())
    return frames[0].join(frames[1], on="step").sort("step")


def _drawn(plot: PlotSpec, spec: PanelSpec, clouds: Sequence[Cloud]) -> Panel:
    x_name, y_name = (one.label or one.match[0] for one in spec.series[:2])
    traces: list[Layer] = []
    left_out = Counts()
    drawn_x, drawn_y = [], []
    for number, cloud in enumerate(clouds):
        x, y = cloud.x, cloud.y
        left_out += cloud.left_out
        of = f"{x_name} and {y_name}", cloud.name, ""
        label = cloud.name if len(clouds) > 1 else ""
        points = pl.DataFrame({"x": x, "y": y})
        if plot.kind == "scatter":
            # Without an order of time, a cloud; its centre is where the means are.
            traces.append(trace(label, of, "points", points, number))
        else:
            shape = ellipse(x, y)
            centre = pl.DataFrame({"x": [float(x.mean())], "y": [float(y.mean())]})
            traces.append(trace(label, of, "points", centre, number, rare=True))
            if shape is not None:
                traces.append(trace("", of, "outline", shape, number))
                drawn_x.append(shape["x"].to_numpy())
                drawn_y.append(shape["y"].to_numpy())
        if plot.kind == "scatter" or not drawn_x:
            drawn_x.append(x)
            drawn_y.append(y)
        drawn_x.append(np.array([x.mean()]))
        drawn_y.append(np.array([y.mean()]))
    units = clouds[0].units
    own = spec.model_copy(update={"limits": None, "log": False})
    x_ends, y_ends = axes.ends(drawn_x, own, units[0]), axes.ends(drawn_y, own, units[1])
    if plot.kind == "scatter":
        seen = [pl.Series(one.x).is_between(*x_ends) & pl.Series(one.y).is_between(*y_ends) for one in clouds]
        left_out = replace(left_out, beyond=sum(int((~one).sum()) for one in seen))
    return panel(
        spec.title, axes.title(spec.x or x_name, units[0]), axes.title(spec.y or y_name, units[1]), traces,
        x_ends=x_ends, y_ends=y_ends, left_out=left_out, notes=_notes(plot, spec, clouds),
    )  # fmt: skip


def _notes(plot: PlotSpec, spec: PanelSpec, clouds: Sequence[Cloud]) -> list[str]:
    if plot.kind == "ellipse":
        return [ELLIPSE_NOTE]
    if spec.steps_with or spec.steps_without:
        shown, steps = sum(len(one.x) for one in clouds), sum(one.steps for one in clouds)
        return [f"{count(shown)} of {count(steps)} steps are shown."]
    return []


def ellipse(x: Values, y: Values) -> pl.DataFrame | None:
    """The curve one standard deviation from the mean in the metric of the covariance; none of fewer than 3 points."""
    if len(x) < 3:
        return None
    values, vectors = np.linalg.eigh(np.cov(np.vstack((x, y))))
    angle = np.linspace(0, 2 * math.pi, _AROUND)
    circle = np.vstack((np.cos(angle), np.sin(angle)))
    curve = vectors @ (np.sqrt(np.clip(values, 0, None))[:, None] * circle)
    return pl.DataFrame({"x": curve[0] + x.mean(), "y": curve[1] + y.mean(), "order": np.arange(_AROUND)})


def _quantiles(spec: PanelSpec, sources: Sequence[Source], options: PlotOptions) -> list[Panel]:
    """Quantiles of each recording against those of the first; of one alone, against a normal distribution's."""
    items = [item for source in sources for item in chosen(source, spec.series[0], options)[:1]]
    items = [item for item in items if (~np.isnan(item.values)).sum() >= 2]
    if not items:
        return []
    first = items[0]
    reference = _sorted(first)
    traces: list[Layer] = []
    if len(items) == 1:
        n = len(reference)
        normal = np.array([NORMAL.inv_cdf((place + 0.5) / n) for place in range(n)])
        expected = reference.mean() + normal * (reference.std() or 1.0)
        traces.append(_against(first, expected, reference, 0))
        x_title = "Normal distribution of the same mean and deviation"
        traces[0] = replace(traces[0], name="")
        y_title = "Measured"
    else:
        for number, item in enumerate(items[1:]):
            traces.append(_against(item, *_same_length(reference, _sorted(item)), number))
        x_title, y_title = first.source.label, items[1].source.label if len(items) == 2 else "Others"
    drawn_x = [trace.data["x"].to_numpy() for trace in traces]
    drawn_y = [trace.data["y"].to_numpy() for trace in traces]
    own = spec.model_copy(update={"from_zero": False})
    x_ends, y_ends = (axes.ends(drawn, own, first.units) for drawn in (drawn_x, drawn_y))
    low, high = max(x_ends[0], y_ends[0]), min(x_ends[1], y_ends[1])
    if low < high:
        diagonal = pl.DataFrame({"x": [low, high], "y": [low, high]})
        traces.insert(0, trace("same distribution", ("", "", ""), "line", diagonal, INK, 1, helper=True))
    units = first.units
    made = panel(
        spec.title or spec.series[0].label or spec.series[0].match[0],
        axes.title(labels.shortened(x_title, 60), units), axes.title(labels.shortened(y_title, 60), units),
        traces, x_ends=x_ends, y_ends=y_ends, left_out=sum((item.left_out for item in items), Counts()),
    )  # fmt: skip
    return [made]


def _sorted(item: Item) -> Values:
    return np.sort(item.values[~np.isnan(item.values)])


def _same_length(x: Values, y: Values) -> tuple[Values, Values]:
    """The quantiles of both at the places of the shorter one."""
    n = min(len(x), len(y))
    places = (np.arange(n) + 0.5) / n
    return np.quantile(x, places, method="hazen"), np.quantile(y, places, method="hazen")


def _against(item: Item, x: Values, y: Values, colour: int) -> Layer:
    data = pl.DataFrame({"x": x, "y": y})
    return trace(item.source.label, item.of, "points", data, colour)
