"""From a plot's specification and recordings to the series that are drawn."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from whydrop.recording import access_point, derived
from whydrop.recording.metrics.load import Window, window
from whydrop.show.figure import Counts
from whydrop.show.plots.options import AS_THE_PLOT_SAYS, PlotOptions
from whydrop.show.plots.schema import SeriesSpec

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording, Series

Values = NDArray[np.float64]

# Probes that came back are no gap where single ones between them did not.
_PROBES = ("probe", "icmp")


@dataclass(frozen=True)
class Source:
    """A recording with the words that distinguish it from the others."""

    recording: Recording
    label: str
    load: Window | None

    @classmethod
    def of(cls, recording: Recording, label: str) -> Source:
        """Find when the path was under load."""
        return cls(recording, label, window(recording))


@dataclass(frozen=True)
class Item:
    """One series of one recording: samples in order of time; NaN where something was measured without a value."""

    source: Source
    name: str
    units: str
    kind: str
    quantity: str
    spec: SeriesSpec
    times_s: Values  # after the start of the test
    values: Values
    step_s: float
    flow: int | None = None
    left_out: Counts = field(default_factory=Counts)
    edges_ns: tuple[int, ...] = ()  # across which no moving average runs

    @property
    def of(self) -> tuple[str, str, str]:
        """The series, the recording, and the units, for the numbers of a trace."""
        return self.name, self.source.label, self.units

    @property
    def probes(self) -> bool:
        """True if a missing value means a lost probe."""
        return self.kind in _PROBES

    def lost_s(self) -> Values:
        """Times of the probes that were lost."""
        return self.times_s[np.isnan(self.values)] if self.probes else np.array([])


def chosen(source: Source, spec: SeriesSpec, options: PlotOptions) -> list[Item]:
    """The series of a recording that a specification means, with their samples."""
    series = matching(source.recording, spec, options)
    if not series:
        return []
    preferred = [one for one in series if one.name in spec.prefer]
    items = [_measured(source, spec, one) for one in preferred or (series if spec.compute is None else ())]
    # An access point is no far end: its round trips are part of no mean of theirs.
    near = None if spec.compute is None else access_point.probe(source.recording)
    others = [one for one in series if one not in preferred and one.name != near]
    # A sum that the recording calls unknown, as a flow has no values, is made of the others, and that is said.
    if spec.compute is not None and others and not any(len(item.values) for item in items):
        items = _computed(source, spec, others)
    if options.cut:
        items = [within_load(item) for item in items]
    return [item for item in items if len(item.values)]


def matching(recording: Recording, spec: SeriesSpec, options: PlotOptions = AS_THE_PLOT_SAYS) -> list[Series]:
    """The series that a specification means, in the order of the test."""
    directions = _directions(recording) if spec.direction else {}
    found = []
    for series in recording.series(*spec.match, *spec.prefer):
        if not options.takes(series.name):
            continue
        if series.name in spec.prefer:
            found.append(series)
            continue
        if any(series.matches(pattern) for pattern in spec.exclude):
            continue
        if spec.quantity and series.quantity not in spec.quantity:
            continue
        if spec.kind and series.kind not in spec.kind:
            continue
        if spec.direction and directions.get(series.flow) not in spec.direction:
            continue
        found.append(series)
    return found


def kind_of(recording: Recording) -> Hashable:
    """The set of the series of a recording: to all with the same series, the same plots apply."""
    directions = _directions(recording)
    return frozenset(
        (one.name, one.quantity, one.kind, one.units, directions.get(one.flow)) for one in recording.series()
    )


def distinct(recordings: Sequence[Recording], kind: Callable[[Recording], Hashable] = kind_of) -> list[Recording]:
    """One recording for each kind; ``kind`` may know it without reading the recording."""
    if len(recordings) == 1:
        return list(recordings)
    found: dict[Hashable, Recording] = {}
    for recording in recordings:
        found.setdefault(kind(recording), recording)
    return list(found.values())


def _directions(recording: Recording) -> dict[int | None, str | None]:
    flows = recording.table("flows")
    return dict(zip(flows["flow"].to_list(), flows["direction"].to_list(), strict=True))


def _edges(source: Source, spec: SeriesSpec, *, of_past: bool) -> tuple[int, ...]:
    """The start and the end of the load, for series that are smoothed.

    A value ``of_past`` is of the interval that ends at its time: at the very end of the load it is of the load.
    """
    if not spec.smoothing or spec.smooth_across_load or source.load is None:
        return ()
    return source.load.start_ns + of_past, source.load.end_ns + of_past


def _measured(source: Source, spec: SeriesSpec, series: Series) -> Item:
    recording = source.recording
    # A computed series is of goodputs by its units.
    of_goodputs = series.kind == "computed" and series.units == "Mbit/s"
    edges = _edges(source, spec, of_past=series.quantity == "goodput" or of_goodputs)
    if edges and series.kind == "computed":
        grid = recording.grid(series.name, edges_ns=edges)
        times_s, values = grid["time_s"].to_numpy().round(9), grid[series.name].cast(float).to_numpy().astype(float)
    else:
        samples = recording.samples(series.name)
        times_s = (samples["time_ns"] - recording.started_ns).cast(float).to_numpy() / 1e9
        values = samples["value"].cast(float).to_numpy().astype(float)
    step_s = recording.step_s
    if spec.increments:
        # A counter that was reset has no value for the step before.
        values = derived.growth(values)
        if spec.every_s:
            step_s = spec.every_s
            times_s, values = summed(times_s, values, step_s)
    probes = series.kind in _PROBES
    # Only the stream's own values show lost probes; derived values are missing for other reasons.
    if not (probes and not series.key):
        known = ~np.isnan(values)
        times_s, values = times_s[known], values[known]
    lost = int(np.isnan(values).sum())
    return Item(
        source, series.name, series.units, series.kind, series.quantity, spec, times_s, values,
        step_s, series.flow, Counts(rows=len(values), lost=lost), edges,
    )  # fmt: skip


def summed(times_s: Values, values: Values, every_s: float) -> tuple[Values, Values]:
    """The sums of values in each step of time, by the step's beginning; of steps without a sample there are none."""
    known = ~np.isnan(values)
    steps, places = np.unique(np.floor(times_s[known] / every_s), return_inverse=True)
    return steps * every_s, np.bincount(places, values[known], len(steps)).astype(float)


