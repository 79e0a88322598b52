"""Counters that share something, on top of each other: what limits a connection, drops by their reason.

Each is drawn as its growth in even steps of time, whether a counter or a rate. Of clocks (in ms) that is the share of
the time for which they ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from whydrop.recording import derived
from whydrop.show import labels
from whydrop.show.figure import Counts, Layer, Panel
from whydrop.show.plots import axes
from whydrop.show.plots.choosing import Item, Source, Values, chosen
from whydrop.show.plots.options import PlotOptions
from whydrop.show.plots.schema import PanelSpec
from whydrop.show.plots.traces import TIME, panel, trace
from whydrop.text.quantities import count

# Steps of a long recording: as many as a picture can show.
_MOST_STEPS = 300
# Connections each of which has a panel of its own.
_MOST_PANELS = 6


def panels(spec: PanelSpec, sources: Sequence[Source], options: PlotOptions) -> list[Panel]:
    """A panel for each flow, those in which most grew first where they are too many; one of what is of no flow."""
    found: list[tuple[float, str, list[Item]]] = []
    for source in sources:
        items = [item for one in spec.series for item in chosen(source, one, options) if len(item.values) > 1]
        for flow in dict.fromkeys(item.flow for item in items):
            own = [item for item in items if item.flow == flow]
            named = "" if flow is None else own[0].name.partition("::")[0]
            parts = [source.label if len(sources) > 1 else "", labels.shortened(named)]
            found.append((_weight(spec, own), ": ".join(part for part in parts if part), own))
    most = sorted(range(len(found)), key=lambda number: -found[number][0])[:_MOST_PANELS]
    # Those that only ever waited are shown where all did.
    most = [number for number in most if found[number][0] > 0] or most
    notes = (f"Not shown: {count(len(found) - len(most))} more.",) if len(found) > len(most) else ()
    # In the order of the recording.
    shown = [found[number] for number in sorted(most)]
    return [replace(_drawn(spec, title, own, options.absolute_time), notes=notes) for _, title, own in shown]


def _weight(spec: PanelSpec, items: Sequence[Item]) -> float:
    """How much grew, of all but the last of several series: that is what remains of the time."""
    counted = [item for item in items if item.spec is not spec.series[-1] or len(spec.series) == 1]
    return sum(float(_grown(item).sum()) for item in counted)


def _drawn(spec: PanelSpec, title: str, items: Sequence[Item], absolute_time: bool) -> Panel:
    edges = _edges(items)
    items = _evened(items)
    shares = items[0].units == "ms"
    heights = np.vstack([_growth_per_s(item, edges) * (0.1 if shares else 1.0) for item in items])
    if shares:
        # The kernel's clocks have different ticks.
        heights /= np.maximum(1.0, heights.sum(axis=0) / 100.0)
    units = "%" if shares else f"{items[0].units.removesuffix('/s')}/s"
    origin_s = items[0].source.recording.started_ns / 1e9 if absolute_time else 0.0
    base = np.zeros(heights.shape[1])
    layers: list[Layer] = []
    places = {id(one): number for number, one in enumerate(spec.series)}
    names = labels.of_series([item.name for item in items], [item.spec.label for item in items])
    for number, (item, name, height) in enumerate(zip(items, names, heights, strict=True)):
        data = _corners(edges + origin_s, base, base + height)
        colour = places[id(item.spec)] if len(spec.series) > 1 else number
        layer = trace(name, (item.name, item.source.label, units), "band", data, colour)
        layers.append(replace(layer, numbers=pl.DataFrame({"x": edges[:-1] + origin_s, "y": height})))
        base = base + height
    return panel(
        title or spec.title, "Time of day (UTC)" if absolute_time else TIME, axes.title(spec.y, units), layers[::-1],
        x_ends=None if absolute_time else (float(edges[0]), float(edges[-1])),
        y_ends=(0.0, 100.0) if shares else (0.0, float(base.max()) * 1.05 or 1.0), x_time=absolute_time,
        left_out=sum((item.left_out for item in items), Counts()),
    )  # fmt: skip


def _edges(items: Sequence[Item]) -> Values:
    first = min(float(item.times_s[0]) for item in items)
    last = max(float(item.times_s[-1]) for item in items)
    steps = max(1, min(_MOST_STEPS, int((last - first) / items[0].step_s)))
    return np.linspace(first, max(last, first + 1e-9), steps + 1)


def _evened(items: Sequence[Item]) -> list[Item]:
    """web100's clocks stand while one limit lasts: drawn as they are, most of the time would belong to no limit."""
    own = {item.quantity: item for item in items if item.quantity in _SNDLIM}
    times = [item.times_s for item in own.values()]
    if len(own) < len(_SNDLIM) or not all(np.array_equal(times[0], others) for others in times):
        return list(items)
    even = derived.evened(times[0], [item.values for item in own.values()])
    values = dict(zip(own, even, strict=True))
    return [replace(item, values=values.get(item.quantity, item.values)) for item in items]


# All three that web100 has; Linux has the first, and no other of them.
_SNDLIM = ("receive-window-limited-time", "congestion-limited-time", "sender-limited-time")


def _growth_per_s(item: Item, edges: Values) -> Values:
    """A counter's growth in each step, in its units a second; between samples it is taken to grow evenly."""
    return np.asarray(np.diff(np.interp(edges, item.times_s, np.cumsum(_grown(item)))) / np.diff(edges))


def _grown(item: Item) -> Values:
    """By how much a counter grew since the sample before; of a rate, by how much what it is the rate of grew."""
    grown = (
        item.values * np.diff(item.times_s, prepend=np.nan)
        if item.units.endswith("/s")
        else derived.growth(item.values)
    )
    return np.nan_to_num(grown)


def _corners(edges: Values, low: Values, high: Values) -> pl.DataFrame:
    """Steps as corners: each height from its step's beginning to its end."""
    x = np.column_stack((edges[:-1], edges[1:])).ravel()
    return pl.DataFrame({"x": x, "y": np.repeat(low, 2), "y2": np.repeat(high, 2)})
