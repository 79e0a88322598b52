"""From a plot, recordings and options to a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop.show import labels
from whydrop.show.figure import Counts, Figure, NothingToDraw, Panel
from whydrop.show.plots import (
    against,
    by_keys,
    catalogue,
    combining,
    comparing_pairs,
    distributions,
    limiting,
    stacked,
    time_series,
)
from whydrop.show.plots.choosing import Item, Source, distinct, matching
from whydrop.show.plots.options import AS_THE_PLOT_SAYS, PlotOptions
from whydrop.show.plots.schema import PanelSpec, PlotSpec, SeriesSpec

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording


# Recordings side by side, above which panels would be too narrow to read.
_MOST_BESIDE = 3


def applies(plot: PlotSpec, recording: Recording) -> bool:
    """True if a recording has series for at least one panel of a plot."""
    panels = catalogue.panels(plot)
    if plot.needs == "all" and plot.panels_of:
        return all(applies(catalogue.find(name), recording) for name in plot.panels_of)
    if plot.needs == "all":
        return all(any(matching(recording, spec) for spec in panel.series) for panel in panels)
    if plot.kind in ("ellipse", "scatter"):
        return any(comparing_pairs.applies(panel, recording) for panel in panels)
    return any(matching(recording, spec) for panel in panels for spec in panel.series)


def available(recordings: Sequence[Recording]) -> dict[str, PlotSpec]:
    """The plots of the catalogue that have something to draw of these recordings."""
    known = catalogue.catalogue()
    kinds = distinct(recordings)
    return {name: plot for name, plot in known.items() if not plot.hidden and any(applies(plot, one) for one in kinds)}


def default(recordings: Sequence[Recording]) -> str:
    """The plot to draw where none is asked for: that of the test, else the first that has something to draw.

    One that leaves out peaks (``zoom``) must be asked for, whatever an older test says.

    Raises:
        NothingToDraw: none has.
    """
    known = {name: plot for name, plot in catalogue.catalogue().items() if not _zooms(plot)}
    for recording in recordings:
        test = recording.metadata.get("test") or {}
        for name in (test.get("default_plot"), *(test.get("plots") or ())):
            if isinstance(name, str) and name in known and any(applies(known[name], one) for one in recordings):
                return name
    for name, plot in known.items():
        if any(applies(plot, one) for one in recordings):
            return name
    names = ", ".join(str(one.path) for one in recordings)
    raise NothingToDraw(f"{names}: no series with samples, so there is nothing to draw")


def usual(recording: Recording) -> list[str]:
    """The plots that a page of a recording shows: those of its test, else the first over time, and of distributions.

    Those that leave out peaks are not among them: a page can be zoomed.
    """
    own = recording.metadata.get("test") or {}
    known = {name: plot for name, plot in available([recording]).items() if not _zooms(plot)}
    told = (own.get("default_plot"), *(own.get("plots") or ()))
    names = [name for name in told if isinstance(name, str) and name in known]
    if not names:
        names = [
            next((name for name, plot in known.items() if plot.kind == kind), "") for kind in ("time-series", "cdf")
        ]
    return [name for name in dict.fromkeys([*names, *(name for name in known if known[name].report)]) if name]


def _zooms(plot: PlotSpec) -> bool:
    return any(panel.zoom is not None for panel in catalogue.panels(plot))


def wanted(name: str | None, recordings: Sequence[Recording]) -> list[tuple[str, PlotSpec]]:
    """The plots that a name means: one of the catalogue, all of a user's file, or the default."""
    if name is not None and (name.endswith(".toml") or "/" in name):
        return list(catalogue.read_file(Path(name)).items())
    name = default(recordings) if name is None else name
    return [(name, catalogue.find(name))]


