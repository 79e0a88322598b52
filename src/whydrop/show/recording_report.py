"""The page of a recording beside its verdicts: plots, statistics, and what is known of test and hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whydrop.recording.comparing.metadata_difference import flattened, is_noise
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording
from whydrop.show import recordings
from whydrop.show.embedding import Choice
from whydrop.show.figure import NothingToDraw
from whydrop.show.plots import building, catalogue
from whydrop.show.tables import Column, Sheet
from whydrop.text import quantities

# Keys of a host, and what stands before their values.
_OF_HOST = {
    "host_name": "",
    "distribution.pretty": "",
    "kernel.release": "kernel",
    "sysctls.net.ipv4.tcp_congestion_control": "congestion control",
}
# Rows of the table of all metadata; hosts have thousands of settings.
MOST_METADATA = 2000


def plots(recording: Recording) -> list[Choice]:
    """The plots of the recording's test; none where nothing can be drawn."""
    figures = []
    for name in building.usual(recording):
        # A picture of rare steps has its series, and may have no such step.
        with contextlib.suppress(NothingToDraw):
            figures.append(building.build(name, catalogue.find(name), [recording]))
    return [Choice(figures)] if figures else []


def sheets(recording: Recording) -> list[Sheet]:
    """Statistics as tables: series, induced latency, loss."""
    summary = Summary(recording)
    return [sheet for sheet in (_series(summary), _induced(summary), _losses(summary)) if sheet.rows]


def _series(summary: Summary) -> Sheet:
    titles = ("Series", "Mean", "Median", "p95", "p99", "Min", "Max", "Samples", "Unit")
    chosen, left_out = recordings.chosen_series(summary, every=False)
    rows = []
    for one in map(summary.of, chosen):
        figures = (one.mean, one.median, one.p95, one.p99, one.minimum, one.maximum)
        cells = ["no data", *[""] * 5] if not one.samples and one.mean is None else map(recordings.figure, figures)
        rows.append((one.series.name, *cells, quantities.count(one.samples), one.series.units))
    summed = f"{left_out} flows that carry load are left out; whydrop show --all lists them." if left_out else ""
    return _sheet("Statistics", titles, rows, summed)


def _induced(summary: Summary) -> Sheet:
    titles = ("Induced latency", "Idle", "Under load", "Induced", "Round trips a minute")
    rows = [
        (one.name, quantities.duration(one.idle_ms / 1e3), quantities.duration(one.loaded_ms / 1e3),
         recordings.signed(one.induced_ms), "" if one.rpm is None else quantities.count(round(one.rpm)))
        for one in summary.induced_latency()
    ]  # fmt: skip
    return _sheet("Induced latency", titles, rows, "Median under load, less that without.")


def _losses(summary: Summary) -> Sheet:
    rows = [
        (one.name, quantities.count(one.sent), quantities.count(one.lost),
         f"{quantities.significant(one.percent)} %" if one.sent else "",
         *("" if part is None else quantities.count(part) for part in (one.up, one.down, one.late)))
        for one in summary.losses()
    ]  # fmt: skip
    return _sheet("Loss", ("Loss", "Sent", "Lost", "Share", "Up", "Down", "Late"), rows)


def _sheet(title: str, titles: tuple[str, ...], rows: Sequence[tuple[str, ...]], summed: str = "") -> Sheet:
    words = (titles[0], "Unit", "Value")
    columns = tuple(Column(name, number=name not in words, rank=place) for place, name in enumerate(titles))
    # All are shown, in the order of the test.
    weights = tuple((float(-number), 0.0) for number in range(len(rows)))
    return Sheet(title, columns, tuple(rows), weights, "", summed)


def facts(recording: Recording) -> Iterator[tuple[str, str]]:
    """The test, where and how it was run: a label and its words."""
    metadata = recording.metadata
    yield "Test", recordings.headline(Summary(recording))
    for label, key in (("Title", "title"), ("Note", "note")):
        if metadata.get(key):
            yield label, str(metadata[key])
    parameters = (metadata.get("test") or {}).get("parameters") or {}
    if parameters:
        yield "Parameters", ", ".join(f"{name} = {value}" for name, value in parameters.items())
    for name, host in (metadata.get("hosts") or {}).items():
        words = ", ".join(_host(host)) if isinstance(host, Mapping) else ""
        if words:
            yield f"Host: {name}", words
    silent = recording.flows_without_data()
    if silent:
        yield "No data from", ", ".join(silent)
    for failure in metadata.get("failures") or ():
        yield "Failure", str(failure)


def _host(host: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a host that most often explain a difference: its system, its congestion control, its queues."""
    flat = flattened(host)
    for key, label in _OF_HOST.items():
        if flat.get(key):
            yield f"{label} {flat[key]}".lstrip()
    for name, interface in (host.get("interfaces") or {}).items():
        kinds = [str(one.get("kind")) for one in interface.get("qdiscs") or () if isinstance(one, Mapping)]
        if kinds and name != "lo":
            yield f"{name}: {', '.join(dict.fromkeys(kinds))}"


def metadata(recording: Recording) -> Sheet:
    """All that is known of the test and its hosts, but what differs with every run."""
    flat = [(key, str(value)) for key, value in flattened(recording.metadata).items() if not is_noise(key)]
    left = len(flat) - MOST_METADATA
    more = f"{quantities.count(left)} more; whydrop metadata lists them." if left > 0 else ""
    return _sheet("Metadata", ("Key", "Value"), flat[:MOST_METADATA], more)
