"""Ends of axes that the reader asks for: in units, of time, or such that further recordings would fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from whydrop.show.figure import Figure, NothingToDraw, Panel
from whydrop.show.plots import axes, catalogue, distributions
from whydrop.show.plots.choosing import Item, matching
from whydrop.show.plots.schema import Kind, PanelSpec
from whydrop.text import quantities

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording
    from whydrop.show.plots.options import PlotOptions


def limited(
    name: str, kind: Kind, specs: Sequence[PanelSpec], recordings: Sequence[Recording], options: PlotOptions
) -> list[PanelSpec]:
    """The panels with the ends of axes that were asked for.

    Raises:
        PlotError: no axis has the unit that was named, or several units are there and none was named.
    """
    if not options.limits:
        return list(specs)
    if kind in ("stacked", "matrix"):
        raise catalogue.PlotError(f"{name} is of the kind {kind}, of which the axis of values is fixed")
    found = {
        series.units: None for spec in specs for one in spec.series for own in recordings
        for series in matching(own, one, options)
    }  # fmt: skip
    units = list(found)
    if not units:
        # Nothing is drawn at all, and that is said.
        return list(specs)
    if options.ratio and options.baseline is not None:
        units = [""]
    ends: dict[str, tuple[float, float]] = {}
    for limits in options.limits:
        if not limits.unit and len(units) > 1:
            raise catalogue.PlotError(f"{name} has axes in {', '.join(units)}: say which, as in 0:100{units[0]}")
        unit = limits.unit or (units[0] if units else "")
        if unit not in units:
            raise catalogue.PlotError(f"{name} has no axis in {unit}; its units are {', '.join(units)}")
        ends[unit] = (limits.low, limits.high)
    return [spec.model_copy(update={"limits_of": {**spec.limits_of, **ends}}) for spec in specs]


def widened(kind: Kind, spec: PanelSpec, items: Sequence[Item], others: Sequence[Item]) -> PanelSpec:
    """The specification with ends that the other items of the same units also fit in."""
    units = items[0].units
    own = [one.values for one in (*items, *others) if one.units == units]
    if units in spec.limits_of:
        return spec
    ends = axes.ends(own, spec, units) if kind == "time-series" else distributions.ends_of(kind, spec, own, units)
    return spec.model_copy(update={"limits_of": {**spec.limits_of, units: ends}, "zoom": None})


def as_long(panel: Panel, others: Sequence[Item]) -> Panel:
    """A panel over time that is as long as others of the same test."""
    if not others or panel.x.ends is None:
        return panel
    last = max(float(item.times_s[-1]) for item in others)
    return replace(panel, x=replace(panel.x, ends=(panel.x.ends[0], max(panel.x.ends[1], last))))


def within(figure: Figure, window: tuple[float, float] | None) -> Figure:
    """The figure with this window of time, in seconds since the start.

    Raises:
        NothingToDraw: it shows nothing over the seconds of a test.
    """
    if window is None:
        return figure
    if not any(map(_is_of_seconds, figure.panels)):
        raise NothingToDraw(f"{figure.key} shows no seconds since the start, of which a part could be drawn")
    panels = tuple(replace(one, x=replace(one.x, ends=window)) if _is_of_seconds(one) else one for one in figure.panels)
    low, high = (quantities.duration(end) for end in window)
    return replace(figure, panels=panels, notes=(*figure.notes, f"The axis of time shows {low} to {high} only."))


def _is_of_seconds(panel: Panel) -> bool:
    return panel.zoom == "time" and panel.x.scale != "time"