def figures(name: str | None, recordings: Sequence[Recording], options: PlotOptions = AS_THE_PLOT_SAYS) -> list[Figure]:
    """The pictures of the plots that a name means.

    Raises:
        PlotError: there is no such plot, or its file is wrong.
        UnknownReducer: the options name one that is not there.
        NothingToDraw: the recordings have none of its series.
    """
    plots = wanted(name, recordings)
    if options.panel_by or options.figure_by:
        made = [one for found, plot in plots for one in by_keys.figures(found, plot, recordings, options)]
    else:
        made = [build(found, plot, recordings, options) for found, plot in plots]
    return [limiting.within(one, options.window) for one in made]


def build(
    name: str, plot: PlotSpec, recordings: Sequence[Recording], options: PlotOptions = AS_THE_PLOT_SAYS
) -> Figure:
    """Everything that a plot shows of the recordings.

    Raises:
        NothingToDraw: the recordings have none of its series; the message says which were looked for.
    """
    against.check(name, plot.kind, options)
    sources = [Source.of(one, label) for one, label in zip(recordings, labels.of_recordings(recordings), strict=True)]
    specs = limiting.limited(name, plot.kind, catalogue.panels(plot), recordings, options)
    panels = [made for spec in specs for made in _panels(plot, options.applied(spec), sources, options)]
    if not panels:
        raise NothingToDraw(_nothing(name, plot, recordings, options))
    columns = plot.columns
    if options.paired and plot.kind == "time-series":
        columns = min(len(sources), _MOST_BESIDE)
    columns = min(columns, len(panels))
    if plot.kind == "time-series" and not options.absolute_time:
        last_row = len(panels) - columns
        panels = [
            replace(panel, x=replace(panel.x, title=panel.x.title if number >= last_row or not panel.zoom else ""))
            for number, panel in enumerate(time_series.on_one_axis(panels))
        ]
    return Figure(
        key=name,
        title=plot.title,
        subtitle=_subtitle(sources),
        panels=tuple(panels),
        columns=columns,
        notes=tuple(dict.fromkeys([*(note for panel in panels for note in panel.notes), *_notes(sources, options)])),
        left_out=sum((panel.left_out for panel in panels), Counts(what="samples")),
    )


def _panels(plot: PlotSpec, spec: PanelSpec, sources: Sequence[Source], options: PlotOptions) -> list[Panel]:
    options = options.on(plot)
    if options.combine is None and options.group_by and len(sources) > 1:
        options = replace(options, combine=combining.usual(plot.kind))
    if plot.kind == "stacked":
        return stacked.panels(spec, sources, options)
    if plot.kind in ("ellipse", "scatter", "qq"):
        return comparing_pairs.panels(plot, spec, sources, options)
    if options.combine is not None or plot.kind in ("line", "matrix"):
        return combining.panels(plot, spec, sources, options)
    items = against.selected(spec, sources, options)
    others = against.selected(spec, [Source.of(one, "") for one in options.scale], options)
    if spec.first_s is not None:
        items, others = _beginning(items, spec.first_s), _beginning(others, spec.first_s)
    made: list[Panel] = []
    for units, own_items in _by_units(spec, items):
        own = limiting.widened(plot.kind, units, own_items, others) if others else units
        if plot.kind == "time-series":
            made += [limiting.as_long(panel, others) for panel in _over_time(own, own_items, options)]
        else:
            made.append(distributions.drawn(plot.kind, own, distributions.of_items(own_items)))
    return made


def _over_time(spec: PanelSpec, items: Sequence[Item], options: PlotOptions) -> list[Panel]:
    recordings = list(dict.fromkeys(item.source.label for item in items))
    if not options.paired or len(recordings) < 2:
        return [time_series.drawn(spec, items, absolute_time=options.absolute_time)]
    made: list[Panel] = []
    for recording in recordings:
        own = [item for item in items if item.source.label == recording]
        panel = time_series.drawn(spec, own, absolute_time=options.absolute_time)
        made.append(replace(panel, title=f"{panel.title}: {recording}" if panel.title else recording))
    known = [panel.y.ends for panel in made if panel.y.ends is not None]
    same = min(low for low, _ in known), max(high for _, high in known)
    return [time_series.with_ends(panel, same) for panel in made]


