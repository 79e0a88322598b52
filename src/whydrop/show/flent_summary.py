"""The table that ``flent -f summary`` prints of a recording, so that the two can be compared."""

from __future__ import annotations

from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Series


def flent_layout(summary: Summary) -> str:
    """The summary as Flent prints it with ``-f summary``, so that the two can be compared."""
    series = sorted(_for_flent(summary), key=lambda one: one.name)
    width = max((len(one.name) for one in series), default=0)
    lines = [f"{'':{width + 3}} {'avg':>12} {'median':>12} {'99th %':>12} {'# data pts':>20}"]
    for one in series:
        lines.append(f" {one.name:{width}} : {_flent_figures(summary, one)}")
    return "\n".join(lines)


def _flent_figures(summary: Summary, one: Series) -> str:
    found, told, imported = summary.of(one), summary.told_mean(one), summary.recording.metadata["imported"] or {}
    grid = summary.recording.grid(one.name)[one.name]
    if one.name in (imported.get("without_raw_values") or ()) or not found.mean:
        # Flent takes these from the grid: although the samples are there under the flow's name, and where a mean of 0
        # looks to it like none.
        found, told = summary.of_values(one, grid), told if one.kind == "computed" else None
    if found.mean is None:
        return "No data."
    count = grid.len() if told else found.samples
    computed = one.kind == "computed"
    if computed and "metadata" in imported:
        computed = "COMPUTED_LATE" in imported["metadata"].get("SERIES_META", {}).get(one.name, {})
    median, p99 = ("N/A",) * 2 if computed else (f"{found.median or 0:.2f}", f"{found.p99 or 0:.2f}")
    return f"{found.mean:12.2f} {median:>12} {p99:>12} {one.units.replace('Mbit/s', 'Mbits/s'):7} {count:12d}"


def _for_flent(summary: Summary) -> list[Series]:
    """The series that an exported file has as results."""
    from whydrop.formats.flent.exporting import exported_series

    return exported_series(summary.recording)
