"""One quantity against another: scatter, error ellipses; and one distribution against another: quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from whydrop.recording.metrics.reducing import reduce
from whydrop.show import labels
from whydrop.show.figure import Layer, NothingToDraw, Panel
from whydrop.show.plots import axes, combining
from whydrop.show.plots.choosing import Choice, Item, Source, Values, chosen
from whydrop.show.plots.schema import Combiner, PanelSpec, PlotSpec
from whydrop.show.plots.traces import INK, LeftOut, panel, trace

Made = tuple[Panel, LeftOut, Sequence[str]]

_AROUND = 100
ELLIPSE_NOTE = "Ellipses: one standard deviation around the mean (two-dimensional, along the principal axes)."


def panels(
    plot: PlotSpec, spec: PanelSpec, sources: Sequence[Source], choice: Choice, combine: Combiner | None,
    keys: Sequence[str],
) -> list[Made]:  # fmt: skip
    """The panel of one specification; none where a recording lacks what is compared."""
    if plot.kind == "qq":
        return _quantiles(spec, sources, choice, plot.cut)
    groups = combining.grouped(sources, keys, combine) if combine else [
        combining.Group(source.label, (source,)) for source in sources
    ]  # fmt: skip
    clouds = []
    for group in groups:
        found = [_pairs(spec, source, choice, plot.cut, reduced=combine is not None) for source in group.sources]
        pairs = [one for one in found if one is not None]
        if pairs:
            x = np.concatenate([one[0] for one in pairs])
            y = np.concatenate([one[1] for one in pairs])
            left_out = sum((one[3] for one in pairs), LeftOut())
            clouds.append((group.name, x, y, pairs[0][2], left_out))
    if not clouds:
        return []
    return [_clouds(plot, spec, clouds)]


Pairs = tuple[Values, Values, tuple[str, str], LeftOut]


def _pairs(spec: PanelSpec, source: Source, choice: Choice, cut: bool, *, reduced: bool) -> Pairs | None:
    """The values of the first two series at the same steps; or of each the one number that it is reduced to."""
    found: list[Item] = []
    for one in spec.series[:2]:
        items = chosen(source, one, choice, cut=cut)
        if not items:
            return None
        found.append(items[0])
    x, y = found
    left_out = x.left_out
    units = (x.units, y.units)
    if reduced:
        values = [reduce(item.spec.reduce or "mean", combining.of_item(item)) for item in found]
        if values[0] is None or values[1] is None:
            return None
        return np.array([values[0]]), np.array([values[1]]), units, left_out
    same = _at_same_steps(x, y)
    return (*same, units, left_out) if len(same[0]) else None


def _at_same_steps(x: Item, y: Item) -> tuple[Values, Values]:
    step = max(x.step_s, y.step_s)
    frames = []
    for name, item in (("x", x), ("y", y)):
        frame = pl.DataFrame({"step": np.round(item.times_s / step).astype(int), name: item.values})
        frames.append(frame.filter(pl.col(name).is_not_nan()).group_by("step", maintain_order=True).mean())
    joined = frames[0].join(frames[1], on="step").sort("step")
    return joined["x"].to_numpy(), joined["y"].to_numpy()


def _clouds(
    plot: PlotSpec, spec: PanelSpec, clouds: Sequence[tuple[str, Values, Values, tuple[str, str], LeftOut]]
) -> Made:
    x_name, y_name = (labels_of(one.label, one.match) for one in spec.series[:2])
    traces: list[Layer] = []
    left_out = LeftOut()
    drawn_x, drawn_y = [], []
    for number, (group, x, y, _, out) in enumerate(clouds):
        left_out += out
        common = (f"{x_name} and {y_name}", group, "")
        label = group if len(clouds) > 1 else ""
        points = pl.DataFrame({"x": x, "y": y})
        if plot.kind == "scatter":
            # Without an order of time, a cloud; its centre is where the means are.
            traces.append(trace(label, *common, "points", points, number))
        else:
            shape = _ellipse(x, y)
            traces.append(trace(label, *common, "points", _centre(x, y), number, rare=True))
            if shape is not None:
                traces.append(trace("", *common, "outline", shape, number))
                drawn_x.append(shape["x"].to_numpy())
                drawn_y.append(shape["y"].to_numpy())
        if plot.kind == "scatter" or not drawn_x:
            drawn_x.append(x)
            drawn_y.append(y)
        drawn_x.append(np.array([x.mean()]))
        drawn_y.append(np.array([y.mean()]))
    units = clouds[0][3]
    own = spec.model_copy(update={"limits": None, "log": False})
    x_ends, y_ends = axes.ends(drawn_x, own, units[0]), axes.ends(drawn_y, own, units[1])
    if plot.kind == "scatter":
        hidden = sum(axes.beyond(x, x_ends) + axes.beyond(y, y_ends) for _, x, y, _, _ in clouds)
        left_out = replace(left_out, beyond=hidden)
    made = panel(
        spec.title, axes.title(spec.x or x_name, units[0]), axes.title(spec.y or y_name, units[1]), tuple(traces),
        x_ends=x_ends, y_ends=y_ends,
    )  # fmt: skip
    return made, left_out, [ELLIPSE_NOTE] if plot.kind == "ellipse" else []


def labels_of(label: str | None, patterns: Sequence[str]) -> str:
    """The words for a quantity."""
    return label or patterns[0]


def _centre(x: Values, y: Values) -> pl.DataFrame:
    return pl.DataFrame({"x": [float(x.mean())], "y": [float(y.mean())]})


def _ellipse(x: Values, y: Values) -> pl.DataFrame | None:
    """The curve one standard deviation from the mean in the metric of the covariance; none of fewer than 3 points."""
    if len(x) < 3:
        return None
    values, vectors = np.linalg.eigh(np.cov(np.vstack((x, y))))
    angle = np.linspace(0, 2 * math.pi, _AROUND)
    circle = np.vstack((np.cos(angle), np.sin(angle)))
    curve = vectors @ (np.sqrt(np.clip(values, 0, None))[:, None] * circle)
    return pl.DataFrame({"x": curve[0] + x.mean(), "y": curve[1] + y.mean(), "order": np.arange(_AROUND)})


def _quantiles(spec: PanelSpec, sources: Sequence[Source], choice: Choice, cut: bool) -> list[Made]:
    """Quantiles of each recording against those of the first; of one alone, against a normal distribution's."""
    items = [item for source in sources for item in chosen(source, spec.series[0], choice, cut=cut)[:1]]
    items = [item for item in items if (~np.isnan(item.values)).sum() >= 2]
    if not items:
        return []
    first = items[0]
    reference = _sorted(first)
    traces: list[Layer] = []
    if len(items) == 1:
        from scipy import stats

        n = len(reference)
        expected = stats.norm.ppf((np.arange(n) + 0.5) / n, reference.mean(), reference.std() or 1.0)
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
        traces.insert(0, trace("same distribution", "", "", "", "line", diagonal, INK, 1, helper=True))
    units = first.units
    made = panel(
        spec.title or labels_of(spec.series[0].label, spec.series[0].match),
        axes.title(labels.shortened(x_title, 60), units), axes.title(labels.shortened(y_title, 60), units),
        tuple(traces), x_ends=x_ends, y_ends=y_ends,
    )  # fmt: skip
    left_out = sum((item.left_out for item in items), LeftOut())
    return [(made, left_out, ())]


def _sorted(item: Item) -> Values:
    return np.sort(item.values[~np.isnan(item.values)])


def _same_length(x: Values, y: Values) -> tuple[Values, Values]:
    """The quantiles of both at the places of the shorter one."""
    n = min(len(x), len(y))
    places = (np.arange(n) + 0.5) / n
    return np.quantile(x, places, method="hazen"), np.quantile(y, places, method="hazen")


def _against(item: Item, x: Values, y: Values, colour: int) -> Layer:
    data = pl.DataFrame({"x": x, "y": y})
    return trace(item.source.label, item.name, item.source.label, item.units, "points", data, colour)


__all__ = ["NothingToDraw", "panels"]
