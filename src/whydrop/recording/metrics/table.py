"""Metrics and statistics of series as rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from whydrop.recording.metrics import responsiveness, together
from whydrop.recording.metrics.definitions import measure, round_trips_per_minute
from whydrop.recording.metrics.load import window
from whydrop.recording.recording import Recording
from whydrop.recording.statistics.describing import describe, finite

Rows = list[dict[str, Any]]

METRICS: dict[str, type[pl.DataType]] = {
    "recording": pl.String,
    "metric": pl.String,
    "name": pl.String,
    "units": pl.String,
    "value": pl.Float64,
    "note": pl.String,
}


def of_metrics(label: str, recording: Recording) -> Rows:
    """The metrics that recordings are compared by, responsiveness, and each flow's share of the goodput."""
    rows = [
        _row(label, key, one.metric.name, one.metric.units, one.value, one.basis)
        for key, one in measure(recording).items()
    ]
    of_probes = round_trips_per_minute(recording)
    if of_probes is not None:
        note = "of probes outside the load's connections: not the RPM of draft-ietf-ippm-responsiveness"
        rows.append(
            _row(label, "probe-round-trips", "Round trips of probes a minute, under load", "1/min", of_probes, note)
        )
    for one in responsiveness.of_recording(recording):
        notes = "; ".join((f"confidence {one.confidence}", *one.notes))
        name = f"Responsiveness under load, {'download' if one.direction == 'down' else 'upload'}"
        rows.append(_row(label, f"responsiveness-{one.direction}", name, "RPM", one.rpm, notes))
    return rows + _shares(label, recording)


def _row(label: str, metric: str, name: str, units: str, value: float | None, note: str) -> dict[str, Any]:
    known = value if value is not None and math.isfinite(value) else None
    return dict(zip(METRICS, (label, metric, name, units, known, note), strict=True))


def _shares(label: str, recording: Recording) -> Rows:
    """Each flow's share of its direction's goodput; not known where a flow yielded nothing."""
    rows: Rows = []
    for direction in together.DIRECTIONS:
        flows = together.members(recording, direction)
        means = {name: float(finite(recording.samples(name)["value"].to_numpy()).mean()) for name in flows.present}
        total = sum(means.values())
        if len(means) + len(flows.absent) > 1 and total > 0:
            note = f"not known; {flows.words_of_absent()}" if flows.absent else flows.words()
            for name, mean in means.items():
                share = None if flows.absent else 100 * mean / total
                title = f"Share of the goodput {direction}: {name}"
                rows.append(_row(label, f"share-{direction}:{name}", title, "%", share, note))
    return rows


def of_series(label: str, recording: Recording, patterns: Sequence[str], *, whole: bool) -> Rows:
    """Statistics of each series that matches a pattern: under load, or of the whole recording."""
    load = None if whole else window(recording)
    rows: Rows = []
    for series in recording.series(*patterns):
        samples = recording.samples(series.name)
        if load is not None:
            samples = samples.filter((pl.col("time_ns") >= load.start_ns) & (pl.col("time_ns") <= load.end_ns))
        found = describe(samples["value"].to_numpy())
        if found is not None:
            rows.append({"recording": label, "series": series.name, "units": series.units, **asdict(found)})
    return rows