def _beginning(items: Sequence[Item], first_s: float) -> list[Item]:
    """The first seconds of series; none where nothing comes after them, as they are drawn whole elsewhere."""
    if all(item.times_s[-1] <= first_s for item in items):
        return []
    found = []
    for item in items:
        there = item.times_s <= first_s
        if there.any():
            left_out = replace(item.left_out, rows=int(there.sum()))
            found.append(replace(item, times_s=item.times_s[there], values=item.values[there], left_out=left_out))
    return found


def _by_units(spec: PanelSpec, items: Sequence[Item]) -> list[tuple[PanelSpec, list[Item]]]:
    """One axis has one unit: series of another one get a panel of their own."""
    units = list(dict.fromkeys(item.units for item in items))
    found = []
    for number, unit in enumerate(units):
        own = [item for item in items if item.units == unit]
        found.append((spec if number == 0 else spec.model_copy(update={"y": "", "limits": None}), own))
    return found


def _subtitle(sources: Sequence[Source]) -> str:
    """The test and its time; many recordings by their number."""
    first = sources[0].recording
    name = str((first.metadata.get("test") or {}).get("test") or first.metadata.get("name") or "")
    if len(sources) == 1:
        started = combining.started(first)
        parts = [sources[0].label, name if name not in sources[0].label else "", started]
        return " · ".join(part for part in parts if part)
    names = {str((one.recording.metadata.get("test") or {}).get("test") or "") for one in sources}
    return f"{len(sources)} recordings" + (f" of {name}" if len(names) == 1 and name else "")


def _notes(sources: Sequence[Source], options: PlotOptions) -> list[str]:
    """Notes on the baseline, on recordings for the axes only, and on those that are not whole."""
    notes = [*_results(sources), *_states(sources)]
    if options.scale:
        notes.append(f"The axes also fit {', '.join(one.path.name for one in options.scale)}, not drawn.")
    if options.baseline is not None:
        how = "Each value is divided by" if options.ratio else "Each value is less by"
        notes.append(f"{how} the mean of {options.baseline.path.name} in the same step.")
    return notes


def _results(sources: Sequence[Source]) -> list[str]:
    """The result of a measurement of a queue's depth, which its packets are drawn for."""
    from whydrop.explaining.recordings import depth

    recording = sources[0].recording
    return depth.in_words(recording) if len(sources) == 1 and depth.is_of_depth(recording) else []


def _states(sources: Sequence[Source]) -> list[str]:
    """Notes on recordings that are not whole."""
    return [
        f"{labels.shortened(one.label)}: {one.recording.metadata['status']}; what was measured until then is drawn."
        for one in sources
        if one.recording.metadata.get("status") in ("interrupted", "failed", "running")
    ]


def _nothing(name: str, plot: PlotSpec, recordings: Sequence[Recording], options: PlotOptions) -> str:
    series = [spec for panel in catalogue.panels(plot) for spec in comparing_pairs.wanted(panel)]
    absent = [spec for spec in series if not any(matching(one, spec) for one in recordings)]
    named = sorted({name for spec in absent or series for name in _named(spec)})
    rare = not absent and any(panel.steps_with or panel.steps_without for panel in catalogue.panels(plot))
    what = "no step of this kind, of series" if rare else "no samples of series"
    where = str(recordings[0].path) if len(recordings) == 1 else f"none of the {len(recordings)} recordings"
    why = f" that --filter {' '.join(options.filters)} leaves" if options.filters else ""
    if options.baseline is not None:
        why += f", at the times of the same series of the baseline {options.baseline.path.name}"
    lacks = f". {plot.lacks}" if plot.lacks and absent else ""
    return f"{where}: nothing to draw for {name}: {what} {', '.join(named)}{why}{lacks}; see `whydrop plot list`"


def _named(spec: SeriesSpec) -> tuple[str, ...]:
    """The name by which a person calls the series that a specification means."""
    return spec.quantity if spec.quantity and spec.match == ("*",) else spec.match