def _computed(source: Source, spec: SeriesSpec, series: Sequence[Series]) -> list[Item]:
    from whydrop.recording.grid import compute

    assert spec.compute is not None
    edges = _edges(source, spec, of_past=series[0].quantity == "goodput")
    grid = source.recording.grid(*(one.name for one in series), edges_ns=edges)
    values = grid.drop("time_s").to_numpy().astype(float)
    made = compute(spec.compute, values, _expected(values))
    known = ~np.isnan(made)
    silent = tuple(one.name for one, column in zip(series, values.T, strict=True) if np.isnan(column).all())
    units = {one.units for one in series}
    first = series[0]
    return [
        Item(
            source,
            f"{spec.compute} of {len(series)}" if len(series) > 1 else first.name,
            "" if spec.compute == "fairness" else units.pop() if len(units) == 1 else "",
            "computed", first.quantity, spec, grid["time_s"].to_numpy()[known], made[known],
            source.recording.step_s, None, Counts(rows=int(known.sum()), silent=silent), edges,
        )
    ]  # fmt: skip


def _expected(values: Values) -> NDArray[np.bool_]:
    """Where each column should have a value: from its first one to its last one."""
    known = ~np.isnan(values)
    begun = np.maximum.accumulate(known, axis=0)
    to_come = np.maximum.accumulate(known[::-1], axis=0)[::-1]
    return np.asarray(begun & to_come)


def within_load(item: Item) -> Item:
    """The samples taken while the path was under load; all, where it never was."""
    load = item.source.load
    if load is None:
        return item
    origin = item.source.recording.started_ns
    start_s, end_s = (load.start_ns - origin) / 1e9, (load.end_ns - origin) / 1e9
    inside = (item.times_s >= start_s) & (item.times_s < end_s)
    values = item.values[inside]
    lost = int(np.isnan(values).sum()) if item.probes else 0
    left_out = replace(item.left_out, cut=int((~inside).sum()), lost=lost)
    return replace(item, times_s=item.times_s[inside], values=values, left_out=left_out)


def smoothed(item: Item, steps: int) -> Item:
    """The moving average of a series on its grid: over ``steps`` steps and the one in their middle.

    The window is cut at the start and the end of the load, so that no value before holds anything of after.
    """
    if steps < 1:
        return item
    recording = item.source.recording
    times_s, values = item.times_s, item.values
    if item.kind != "computed":
        grid = recording.grid(item.name, edges_ns=item.edges_ns)
        times_s, values = grid["time_s"].to_numpy(), grid[item.name].cast(float).to_numpy().astype(float)
    known = ~np.isnan(values)
    if item.left_out.cut:
        known &= (times_s >= item.times_s[0]) & (times_s <= item.times_s[-1])
    times_s, values = times_s[known], values[known]
    # By time, not by count: a gap must not be averaged over.
    half = (steps // 2 + 0.5) * recording.step_s
    edges_s = [(edge_ns - recording.started_ns) / 1e9 for edge_ns in item.edges_ns]
    places = np.concatenate(([0], np.searchsorted(times_s, edges_s), [len(times_s)])).astype(int)
    part = np.searchsorted(edges_s, times_s, side="right")
    first = np.maximum(np.searchsorted(times_s, times_s - half), places[part])
    last = np.minimum(np.searchsorted(times_s, times_s + half), places[part + 1])
    sums = np.concatenate(([0.0], np.cumsum(values)))
    return replace(item, times_s=times_s, values=(sums[last] - sums[first]) / np.maximum(1, last - first))
