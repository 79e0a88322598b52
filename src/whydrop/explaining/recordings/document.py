"""The document of the JSON contract for a recording, and the analysis that hands it over."""

from __future__ import annotations

import json
from importlib import metadata
from os import PathLike
from typing import TYPE_CHECKING, Any

from whydrop.explaining.recordings import step_down, together
from whydrop.explaining.recordings.measures import scene as scenes
from whydrop.explaining.recordings.producing import of_scene
from whydrop.explaining.recordings.reducing import reduce
from whydrop.explaining.recordings.words import in_words
from whydrop.recording.errors import RecordingError

if TYPE_CHECKING:
    from whydrop.explaining.explained import Analysis, ArrowTable
    from whydrop.explaining.recordings.measures.scene import Scene
    from whydrop.recording.recording import Recording

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


def explain(path: str | PathLike[str], captured: Analysis | None = None) -> RecordingAnalysis:
    """Explain a recording, or a file of another tool that can be imported; with the analysis of captures of its test.

    Raises:
        RecordingError: it cannot be read, or holds neither probes nor flows with a time.
    """
    from whydrop.formats.importing import open_recording

    return of_recording(open_recording(path), captured)


def of_recording(recording: Recording, captured: Analysis | None = None) -> RecordingAnalysis:
    """Explain a recording that is open.

    Raises:
        RecordingError: it cannot be read, or holds neither probes nor flows with a time.
    """
    scene = scenes.measure(recording)
    if scene is None:
        raise RecordingError(f"{recording.path}: a recording without probes and without flows: nothing to explain")
    if captured is not None:
        seen = captured.document()
        # Captures of another time say nothing of this test: then no host is the test's, and each stands by itself.
        far = recording.table("flows")["address"].drop_nulls().unique() if _overlap(seen, scene) else ()
        found = {"recordings": [_about(recording, scene)], "verdicts": together.verdicts(scene, far, seen)}
        step_down.said_of(found["verdicts"], recording.metadata)
        return RecordingAnalysis({**seen, **found}, captured)
    verdicts = [in_words(verdict) for verdict in reduce(of_scene(scene))]
    step_down.said_of(verdicts, recording.metadata)
    return RecordingAnalysis(
        {
            "whydrop": metadata.version("whydrop"),
            "schema": SCHEMA,
            "captures": [],
            "recordings": [_about(recording, scene)],
            "flows": [],
            "transfers": [],
            "verdicts": verdicts,
            "pair": None,
            "hops": [],
        }
    )


def _overlap(captured: dict[str, Any], scene: Scene) -> bool:
    """True if the captures were taken while the test ran; notes with each where not."""
    first, last = scene.spans.first_ns / 1e9, scene.spans.last_ns / 1e9
    apart = [one for one in captured["captures"] if one["first"] is None or one["first"] > last or one["last"] < first]
    for one in apart:
        one["notes"].append("not of the time of the test: explained by itself")
    return not apart


def _about(recording: Recording, scene: Scene) -> dict[str, Any]:
    loaded = bool(scene.flows)
    return {
        "path": str(recording.path),
        "test": recording.metadata["name"],
        "title": recording.metadata["title"],
        "status": recording.status,
        "first": scene.spans.first_ns / 1e9,
        "last": scene.spans.last_ns / 1e9,
        "load_start": scene.spans.start_ns / 1e9 if loaded else None,
        "load_end": scene.spans.end_ns / 1e9 if loaded else None,
        "flows": [
            {"flow": flow.name, "direction": flow.direction, "kind": flow.kind, "host": flow.host or None}
            for flow in scene.flows
        ],
        "probes": [
            {"stream": stream.name, "host": stream.host or None, "sent": len(stream.times_ns)}
            for stream in scene.streams
        ],
        "notes": list(recording.notes),
    }
