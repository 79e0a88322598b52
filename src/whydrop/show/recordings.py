"""A recording as text for a terminal: first what was run and whether all went well, then the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from whydrop.explaining.recordings import depth
from whydrop.recording import document, troubles
from whydrop.recording.metrics.summary import InducedLatency, Loss, SeriesSummary, Summary
from whydrop.recording.metrics.together import listed
from whydrop.recording.recording import Recording, Series
from whydrop.show.terminal import heading, print_by, safe
from whydrop.text import quantities

# Induced latency that speech and games do not notice, and that everybody does (ITU-T G.114: 150 ms in all one way).
_HARMLESS_MS, _BAD_MS = 30.0, 150.0

# Longer lists of flows are given by their sums, and in full with --all.
_MOST_FLOWS = 24

# Columns of figures and units, with what is between them.
_WIDEST_FIGURES = 100

_KINDS = {
    "tcp": ("TCP flow", "TCP flows"),
    "udp": ("UDP stream", "UDP streams"),
    "probe": ("stream of UDP probes", "streams of UDP probes"),
    "icmp": ("stream of ICMP probes", "streams of ICMP probes"),
    "http": ("HTTP client", "HTTP clients"),
    "burst": ("train of bursts", "trains of bursts"),
    "value": ("series of values", "series of values"),
}


def print_recording(summary: Summary, console: Console | None = None, *, every: bool = False) -> None:
    """Print a recording; ``every`` lists also the further quantities of its flows and the counters."""
    print_by(lambda console: _print(summary, console, every), console)


def headline(summary: Summary) -> str:
    """A line on what was run, where, when, and how it ended."""
    metadata = summary.recording.metadata
    test = metadata["test"]
    hosts = ", ".join(str(host) for host in test.get("hosts") or [])
    parts = [str(metadata["name"] or "a recording") + (f" to {hosts}" if hosts else "")]
    if isinstance(metadata["started_ns"], int):
        parts.append(quantities.instant(metadata["started_ns"] / 1e9))
    length_s = test.get("length_s")
    # Of a measurement of depth that is the time that it may take at most.
    if isinstance(length_s, (int, float)) and length_s and not depth.is_of_depth(summary.recording):
        parts.append(f"{quantities.duration(float(length_s))} of load" if summary.load_span_ns() else "no load")
    parts.append(_flows_in_words(summary.flows))
    return "; ".join(part for part in parts if part) + f": {metadata['status']}."


def _flows_in_words(flows: Sequence[dict[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for row in flows:
        counts[row["kind"]] = counts.get(row["kind"], 0) + 1
    return ", ".join(f"{count} {_KINDS.get(kind, (kind, kind))[count > 1]}" for kind, count in counts.items())


def _print(summary: Summary, console: Console, every: bool) -> None:
    recording = summary.recording
    healthy = recording.status == "complete"
    console.print(safe(headline(summary), style="bold" if healthy else "bold red"))
    told = ((row["name"], document.told(row["facts"])) for row in summary.flows)
    # First: everything below is to be read with it.
    for line in [*troubles.in_words(troubles.of_metadata(recording.metadata)), *troubles.withheld_in_words(told)]:
        console.print(safe(line[:1].upper() + line[1:] + ".", style="bold yellow"))
    if recording.metadata["title"]:
        console.print(safe(recording.metadata["title"]))
    if recording.metadata["note"]:
        console.print(safe(recording.metadata["note"], style="dim"))
    silent = recording.flows_without_data()
    if silent:
        console.print(
            safe(f"NO DATA from {len(silent)} of {len(summary.flows)} flows: {', '.join(silent)}", "bold red")
        )
    said = [f"{row['name']}: {row['message']}" for row in summary.flows if row["message"]]
    # The failures of a run are what its flows said, and perhaps more.
    for line in dict.fromkeys([*said, *map(str, recording.metadata["failures"])]):
        console.print(safe(line, style="red"))
    for line in _of_depth(recording):
        console.print(safe(line, style="bold"))
    _print_series(summary, console, every)
    _print_induced(summary.induced_latency(), console)
    _print_losses(summary.losses(), console)
    _print_rest(summary, console)
    # Said last, because reading the tables above may have found damaged parts.
    for note in recording.notes:
        console.print(safe(note, style="yellow"))


def _of_depth(recording: Recording) -> list[str]:
    """The result of a measurement of a queue's depth, in its own words."""
    return depth.in_words(recording) if depth.is_of_depth(recording) else []


def chosen_series(summary: Summary, *, every: bool) -> tuple[list[Series], int]:
    """The series to list, and how many flows are left out of them; ``every`` lists all."""
    series = summary.recording.series()
    # Telemetry of a switch, say, has counters only: to leave them out would leave nothing.
    chosen = series if every or not summary.flows else [one for one in series if not one.key]
    if every or sum(one.flow is not None for one in chosen) <= _MOST_FLOWS:
        return list(chosen), 0
    load = [one for one in chosen if one.kind in ("tcp", "udp")]
    return [one for one in chosen if one not in load], len(load)


