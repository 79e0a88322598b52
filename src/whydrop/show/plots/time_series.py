"""Values over time, panels stacked: the samples themselves, averages on top, lost probes as marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import polars as pl

from whydrop.show import labels
from whydrop.show.figure import Counts, Layer, Panel
from whydrop.show.plots import axes
from whydrop.show.plots.choosing import Item, Values, smoothed
from whydrop.show.plots.schema import PanelSpec
from whydrop.show.plots.traces import INK, TIME, panel, trace
from whydrop.text import quantities

# More lines than this in one panel cannot be distinguished: they become a pale cloud with one entry in the legend.
_TOLD_APART = 14
# Samples farther apart than so many steps are not joined: nothing was measured in between (as on the grid).
_JOINED_STEPS = 5.0
# Of a long test, an average over fewer steps than this share of it would be a black band (ten minutes: 10 steps).
_WINDOWS = 300
_FATES = {"lost-up": "lost upstream", "lost-down": "lost downstream"}


def drawn(spec: PanelSpec, items: Sequence[Item], *, absolute_time: bool = False, groups: Sequence[str] = ()) -> Panel:
    """One panel of items that all have the same unit; ``groups`` are the recordings (or groups) in order of colour."""
    averages = [smoothed(item, _window(item)) for item in items if item.spec.role == "emphasis"]
    plain = [
        smoothed(item, item.spec.smoothing) if item.spec.smoothing else item
        for item in items
        if item.spec.role != "emphasis"
    ]
    y_ends = axes.ends([item.values for item in plain] or [item.values for item in averages], spec, items[0].units)
    recordings = list(groups or dict.fromkeys(item.source.label for item in (*plain, *averages)))
    colours = {label: number for number, label in enumerate(recordings)} if groups or len(recordings) > 1 else {}
    shared, traces = _lines(plain, averages, colours)
    traces += _averages(averages, colours)
    if spec.lost:
        traces += _lost(items, y_ends, counted=not groups)
    if absolute_time:
        traces = [_at_absolute_time(one, items) for one in traces]
    counted = [item for item in items if item.spec.role != "emphasis"] or averages
    left_out = sum((_left_out(item, y_ends) for item in counted), Counts())
    left_out = sum((Counts(silent=item.left_out.silent) for item in averages), left_out)
    made = panel(
        spec.title,
        "Time of day (UTC)" if absolute_time else TIME,
        axes.title(spec.y, items[0].units),
        traces,
        x_ends=None if absolute_time else _x_ends(items),
        y_ends=y_ends,
        y_log=spec.log,
        x_time=absolute_time,
        legend=shared,
        left_out=left_out,
    )
    # What ends early is no part of the time that the panels below each other share.
    return made if spec.first_s is None else replace(made, zoom="")


def _window(item: Item) -> int:
    """Steps of an average: those of the plot, but more where these would be narrower than a few pixels."""
    if not item.spec.smoothing:
        return 0
    steps = (item.times_s[-1] - item.times_s[0]) / item.step_s
    return max(item.spec.smoothing, int(steps / _WINDOWS))


def _left_out(item: Item, y_ends: tuple[float, float]) -> Counts:
    return replace(item.left_out, beyond=axes.beyond(item.values, y_ends))


def _x_ends(items: Sequence[Item]) -> tuple[float, float]:
    last = max(float(item.times_s[-1]) for item in items)
    first = min(0.0, *(float(item.times_s[0]) for item in items))
    # A little room, so that marks at the very end are whole.
    return first, max(last, first + 1.0) + 0.005 * (last - first)


def _lines(items: Sequence[Item], averages: Sequence[Item], colours: Mapping[str, int]) -> tuple[str, list[Layer]]:
    """Traces of single series, and what the names in the legend share; ``colours`` where recordings have theirs."""
    names = list(dict.fromkeys(_named(item) for item in items))
    shared, rest = labels.distinct(names)
    told = dict(zip(names, rest, strict=True))
    crowd = len(items) > _TOLD_APART or (bool(colours) and bool(averages))
    traces: list[Layer] = []
    for number, item in enumerate(items):
        name = told[_named(item)]
        colour, dash, label = number, 0, name
        if colours:
            colour, dash = colours[item.source.label], names.index(_named(item))
            label = item.source.label if len(told) == 1 or crowd else f"{item.source.label}: {name}"
        if crowd:
            # With averages on top, these carry the legend.
            colour, dash = (colour if colours else 0), 0
            label = "" if colours and averages else label if colours else f"{len(items)} series"
        traces += _line(item, label, colour, dash, "pale" if crowd else "normal")
    return ("" if colours or crowd else shared), traces


def _averages(averages: Sequence[Item], colours: Mapping[str, int]) -> list[Layer]:
    traces: list[Layer] = []
    for item in averages:
        label = item.source.label if colours else item.spec.label or _named(item)
        if item.spec.smoothing and not colours:
            steps = _window(item) // 2 * 2 + 1
            label += f" (over {steps} steps of {quantities.duration(item.step_s)})"
        traces += _line(item, label, colours.get(item.source.label, INK), 0, "heavy")
    return traces


def _named(item: Item) -> str:
    if item.spec.label is None:
        return item.name
    return item.spec.label.replace("{name}", item.name)


def _line(item: Item, label: str, colour: int, dash: int, weight: Literal["pale", "normal", "heavy"]) -> list[Layer]:
    """A line broken where nothing was measured; samples that stand alone as points, or no one would see them."""
    known = ~np.isnan(item.values)
    x, y = item.times_s[known], item.values[known]
    look = partial(trace, label, item.of, colour=colour, dash=dash, weight=weight)
    if item.spec.role == "events":
        return [look("points", _frame(x[y != 0], y[y != 0]), rare=True)]
    if item.spec.role == "points":
        return [look("points", _frame(x, y))]
    # A line through fewer points than it takes on the grid of steps is joined by its own pace.
    pace = float(np.median(np.diff(x))) if len(x) > 2 else item.step_s
    broken, alone = _broken(x, y, _JOINED_STEPS * max(item.step_s, pace))
    return [look("line", broken), *([] if alone.is_empty() else [look("points", alone, helper=True)])]


def _broken(x: Values, y: Values, farthest: float) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The line with an empty point in each gap; and the points that have a gap at both sides."""
    gaps = np.flatnonzero(np.diff(x) > farthest) + 1
    alone = np.intersect1d(np.concatenate(([0], gaps)), np.concatenate((gaps - 1, [len(x) - 1])))
    middle = (x[gaps] + x[gaps - 1]) / 2
    with_gaps = _frame(np.insert(x, gaps, middle), np.insert(y, gaps, np.nan))
    return with_gaps, _frame(x[alone], y[alone])


