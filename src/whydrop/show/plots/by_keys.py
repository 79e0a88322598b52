"""Grids of panels of recordings: a picture, a panel and a colour for each value of metadata keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from whydrop.recording.comparing import grouping
from whydrop.show import labels
from whydrop.show.figure import Counts, Figure, NothingToDraw
from whydrop.show.layout import below_each_other
from whydrop.show.plots import against, axes, catalogue, distributions, time_series
from whydrop.show.plots.choosing import Item, Source
from whydrop.show.plots.distributions import Sample

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording
    from whydrop.show.plots.options import PlotOptions
    from whydrop.show.plots.schema import PanelSpec, PlotSpec

_KINDS = ("time-series", "cdf")


def figures(name: str, plot: PlotSpec, recordings: Sequence[Recording], options: PlotOptions) -> list[Figure]:
    """The pictures of a plot: one for each value of ``figure_by`` and each of the plot's axes.

    Without ``group_by`` recordings have colours, or series if there is but one recording.

    Raises:
        NothingToDraw: the plot is of a kind without x and y of its own, or the recordings have none of its series.
    """
    if plot.kind not in _KINDS:
        raise NothingToDraw(
            f"{name} is of the kind {plot.kind}; --figure-by and --panel-by are for plots of the kinds "
            f"{' and '.join(_KINDS)}, such as ping and ping_cdf"
        )
    sources = [Source.of(one, label) for one, label in zip(recordings, labels.of_recordings(recordings), strict=True)]
    against.check(name, plot.kind, options)
    if options.scale:
        raise NothingToDraw("panels for each value share their axes: a recording for the axes does not go with them")
    options = replace(options, cut=options.on(plot).cut)
    made: list[Figure] = []
    for spec in catalogue.panels(plot):
        wanted = options.applied(spec)
        items = against.selected(wanted, sources, options)
        for unit in dict.fromkeys(item.units for item in items):
            made += _of_unit(name, plot, wanted, [item for item in items if item.units == unit], options)
    if not made:
        raise NothingToDraw(f"nothing to draw for {name}: no samples of its series; see `whydrop plot list`")
    return made


def _of_unit(name: str, plot: PlotSpec, spec: PanelSpec, items: Sequence[Item], options: PlotOptions) -> list[Figure]:
    """The pictures of one pair of axes, which all their panels share."""
    by = options.group_by or (("recording",) if len({item.source.label for item in items}) > 1 else ("series",))
    values = _values(items, (*options.figure_by, *options.panel_by, *by))

    def of(keys: Sequence[str], number: int) -> str:
        return ", ".join(values[key][number] for key in keys)

    figures: dict[str, dict[str, list[Item]]] = {}
    for number, item in enumerate(items):
        # A group stands where a recording would; averages are groups like the others.
        role = "line" if item.spec.role == "emphasis" else item.spec.role
        spec_of_group = item.spec.model_copy(update={"label": "", "role": role})
        grouped = replace(item, source=replace(item.source, label=of(by, number)), spec=spec_of_group)
        panels = figures.setdefault(of(options.figure_by, number), {})
        panels.setdefault(of(options.panel_by, number), []).append(grouped)
    groups = sorted({of(by, number) for number in range(len(items))}, key=labels.natural)
    drawn = [item.values for item in items]
    ends = distributions.along(spec, drawn, items[0].units) if plot.kind == "cdf" else axes.ends(
        drawn, spec, items[0].units
    )  # fmt: skip
    shared = spec.model_copy(update={"limits": ends, "zoom": None})
    made = []
    for figure in sorted(figures, key=labels.natural):
        recordings = {item.source.recording.path for own in figures[figure].values() for item in own}
        first = items[0].source.label if len(recordings) == 1 else f"{len(recordings)} recordings"
        built = _figure(plot, shared, figures[figure], groups)
        made.append(
            replace(
                built,
                key="-".join(part for part in (name, spec.title, figure) if part),
                title=": ".join(dict.fromkeys(part for part in (plot.title, spec.title, figure) if part)),
                subtitle=f"{first}, by {' and '.join(by)}",
                panels=tuple(replace(panel, zoom=panel.zoom or name) for panel in built.panels),
            )
        )
    return made


def _figure(plot: PlotSpec, spec: PanelSpec, panels: dict[str, list[Item]], groups: Sequence[str]) -> Figure:
    """The panels in order; a group has the same colour in all."""
    made = []
    for title in sorted(panels, key=labels.natural):
        own, items = spec.model_copy(update={"title": title}), panels[title]
        if plot.kind == "cdf":
            made.append(distributions.drawn("cdf", own, list(map(_sample, items)), groups=groups))
        else:
            made.append(time_series.drawn(own, items, groups=groups))
    over_time = plot.kind == "time-series"
    several = sum(len({item.source.label for item in items}) for items in panels.values())
    return Figure(
        key="",
        title="",
        subtitle="",
        panels=tuple(time_series.on_one_axis(made) if over_time else made),
        columns=below_each_other(len(made)) if over_time else None,
        left_out=sum((panel.left_out for panel in made), Counts(what="samples")),
        share="both",
        one_legend=several > len(groups),
    )


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


def _sample(item: Item) -> Sample:
    known = item.values[~np.isnan(item.values)]
    return Sample("", item.source.label, item.units, known, item.left_out, item.name)
