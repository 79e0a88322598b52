"""The document of the JSON contract for a recording, and the analysis that hands it over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import metadata
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.explaining import completing
from whydrop.explaining.recordings import depth, ports, responsive, step_down, together, where
from whydrop.explaining.recordings.causes import senders
from whydrop.explaining.recordings.findings import in_order, reduce
from whydrop.explaining.recordings.measures import scene as scenes
from whydrop.explaining.recordings.measures.series import COLUMNS
from whydrop.explaining.recordings.producing import of_scene
from whydrop.explaining.recordings.thresholds import MOST_CONNECTIONS
from whydrop.explaining.recordings.wording import in_words
from whydrop.recording.document import json_object
from whydrop.recording.errors import RecordingError
from whydrop.recording.recording import Recording

if TYPE_CHECKING:
    from whydrop.explaining.explained import Analysis, ArrowTable
    from whydrop.explaining.recordings.measures.scene import Scene

SCHEMA = 2


class RecordingAnalysis:
    """The findings in a recording, and in captures of the same test, as :class:`whydrop.Explanation` takes them."""

    def __init__(self, document: dict[str, Any], captured: Analysis | None = None) -> None:
        self._document = document
        self._captured = captured

    def document(self) -> dict[str, Any]:
        """The document of the JSON contract: what JSON has, and a copy."""
        document: dict[str, Any] = json.loads(json.dumps(self._document, allow_nan=False))
        return document

    def table(self, name: str) -> ArrowTable:
        """One of the captures' tables; without captures there is none, as a recording's are its own."""
        if self._captured is None:
            raise KeyError(f"no table {name!r}: a recording has tables of its own (whydrop.Recording)")
        return self._captured.table(name)


def explain(
    path: str | PathLike[str], captured: Analysis | None = None, switch: tuple[str, str] | None = None
) -> RecordingAnalysis:
    """Explain a recording, a store, or a file of another tool; with the analysis of captures of its test.

    Raises:
        RecordingError: it cannot be read, or holds neither probes nor flows with a time.
    """
    from whydrop.formats.importing import open_recording
    from whydrop.formats.kinds import is_store

    return of_recording(_of_store(path) if is_store(fspath(path)) else open_recording(path), captured, switch)


def _of_store(path: str | PathLike[str]) -> Recording:
    from whydrop.formats.connections import of_store
    from whydrop.store.store import Store

    return of_store(Store.open(path), MOST_CONNECTIONS)


def of_recording(
    recording: Recording, captured: Analysis | None = None, switch: tuple[str, str] | None = None
) -> RecordingAnalysis:
    """Explain a recording that is open.

    Args:
        recording: of a test, or of connections.
        captured: the analysis of captures of the same.
        switch: a store, and the port ``SWITCH/PORT`` in it that the path goes through.

    Raises:
        RecordingError: it cannot be read, or holds neither probes nor flows with a time.
    """
    if depth.is_of_depth(recording):
        return _of_depth(recording, captured)
    parts, notes = _apart(recording)
    measured = [scene for part in parts if (scene := scenes.measure(part)) is not None]
    if (host := scenes.of_host(recording)) is not None:
        measured.append(host)
    if not measured:
        raise RecordingError(f"{recording.path}: a recording without probes and without flows: nothing to explain")
    about = _about(recording, measured, notes)
    port = None if switch is None else ports.read(*switch, *_span(measured))
    if captured is not None:
        seen = captured.document()
        # Captures of another time say nothing of this test: then no host is the test's, and each stands by itself.
        at_once = _overlap(seen, about)
        told = recording.table("flows")["address"].drop_nulls().unique() if at_once else ()
        # Packets do not carry the zone of an address.
        far = [address.partition("%")[0] for address in told]
        flows = (flow for scene in measured for flow in scene.flows)
        names = {flow.connection: flow.name for flow in flows if flow.connection is not None}
        found = {"recordings": [about], "verdicts": together.verdicts(measured, far, seen, port, names)}
        if not at_once:
            # The page is about the test first.
            found["verdicts"].sort(key=lambda verdict: "recording" not in verdict.get("sources", ()))
        step_down.said_of(found["verdicts"], recording.metadata)
        about["segments"] = where.said_of(found["verdicts"], recording)
        responsive.said_of(found["verdicts"], recording)
        return RecordingAnalysis({**seen, **found}, captured)
    verdicts = in_order(
        in_words(verdict, of_connections=_of_connections(recording))
        for scene in measured
        for verdict in reduce(of_scene(scene, port))
    )
    step_down.said_of(verdicts, recording.metadata)
    about["segments"] = where.said_of(verdicts, recording)
    responsive.said_of(verdicts, recording)
    return RecordingAnalysis(_document(about, verdicts))


# What a recording of connections is called: one that was watched, or imported.
_NAMES = ("watch", "connections")


def _of_connections(recording: Recording) -> bool:
    """True if a recording is of a host's connections, and not of a test."""
    return recording.metadata["name"] in _NAMES


