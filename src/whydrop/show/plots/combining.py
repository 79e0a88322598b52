"""Many recordings as few: grouped by metadata, each reduced to a number, or their samples taken together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from whydrop.recording.comparing import grouping
from whydrop.recording.metrics.reducing import Reduction, reduce
from whydrop.show import labels
from whydrop.show.figure import Counts, NothingToDraw, Panel
from whydrop.show.plots import Combiner, distributions, time_series
from whydrop.show.plots.choosing import Item, Source, Values, chosen
from whydrop.show.plots.distributions import Sample
from whydrop.show.plots.options import PlotOptions
from whydrop.show.plots.schema import Kind, PanelSpec, PlotSpec, SeriesSpec

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording


@dataclass(frozen=True)
class Group:
    """Recordings that belong together; ``second`` is the value of a second key, where there is one."""

    label: str
    sources: tuple[Source, ...]
    second: str = ""

    @property
    def name(self) -> str:
        """Both values together."""
        return f"{self.label}, {self.second}" if self.second else self.label


def usual(kind: Kind) -> Combiner:
    """How grouped recordings are combined where nothing else is said."""
    if kind == "time-series":
        return "groups-points"
    return "groups-concat" if kind == "cdf" else "groups"


def panels(plot: PlotSpec, spec: PanelSpec, sources: Sequence[Source], options: PlotOptions) -> list[Panel]:
    """The panels of one specification, one for each unit."""
    keys, combine = options.group_by, options.combine or "groups"
    groups = grouped(sources, keys, combine)
    note = _note(groups, keys)
    if plot.kind == "time-series":
        items = _points(groups, spec, options)
        units = dict.fromkeys(item.units for item in items)
        drawn = [time_series.drawn(spec, [item for item in items if item.units == unit]) for unit in units]
        return [replace(panel, notes=(*panel.notes, note)) for panel in drawn]
    samples = _samples(spec, groups, options, combine)
    found: list[Panel] = []
    # Two keys take both places, that of the rows and that of the colours: each series needs a panel of its own.
    apart = list(dict.fromkeys(sample.series for sample in samples)) if combine == "both" else [None]
    for series in apart:
        for unit in dict.fromkeys(sample.units for sample in samples):
            own = [one for one in samples if one.units == unit and series in (None, one.series)]
            if not own:
                continue
            title = spec.title if series is None or len(apart) == 1 else f"{spec.title} {series}".strip()
            own_spec = spec.model_copy(update={"title": title, "x": spec.x or " and ".join(keys[:1])})
            panel = distributions.drawn(plot.kind, own_spec, own)
            found.append(replace(panel, notes=(*panel.notes, note)))
    return found


def grouped(sources: Sequence[Source], keys: Sequence[str], combine: Combiner = "groups") -> list[Group]:
    """Recordings with the same values of the keys together, in the order of their first.

    Raises:
        NothingToDraw: they cannot be grouped like this.
    """
    keys = ("batch",) if combine.startswith("batch") else keys
    recordings = [source.recording for source in sources]
    try:
        found = grouping.grouped(recordings, [source.label for source in sources], keys, two=combine == "both")
    except grouping.CannotGroup as reason:
        raise NothingToDraw(str(reason)) from None
    return [Group(one.label, tuple(sources[number] for number in one.members), one.second) for one in found]


def started(recording: Recording) -> str:
    """When a recording was made, to the minute; empty where that is not known."""
    at = recording.metadata.get("started_ns")
    if not isinstance(at, int):
        return ""
    try:
        return f"{datetime.fromtimestamp(at / 1e9, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, OSError, ValueError):
        return ""


def _note(groups: Sequence[Group], keys: Sequence[str]) -> str:
    by = f" by {' and '.join(keys)}" if keys else ""
    sizes = ", ".join(f"{labels.shortened(group.name, 40)}: {len(group.sources)}" for group in groups[:8])
    more = f" and {len(groups) - 8} more" if len(groups) > 8 else ""
    return f"Recordings in each group{by}: {sizes}{more}."


def _points(groups: Sequence[Group], spec: PanelSpec, options: PlotOptions) -> list[Item]:
    """At each step, one value of a group's recordings; the group stands where a recording would."""
    items = []
    for group in groups:
        stand_in = Source(group.sources[0].recording, group.label, group.sources[0].load)
        for one in spec.series:
            found: dict[str, list[Item]] = {}
            for source in group.sources:
                for item in chosen(source, one, options):
                    found.setdefault(item.name, []).append(item)
            items += [_averaged(stand_in, several) for several in found.values()]
    # A reducer may have no value for any step.
    return [item for item in items if not np.isnan(item.values).all()]