def _print_series(summary: Summary, console: Console, every: bool) -> None:
    chosen, left_out = chosen_series(summary, every=every)
    if not chosen:
        return
    heading(console, "Series")
    table = _table("", "mean", "median", "p95", "p99", "min", "max", "samples", "")
    still = 0
    for found in map(summary.of, chosen):
        if found.series.kind == "counter" and found.maximum == found.minimum == 0:
            still += 1
        else:
            table.add_row(*_series_row(found))
    # Names are never broken: a terminal wraps what is too wide for it, and files can be searched for them.
    width = max(len(one.name) for one in chosen) + _WIDEST_FIGURES
    options = console.options.update(width=max(console.width, width))
    rendered = console.render(Padding(table, (0, 0, 0, 2), expand=False), options)
    console.print(Segments(rendered), soft_wrap=True, end="")
    if left_out:
        console.print(safe(f"  {left_out} flows that carry load are left out; --all lists them", style="dim"))
    if still:
        console.print(safe(f"  {still} counters that stayed at 0 are left out; --json has them", style="dim"))


def _table(*titles: str) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    for place, title in enumerate(titles):
        words = place == 0 or place == len(titles) - 1
        table.add_column(title, justify="left" if words else "right", no_wrap=not words, overflow="fold")
    return table


def _series_row(found: SeriesSummary) -> list[Text]:
    if not found.samples and found.mean is None:
        return [safe(found.series.name, "red"), *[Text("no data" if place == 0 else "", "red") for place in range(8)]]
    values = (found.mean, found.median, found.p95, found.p99, found.minimum, found.maximum)
    return [
        safe(found.series.name),
        *[Text(figure(value), style="bold" if place == 0 else "") for place, value in enumerate(values)],
        Text(quantities.count(found.samples), style="dim"),
        safe(found.series.units, style="dim"),
    ]


def figure(value: float | None) -> str:
    """A statistic with as many digits as matter."""
    if value is None:
        return ""
    # From a hundred million on, digits are counted in vain.
    return f"{value:.3g}" if abs(value) >= 1e8 else quantities.significant(value)


def _print_induced(found: Sequence[InducedLatency], console: Console) -> None:
    if not found:
        return
    heading(console, "Induced latency: median under load, less that without; round trips a minute under load")
    table = _table("", "idle", "under load", "induced", "RPM", "")
    for one in found:
        style = "green" if one.induced_ms < _HARMLESS_MS else "yellow" if one.induced_ms < _BAD_MS else "bold red"
        table.add_row(
            safe(one.name),
            Text(quantities.duration(one.idle_ms / 1e3)),
            Text(quantities.duration(one.loaded_ms / 1e3)),
            Text(signed(one.induced_ms), style=style),
            Text("" if one.rpm is None else quantities.count(round(one.rpm))),
            Text("" if one.idle_is.startswith("median") else f"idle: {one.idle_is} of all", style="dim"),
        )
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def signed(value_ms: float) -> str:
    """A difference of times, with its sign."""
    return f"{'−' if value_ms < 0 else '+'}{quantities.duration(abs(value_ms) / 1e3)}"


def _print_losses(found: Sequence[Loss], console: Console) -> None:
    if not found:
        return
    heading(console, "Loss")
    table = _table("", "sent", "lost", "", "up", "down", "late", "")
    for one in found:
        style = "red" if one.lost else "green"
        table.add_row(
            safe(one.name),
            Text(quantities.count(one.sent)),
            Text(quantities.count(one.lost), style=style),
            Text(f"{quantities.significant(one.percent)} %" if one.sent else "", style=style),
            *[Text("" if part is None else quantities.count(part)) for part in (one.up, one.down, one.late)],
            Text(""),
        )
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _print_rest(summary: Summary, console: Console) -> None:
    lines = _together(summary)
    resent = summary.retransmissions()
    if resent:
        most = max(resent, key=lambda name: resent[name])
        line = f"Segments retransmitted: {quantities.count(sum(resent.values()))}"
        untold = [row["name"] for row in summary.flows if row["kind"] == "tcp" and row["name"] not in resent]
        line += f" without {listed(untold)}, whose senders did not tell" if untold else ""
        lines.append(
            line + (f", most by {most} ({quantities.count(resent[most])})" if len(resent) > 1 and resent[most] else "")
        )
    if lines:
        console.print()
    for line in lines:
        console.print(safe(line))


def _together(summary: Summary) -> list[str]:
    """The sum over all flows of a direction, or why it is not known."""
    lines = []
    fairness = summary.fairness()
    for direction, mean in summary.goodput().items():
        flows = summary.members(direction)
        line = f"All {'uploads' if direction == 'up' else 'downloads'} together: "
        if mean is None:
            line += f"not known; {flows.words_of_absent()}"
            line += (
                f"; the others {quantities.rate(summary.goodput_of_known(direction) * 1e6)}" if flows.present else ""
            )
        else:
            line += quantities.rate(mean * 1e6) + (f" {flows.words()}" if flows.words() else "")
        index = fairness.get(direction)
        line += f", Jain's index of fairness {index:.3f}" if index is not None else ""
        lines.append(line)
    return lines


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
