"""Faceted pictures of recordings: the series of a plot, a picture, panel and look for each value of metadata keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from whydrop.recording.comparing import grouping
from whydrop.show import labels
from whydrop.show.facets import building
from whydrop.show.facets.building import Words
from whydrop.show.facets.schema import Axis, FacetSpec
from whydrop.show.figure import Figure, NothingToDraw
from whydrop.show.plots import axes, catalogue
from whydrop.show.plots.choosing import Item, Source, chosen, smoothed
from whydrop.show.plots.traces import LeftOut

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording
    from whydrop.show.plots.building import PlotOptions
    from whydrop.show.plots.schema import PanelSpec, PlotSpec

_KINDS = ("time-series", "cdf")


@dataclass(frozen=True)
class Keys:
    """Metadata keys (or ``title``, ``name``, ``batch``, ``series``, ``recording``) of pictures, panels and looks."""

    figure_by: tuple[str, ...] = ()
    panel_by: tuple[str, ...] = ()
    group_by: tuple[str, ...] = ()


def facets(
    name: str, plot: PlotSpec, recordings: Sequence[Recording], keys: Keys, options: PlotOptions
) -> list[Figure]:
    """The pictures of a plot: one for each value of ``figure_by`` and each of the plot's axes.

    Args:
        name: the plot's.
        plot: a time series, or a distribution (cdf); others have no x and y of their own.
        recordings: one or many.
        keys: what makes pictures, panels and looks. Without ``group_by`` recordings have looks, or series if there is
            but one recording.
        options: filters, zoom and the like, as for other plots.

    Raises:
        NothingToDraw: the plot is of another kind, or the recordings have none of its series.
    """
    if plot.kind not in _KINDS:
        raise NothingToDraw(
            f"{name} is of the kind {plot.kind}; --figure-by and --panel-by are for plots of the kinds "
            f"{' and '.join(_KINDS)}, such as ping and ping_cdf"
        )
    sources = [Source.of(one, label) for one, label in zip(recordings, labels.of_recordings(recordings), strict=True)]
    made: list[Figure] = []
    for spec in catalogue.panels(plot):
        wanted = options.applied(spec)
        items = [
            smoothed(item, one.smoothing)
            for one in wanted.series
            for source in sources
            for item in chosen(source, one, options.choice, cut=plot.cut)
        ]
        for unit in dict.fromkeys(item.units for item in items):
            made += _of_unit(name, plot, wanted, [item for item in items if item.units == unit], keys)
    if not made:
        raise NothingToDraw(f"nothing to draw for {name}: no samples of its series; see `whydrop plot list`")
    return made


def _of_unit(name: str, plot: PlotSpec, panel: PanelSpec, items: Sequence[Item], keys: Keys) -> list[Figure]:
    """The pictures of one pair of axes."""
    by = keys.group_by or (("recording",) if len({item.source.label for item in items}) > 1 else ("series",))
    values = _values(items, (*keys.figure_by, *keys.panel_by, *by))
    figures: dict[str, list[int]] = {}
    for number in range(len(items)):
        figures.setdefault(_joined(values, keys.figure_by, number), []).append(number)
    spec = _spec(plot, panel, items)
    made = []
    for figure in sorted(figures, key=building.natural):
        own = figures[figure]
        frame = pl.concat(
            [
                _rows(
                    items[number],
                    plot.kind,
                    _joined(values, keys.panel_by, number),
                    _joined(values, by, number),
                    number,
                )
                for number in own
            ]
        )
        left_out = sum((items[number].left_out for number in own), LeftOut())
        title = ": ".join(dict.fromkeys(part for part in (plot.title, panel.title, figure) if part))
        words = Words(_subtitle(items, own, by), notes=[left_out.words()] if left_out.share or left_out.silent else [])
        made.append(
            building.build(
                "-".join(part for part in (name, panel.title, figure) if part),
                spec.model_copy(update={"title": title}),
                frame,
                words,
            )
        )
    return made


def _values(items: Sequence[Item], keys: Sequence[str]) -> dict[str, list[str]]:
    """The value of each key for each item."""
    told = labels.of_series([item.name for item in items], [item.spec.label for item in items])
    own: dict[str, Callable[[int], str]] = {
        "series": lambda number: told[number],
        "recording": lambda number: items[number].source.label,
    }
    found = {}
    for key in dict.fromkeys(keys):
        if key in own:
            found[key] = [own[key](number) for number in range(len(items))]
            continue
        sources = list({item.source.label: item.source for item in items}.values())
        groups = grouping.grouped([one.recording for one in sources], [one.label for one in sources], (key,))
        of_source = {sources[member].label: group.label for group in groups for member in group.members}
        found[key] = [of_source[item.source.label] for item in items]
    return found


def _joined(values: dict[str, list[str]], keys: Sequence[str], number: int) -> str:
    return ", ".join(values[key][number] for key in keys)


def _rows(item: Item, kind: str, panel: str, group: str, number: int) -> pl.DataFrame:
    """One series as rows; lost probes are counted by what is left out, not as points."""
    known = ~np.isnan(item.values)
    x, y = item.times_s[known], item.values[known]
    if kind == "cdf":
        x = np.sort(y)
        y = np.arange(len(x) + 1) / max(1, len(x))
        # From the smallest value's foot on.
        x = np.concatenate((x[:1], x))
        y = y[-len(x) :]
    return pl.DataFrame(
        {"panel": panel, "group": group, "line": str(number), "x": x, "y": y},
        schema={"panel": pl.String, "group": pl.String, "line": pl.String, "x": pl.Float64, "y": pl.Float64},
    )


def _spec(plot: PlotSpec, panel: PanelSpec, items: Sequence[Item]) -> FacetSpec:
    value = Axis(title=axes.title(panel.y, items[0].units), scale="log" if panel.log else "linear")
    ends = axes.ends([item.values for item in items], panel, items[0].units)
    if panel.zoom is not None or panel.limits is not None:
        value = value.model_copy(update={"limits": ends})
    elif axes.begins_at_zero(panel, items[0].units):
        value = value.model_copy(update={"cover": ends})
    if plot.kind == "cdf":
        share = Axis(title="Share of samples at or below", limits=(0.0, 1.0))
        return FacetSpec(title=plot.title, kind="line", x=value, y=share)
    return FacetSpec(title=plot.title, kind="line", x=Axis(title="Time", unit="s"), y=value, wide=True, breaks=True)


def _subtitle(items: Sequence[Item], own: Sequence[int], by: Sequence[str]) -> str:
    recordings = {items[number].source.label for number in own}
    what = next(iter(recordings)) if len(recordings) == 1 else f"{len(recordings)} recordings"
    return f"{what}, by {' and '.join(by)}"