def _averaged(stand_in: Source, items: Sequence[Item]) -> Item:
    """The reduction of several recordings' series step by step, over those that have a value there."""
    first = items[0]
    step_s = max(item.step_s for item in items)
    places = [np.round(item.times_s / step_s).astype(int) for item in items]
    lowest, highest = min(int(place[0]) for place in places), max(int(place[-1]) for place in places)
    rows = np.full((len(items), highest - lowest + 1), np.nan)
    for row, place, item in zip(rows, places, items, strict=True):
        known = ~np.isnan(item.values)
        sums = np.bincount(place[known] - lowest, item.values[known], len(row))
        counts = np.bincount(place[known] - lowest, minlength=len(row))
        np.divide(sums, counts, out=row, where=counts > 0)
    filled = ~np.isnan(rows).all(axis=0)
    columns = rows[:, filled]
    name = first.spec.reduce or "mean"
    values = np.array([_of_points(name, columns[:, number]) for number in range(columns.shape[1])])
    times_s = np.asarray((np.flatnonzero(filled) + lowest) * step_s, dtype=np.float64)
    left_out = sum((item.left_out for item in items), Counts())
    # An average must not run across the edge of any recording's load.
    edges_ns = {
        edge_ns - item.source.recording.started_ns + stand_in.recording.started_ns
        for item in items
        for edge_ns in item.edges_ns
    }
    return replace(
        first, source=stand_in, times_s=times_s, values=values, kind="computed", left_out=left_out, flow=None,
        edges_ns=tuple(sorted(edges_ns)),
    )  # fmt: skip


def _of_points(name: str, column: Values) -> float:
    value = reduce(name, Reduction(column[~np.isnan(column)]))
    return float("nan") if value is None else value


def _samples(spec: PanelSpec, groups: Sequence[Group], options: PlotOptions, combine: Combiner) -> list[Sample]:
    concatenated = combine.endswith("concat")
    names: dict[str, str | None] = {}
    found: list[tuple[Group, str, str, Values, Counts]] = []
    for one in spec.series:
        for group in groups:
            series: dict[str, list[Item]] = {}
            for source in group.sources:
                for item in chosen(source, one, options):
                    series.setdefault(one.label or item.name, []).append(item)
            for name, items in series.items():
                values = _taken_together(items) if concatenated else _reduced(one, items)
                if len(values):
                    names.setdefault(name, one.label)
                    units = _units_of(one, items)
                    found.append((group, name, units, values, sum((item.left_out for item in items), Counts())))
    told = dict(zip(names, labels.of_series(list(names), list(names.values())), strict=True))
    return [
        _placed(group, told[name], name, units, values, left_out, combine)
        for group, name, units, values, left_out in found
    ]


def _placed(
    group: Group, told: str, name: str, units: str, values: Values, left_out: Counts, combine: Combiner
) -> Sample:
    if combine == "both":
        return Sample(group.label, group.second, units, values, left_out, name)
    if combine in ("series", "batch-series"):
        return Sample(group.label, told, units, values, left_out, name)
    return Sample(told, group.label, units, values, left_out, name)


def _taken_together(items: Sequence[Item]) -> Values:
    joined = np.concatenate([item.values for item in items])
    return np.asarray(joined[~np.isnan(joined)])


def _reduced(spec: SeriesSpec, items: Sequence[Item]) -> Values:
    """One value for each recording."""
    values = [reduce(spec.reduce or "mean", of_item(item)) for item in items]
    return np.array([value for value in values if value is not None])


def of_item(item: Item) -> Reduction:
    """The input of reducers from a series."""
    known = ~np.isnan(item.values)
    return Reduction(
        values=item.values[known],
        times_s=item.times_s[known],
        step_s=item.step_s,
        recording=item.source.recording,
        series=item.name,
        flow=item.flow,
        load=item.source.load,
        lost=item.left_out.lost,
    )


def _units_of(spec: SeriesSpec, items: Sequence[Item]) -> str:
    name = (spec.reduce or "mean").removeprefix("raw-").removeprefix("raw_")
    return {"fairness": "", "mos": "MOS", "loss": "%", "seq-loss": "%"}.get(
        name.replace("_", "-"), f"{items[0].units}²" if name == "var" else items[0].units
    )
