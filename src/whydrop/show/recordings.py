"""A recording as a document: the test and its outcome first, then statistics of its series; for a page, its plots."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from whydrop.explaining.recordings import depth
from whydrop.recording import document as documents
from whydrop.recording import troubles
from whydrop.recording.comparing.metadata_difference import flattened, is_noise
from whydrop.recording.metrics.grades import APPLICATIONS, Quality
from whydrop.recording.metrics.responsiveness import HIGH, LOW, Responsiveness
from whydrop.recording.metrics.summary import InducedLatency, Loss, SeriesSummary, Summary
from whydrop.recording.recording import Recording, Series
from whydrop.show import cells, segments
from whydrop.show.document import (
    Choice,
    Column,
    Columns,
    Document,
    Facts,
    Figures,
    Folded,
    Part,
    Section,
    Table,
    Text,
    known,
    parts,
)
from whydrop.text import quantities
from whydrop.text.phrases import capital, listed

# Induced latency that speech and games do not notice, and that everybody does (ITU-T G.114: 150 ms in one direction).
_HARMLESS_MS, _BAD_MS = 30.0, 150.0

# Longer lists of flows are given by their sums, and in full with --all.
_MOST_FLOWS = 24
# Rows of the table of all metadata; hosts have thousands of settings.
_MOST_METADATA = 2000
# Keys of a host, and the word before their values.
_OF_HOST = {
    "host_name": "",
    "distribution.pretty": "",
    "kernel.release": "kernel",
    "sysctls.net.ipv4.tcp_congestion_control": "congestion control",
}

_KINDS = {
    "tcp": ("TCP flow", "TCP flows"),
    "udp": ("UDP stream", "UDP streams"),
    "probe": ("stream of UDP probes", "streams of UDP probes"),
    "icmp": ("stream of ICMP probes", "streams of ICMP probes"),
    "http": ("HTTP client", "HTTP clients"),
    "burst": ("train of bursts", "trains of bursts"),
    "value": ("series of values", "series of values"),
}


def document(summary: Summary, *, every: bool = False) -> Document:
    """A recording for people; ``every`` lists also the further quantities of its flows and the counters."""
    recording = summary.recording
    title = headline(summary)
    together = Section("", tuple(Text(line) for line in _together(summary)))
    shown = (Section(title, tuple(_outcome(summary))), *tables(summary, every=every), *parts(together))
    # Reading the tables may have found damaged parts.
    return Document(title, shown, notes=tuple(recording.notes))


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


def _outcome(summary: Summary) -> Iterator[Text]:
    """Everything that a reader of the numbers must know first, and the words that the user gave the test."""
    recording = summary.recording
    metadata = recording.metadata
    facts = ((row["name"], documents.json_object(row["facts"])) for row in summary.flows)
    for line in [*troubles.in_words(troubles.of_metadata(metadata)), *troubles.withheld_in_words(facts)]:
        yield Text(f"{capital(line)}.", "warning")
    for key in ("title", "note"):
        if metadata[key]:
            yield Text(metadata[key])
    silent = recording.flows_without_data()
    if silent:
        yield Text(f"NO DATA from {len(silent)} of {len(summary.flows)} flows: {', '.join(silent)}", "bad")
    messages = [f"{row['name']}: {row['message']}" for row in summary.flows if row["message"]]
    # The failures of a run are the messages of its flows, and perhaps more.
    for line in dict.fromkeys([*messages, *map(str, metadata["failures"])]):
        yield Text(line, "bad")
    if depth.is_of_depth(recording):
        yield from (Text(line, "strong") for line in depth.in_words(recording))
    yield from (Text(line, "strong") for line in segments.sentences(summary.segments))


def tables(summary: Summary, *, every: bool = False) -> tuple[Part, ...]:
    """Statistics as tables: series, induced latency, segments, quality under load, loss."""
    return parts(
        _series(summary, every),
        _responsiveness(summary.responsiveness()),
        _induced(summary.induced_latency()),
        segments.table(summary.segments),
        _qualities(summary.qualities()),
        _losses(summary.losses()),
    )


def chosen_series(summary: Summary, *, every: bool) -> tuple[list[Series], int]:
    """The series to list, and how many flows are left out of them; ``every`` lists all."""
    series = summary.recording.series()
    # Telemetry of a switch, say, has counters only: to leave them out would leave nothing.
    chosen = series if every or not summary.flows else [one for one in series if not one.key]
    if every or sum(one.flow is not None for one in chosen) <= _MOST_FLOWS:
        return list(chosen), 0
    load = [one for one in chosen if one.kind in ("tcp", "udp")]
    return [one for one in chosen if one not in load], len(load)


def _series(summary: Summary, every: bool) -> Table:
    chosen, left_out = chosen_series(summary, every=every)
    found = [summary.of(one) for one in chosen]
    shown = [one for one in found if not (one.series.kind == "counter" and one.maximum == one.minimum == 0)]
    still = len(found) - len(shown)
    columns: Columns[SeriesSummary] = {
        Column("Series"): lambda one: Text(one.series.name, "bad") if _is_silent(one) else one.series.name,
        Column("Mean", number=True): _mean,
        Column("Median", True, 1): lambda one: _figure(one.median),
        Column("p95", True, 3): lambda one: _figure(one.p95),
        Column("p99", True, 4): lambda one: _figure(one.p99),
        Column("Min", True, 5): lambda one: _figure(one.minimum),
        Column("Max", True, 2): lambda one: _figure(one.maximum),
        Column("Samples", True, 6): lambda one: "" if _is_silent(one) else quantities.count(one.samples),
        Column("Unit"): lambda one: one.series.units,
    }
    notes = [
        f"{left_out} flows that carry load are not listed; `whydrop show --all` lists them." if left_out else "",
        f"{still} counters that stayed at 0 are not listed; --json has them." if still else "",
    ]
    return Table.of("Series", columns, shown, notes=notes)


def _is_silent(found: SeriesSummary) -> bool:
    return not found.samples and found.mean is None


def _mean(found: SeriesSummary) -> Text:
    return Text("no data", "bad") if _is_silent(found) else Text(_figure(found.mean), "strong")


def _figure(value: float | None) -> str:
    """A statistic with as many digits as matter."""
    if value is None:
        return ""
    # From a hundred million on, single digits mean nothing.
    return f"{value:.3g}" if abs(value) >= 1e8 else quantities.significant(value)


def _induced(found: Sequence[InducedLatency]) -> Table:
    columns: Columns[InducedLatency] = {
        Column("Round trips"): lambda one: one.name,
        Column("Idle", number=True): lambda one: quantities.duration(one.idle_ms / 1e3),
        Column("Under load", number=True): lambda one: quantities.duration(one.loaded_ms / 1e3),
        Column("Induced", number=True): _induced_cell,
        Column("Round trips/min", True, 1): lambda one: known(one.round_trips_per_minute, quantities.count),
        Column("Idle is", False, 2): lambda one: "" if one.idle_is.startswith("median") else one.idle_is,
    }
    notes = ["Medians. Induced: under load less idle. Round trips a minute: under load, of the trimmed mean; not RPM."]
    return Table.of("Induced latency", columns, found, notes=notes).without_empty_columns()


def _induced_cell(one: InducedLatency) -> Text:
    text = quantities.signed(quantities.duration, one.induced_ms / 1e3)
    return Text(text, "good" if one.induced_ms < _HARMLESS_MS else "warning" if one.induced_ms < _BAD_MS else "bad")


def _responsiveness(found: Sequence[Responsiveness]) -> Table:
    columns: Columns[Responsiveness] = {
        Column("Load"): lambda one: one.name,
        Column("RPM", number=True): _rpm_cell,
        Column("Confidence"): lambda one: Text(one.confidence, "good" if one.confidence == HIGH else "warning"),
        Column("RPM, new connections", True, 2): lambda one: known(one.foreign_rpm, _whole),
        Column("RPM, loaded connections", True, 2): lambda one: known(one.self_rpm, _whole),
        Column("TCP", True, 4): lambda one: known(one.tcp_f_ms, _ms),
        Column("TLS", True, 4): lambda one: known(one.tls_f_ms, _ms),
        Column("HTTP", True, 4): lambda one: known(one.http_f_ms, _ms),
        Column("HTTP, loaded", True, 3): lambda one: known(one.http_l_ms, _ms),
        Column("Goodput", True, 1): lambda one: known(one.goodput_mbit_per_s, lambda rate: quantities.rate(rate * 1e6)),
        Column("Its confidence", False, 3): lambda one: one.goodput_confidence,
        Column("Connections", True, 5): lambda one: known(one.connections, quantities.count),
        Column("Probes", True, 5): lambda one: f"{one.foreign_probes} + {one.self_probes}",
        Column("Stable after", True, 5): lambda one: known(one.stable_after_s, quantities.duration),
    }
    notes = [f"{one.name}: {note}." for one in found for note in one.notes]
    if found:
        notes.append(
            "RPM: round trips a minute, the mean of those on new connections (TCP, TLS, HTTP) and of requests inside "
            "loaded ones; below 300 poor, from 1000 good, from 6000 excellent."
        )
    return Table.of("Responsiveness under load", columns, found, notes=notes)


def _rpm_cell(one: Responsiveness) -> Text:
    if one.rpm is None:
        return Text("unknown", "warning")
    if one.confidence == LOW:
        return Text(_whole(one.rpm), "warning")
    text = f"{_whole(one.rpm)} ({one.rating})"
    return Text(text, "bad" if one.rating == "poor" else "warning" if one.rating == "fair" else "good")


def _whole(value: float) -> str:
    return quantities.count(round(value))


def _ms(value: float) -> str:
    return quantities.duration(value / 1e3)


def _qualities(found: Sequence[Quality]) -> Table:
    columns: Columns[Quality] = {
        Column("Probes"): lambda one: one.name,
        Column("Grade"): _grade_cell,
        **{Column(name, True, 1): _outcome_cell(name) for name in APPLICATIONS},
        Column("Induced p95", True, 2): lambda one: (
            "" if one.induced_p95_ms is None else quantities.signed(quantities.duration, one.induced_p95_ms / 1e3)
        ),
        Column("Round trips", True, 3): lambda one: quantities.count(one.samples),
    }
    reasons = dict.fromkeys(one.not_graded for one in found if one.not_graded)
    notes = [f"Not graded: {reason}." for reason in reasons]
    if any(score is not None for one in found for score in one.outcomes.values()):
        notes.append("Web, video call, gaming: quality of outcome by latency and loss, 0 to 100.")
    return Table.of("Quality under load", columns, found, notes=notes).without_empty_columns()


def _grade_cell(one: Quality) -> Text:
    if one.grade is None:
        return Text("not graded")
    return Text(one.grade, "good" if one.grade.startswith("A") else "warning" if one.grade in "BC" else "bad")


def _outcome_cell(name: str) -> Callable[[Quality], str]:
    def cell(one: Quality) -> str:
        score = one.outcomes.get(name)
        # Rounded down: 100 is said of what is optimal, and of nothing else.
        return "" if score is None else str(math.floor(score))

    return cell


def _losses(found: Sequence[Loss]) -> Table:
    columns: Columns[Loss] = {
        Column("Packets"): lambda one: one.name,
        Column("Sent", True, 1): lambda one: quantities.count(one.sent),
        Column("Lost", number=True): lambda one: Text(quantities.count(one.lost), "bad" if one.lost else "good"),
        Column("Share", number=True): lambda one: (
            "" if one.percent is None else f"{quantities.significant(one.percent)} %"
        ),
        Column("Lost up", True, 2): lambda one: known(one.lost_up, quantities.count),
        Column("Lost down", True, 3): lambda one: known(one.lost_down, quantities.count),
        Column("Late", True, 4): lambda one: known(one.late, quantities.count),
    }
    return Table.of("Loss", columns, found).without_empty_columns()


def _together(summary: Summary) -> Iterator[str]:
    """The sum of all flows in each direction, or why it is unknown; and what was retransmitted."""
    fairness = summary.fairness()
    for direction, mean in summary.goodput().items():
        flows = summary.members(direction)
        line = f"Sum of all {'uploads' if direction == 'up' else 'downloads'}: "
        if mean is None:
            line += f"unknown; {flows.words_of_absent()}"
            line += (
                f"; the others {quantities.rate(summary.goodput_of_known(direction) * 1e6)}" if flows.present else ""
            )
        else:
            line += quantities.rate(mean * 1e6) + (f" {flows.words()}" if flows.words() else "")
        index = fairness.get(direction)
        yield line + (f"; Jain's fairness index {index:.3f}" if index is not None else "")
    retransmitted = summary.retransmissions()
    if retransmitted:
        most = max(retransmitted, key=lambda name: retransmitted[name])
        silent = [row["name"] for row in summary.flows if row["kind"] == "tcp" and row["name"] not in retransmitted]
        line = f"Segments retransmitted: {quantities.count(sum(retransmitted.values()))}"
        line += f" by {most}" if len(retransmitted) == 1 else ""
        if len(retransmitted) > 1 and retransmitted[most]:
            line += f", most by {most} ({quantities.count(retransmitted[most])})"
        yield line + (f"; the senders of {listed(silent)} reported none" if silent else "")
    reductions = summary.window_reductions()
    if reductions is not None:
        named = ", ".join(f"{quantities.count(number)} {cause}" for cause, number in reductions.items())
        total = quantities.plural(sum(reductions.values()), "time")
        yield f"Congestion windows were reduced {total}" + (f": {named}" if named else "")


# --- for a page ---


def plots(recording: Recording) -> Section:
    """The plots of the recording's test; an empty section where nothing can be drawn."""
    from whydrop.show.figure import NothingToDraw
    from whydrop.show.plots import building, catalogue

    figures = []
    for name in building.usual(recording):
        # A picture of rare steps has its series, and may have no such step.
        with contextlib.suppress(NothingToDraw):
            figures.append(building.build(name, catalogue.find(name), [recording]))
    again = cells.of_plots([str(recording.path)], [one.key for one in figures])
    choices = (Choice(figures, cells=again),) if figures else ()
    return Section("Plots", parts(Figures(choices, "plots over time")), key="plots")


def statistics(summary: Summary) -> tuple[Part, ...]:
    """Everything about a recording that follows its plots: statistics, and the test and hosts."""
    where = (Text(line, "strong") for line in segments.sentences(summary.segments))
    return (
        Section("Statistics", (*where, *tables(summary)), key="statistics"),
        Section("Test and hosts", (Facts(tuple(_facts(summary))), _metadata(summary.recording)), key="metadata"),
    )


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    """The test, where and how it was run: labels and texts."""
    metadata = summary.recording.metadata
    yield "Test", headline(summary)
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
    silent = summary.recording.flows_without_data()
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


def _metadata(recording: Recording) -> Folded:
    """All metadata but what differs with every run."""
    flat = [(key, str(value)) for key, value in flattened(recording.metadata).items() if not is_noise(key)]
    left = len(flat) - _MOST_METADATA
    more = (f"{quantities.count(left)} more; `whydrop metadata` lists them.",) if left > 0 else ()
    table = Table("", (Column("Key"), Column("Value")), tuple(flat[:_MOST_METADATA]), notes=more)
    return Folded("All metadata", (table,))