def _apart(recording: Recording) -> tuple[Iterator[Recording], list[str]]:
    """A recording for each connection that carried something, or the test as it is; and what a reader should know.

    Of many connections those that carried most are taken.
    """
    if not _of_connections(recording):
        return iter([recording]), []
    flows = recording.table("flows")
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in flows.filter(pl.col("kind") == "tcp").iter_rows(named=True):
        own = json_object(row["facts"]).get("cookie")
        groups.setdefault((own, row["host"]) if own is not None else row["flow"], []).append(row)
    carried = sorted(groups.values(), key=lambda rows: -sum(row["payload_bytes"] or 0 for row in rows))
    notes = []
    if len(carried) > MOST_CONNECTIONS:
        notes.append(
            f"{len(carried)} connections: the {MOST_CONNECTIONS} that carried most are explained; "
            "`whydrop watch` and `whydrop import` can choose others"
        )
        carried = carried[:MOST_CONNECTIONS]
    return _each(recording, flows, carried), notes


def _each(recording: Recording, flows: pl.DataFrame, groups: list[list[dict[str, Any]]]) -> Iterator[Recording]:
    for group in groups:
        numbers = [row["flow"] for row in group]
        tables = {
            name: pl.concat([recording.of_flow(name, number, *columns) for number in numbers])
            for name, columns in COLUMNS.items()
        }
        own = flows.filter(pl.col("flow").is_in(numbers))
        yield Recording(recording.path, recording.metadata, {"flows": own, "polls": recording.table("polls"), **tables})


def _document(about: dict[str, Any], verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "whydrop": metadata.version("whydrop"),
        "schema": SCHEMA,
        "captures": [],
        "recordings": [about],
        "flows": [],
        "transfers": [],
        "verdicts": verdicts,
        "pair": None,
        "hops": [],
    }


def _of_depth(recording: Recording, captured: Analysis | None) -> RecordingAnalysis:
    """The result of the bursts first: they were sent to measure that, and captures show no more of them."""
    first_ns = recording.metadata["started_ns"] or 0
    rounds = depth.rounds(recording)
    flows = [_flow(row["name"], row["direction"], row["kind"], row["host"]) for row in rounds]
    about = _entry(recording, (first_ns, recording.metadata["ended_ns"] or first_ns), flows)
    about["depth"], measured = depth.kept(recording), depth.verdict(recording)
    if captured is None:
        return RecordingAnalysis(_document(about, [measured]))
    seen = captured.document()
    _overlap(seen, about)
    found = {"recordings": [about], "verdicts": [measured, *map(completing.verdict, seen["verdicts"])]}
    return RecordingAnalysis({**seen, **found}, captured)


def _overlap(captured: dict[str, Any], about: dict[str, Any]) -> bool:
    """True if the captures were taken while the test ran; notes with each where not."""
    first, last = about["first"], about["last"]
    apart = [one for one in captured["captures"] if one["first"] is None or one["first"] > last or one["last"] < first]
    for one in apart:
        one["notes"].append("not of the time of the test: explained by itself")
    return not apart


def _span(measured: list[Scene]) -> tuple[int, int]:
    """From the first sample to the last."""
    return min(scene.spans.first_ns for scene in measured), max(scene.spans.last_ns for scene in measured)


def _about(recording: Recording, measured: list[Scene], notes: list[str]) -> dict[str, Any]:
    loads = [scene.spans for scene in measured if scene.flows]
    flows = [
        {**_flow(flow.name, flow.direction, flow.kind, flow.host), **senders.of_flow(scene, flow.name)}
        for scene in measured
        for flow in scene.flows
    ]
    return {
        **_entry(recording, _span(measured), flows),
        "load_start": min(span.start_ns for span in loads) / 1e9 if loads else None,
        "load_end": max(span.end_ns for span in loads) / 1e9 if loads else None,
        "probes": [
            {"stream": stream.name, "host": stream.host or None, "sent": len(stream.times_ns)}
            for scene in measured
            for stream in scene.streams
        ],
        "notes": [*recording.notes, *notes],
    }


def _entry(recording: Recording, span_ns: tuple[int, int], flows: list[dict[str, Any]]) -> dict[str, Any]:
    """The recording's entry of the document."""
    return {
        "path": str(recording.path),
        "test": recording.metadata["name"],
        "title": recording.metadata["title"],
        "status": recording.status,
        "first": span_ns[0] / 1e9,
        "last": span_ns[1] / 1e9,
        "load_start": None,
        "load_end": None,
        "flows": flows,
        "probes": [],
        "notes": list(recording.notes),
    }


def _flow(name: str, direction: str, kind: str, host: str | None) -> dict[str, Any]:
    return {"flow": name, "direction": direction, "kind": kind, "host": host or None}