def _frame(x: Values, y: Values) -> pl.DataFrame:
    return pl.DataFrame({"x": x, "y": y}).with_columns(pl.col("y").fill_nan(None))


def on_one_axis(panels: Sequence[Panel]) -> list[Panel]:
    """Panels below each other show the same time at the same place, or one could not read down."""
    known = [panel.x.ends for panel in panels if panel.x.ends is not None and panel.zoom]
    if not known:
        return list(panels)
    same = min(low for low, _ in known), max(high for _, high in known)
    return [replace(panel, x=replace(panel.x, ends=same)) if panel.zoom else panel for panel in panels]


def with_ends(panel: Panel, y_ends: tuple[float, float]) -> Panel:
    """The panel with another axis of values; marks of lost probes stay at its upper edge."""
    layers = [
        replace(one, data=one.data.with_columns(y=pl.lit(_edge(y_ends)))) if one.of["mark"] == "crosses" else one
        for one in panel.layers
    ]
    return replace(panel, layers=tuple(layers), y=replace(panel.y, ends=y_ends))


def _edge(y_ends: tuple[float, float]) -> float:
    return y_ends[1] - (y_ends[1] - y_ends[0]) * 0.03


def _lost(items: Sequence[Item], y_ends: tuple[float, float], *, counted: bool) -> list[Layer]:
    """Lost probes at the panel's upper edge, separated by the direction of the loss where that is known."""
    found: dict[str, list[Values]] = {}
    for item in items:
        if not item.probes or item.spec.role == "emphasis":
            continue
        for fate, at_s in _by_fate(item).items():
            found.setdefault(fate, []).append(at_s)
    traces = []
    for fate, times in found.items():
        x = np.concatenate(times)
        if len(x):
            label = f"probe {_FATES.get(fate, 'lost')}" + (f" ({quantities.count(len(x))})" if counted else "")
            slot = list(_FATES).index(fate) if fate in _FATES else 2
            data = pl.DataFrame({"x": np.sort(x), "y": np.full(len(x), _edge(y_ends))})
            recording = items[0].source.label if len({item.source.label for item in items}) == 1 else ""
            traces.append(trace(label, ("lost probes", recording, ""), "crosses", data, slot, rare=True))
    return traces


def _by_fate(item: Item) -> dict[str, Values]:
    recording = item.source.recording
    if item.flow is None:
        return {"lost": item.lost_s()}
    probes = recording.table("probes").filter((pl.col("flow") == item.flow) & pl.col("fate").str.starts_with("lost"))
    if probes.is_empty():
        return {"lost": item.lost_s()} if len(item.lost_s()) else {}
    when = pl.coalesce("sent_ns", "scheduled_ns")
    found = {}
    first, last = item.times_s[0], item.times_s[-1]
    for (fate,), rows in probes.partition_by("fate", as_dict=True).items():
        times = (rows.select(when).to_series().drop_nulls() - recording.started_ns).cast(float).to_numpy() / 1e9
        found[str(fate)] = times[(times >= first) & (times <= last)]
    return found


def _at_absolute_time(one: Layer, items: Sequence[Item]) -> Layer:
    """Seconds since the Unix epoch; in the numbers they are milliseconds."""
    origins = {item.source.label: item.source.recording.started_ns for item in items}
    origin = origins.get(one.of["recording"], items[0].source.recording.started_ns)
    numbers = one.data.with_columns(x=pl.col("x") * 1e3 + origin / 1e6)
    return replace(one, data=one.data.with_columns(x=pl.col("x") + origin / 1e9), numbers=numbers)
