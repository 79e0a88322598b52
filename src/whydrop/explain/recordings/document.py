"""The document of the JSON contract for a recording, and the analysis that hands it over."""

from __future__ import annotations

import json
from importlib import metadata
from os import PathLike
from typing import TYPE_CHECKING, Any, NoReturn

from whydrop.explain.recordings import phrases
from whydrop.explain.recordings.measures import scene as scenes
from whydrop.explain.recordings.producing import of_scene
from whydrop.explain.recordings.reducing import reduce
from whydrop.record.errors import RecordingError

if TYPE_CHECKING:
    from whydrop.explain.recordings.measures.scene import Scene
    from whydrop.record.recording import Recording

SCHEMA = 2


class RecordingAnalysis:
    """What was found in a recording, as :class:`whydrop.api.Explanation` takes it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document

    def json(self, *, pretty: bool = False) -> str:
        """The document of the JSON contract."""
        return json.dumps(self._document, ensure_ascii=False, indent=2 if pretty else None, allow_nan=False)

    def table(self, name: str) -> NoReturn:
        """There is none: a recording's tables are its own."""
        raise KeyError(f"no table {name!r}: a recording has tables of its own (whydrop.record.recording.Recording)")


def explain(path: str | PathLike[str]) -> RecordingAnalysis:
    """Explain a recording, or a file of another tool that can be imported.

    Raises:
        RecordingError: it cannot be read, or holds neither probes nor flows with a time.
    """
    from whydrop.record.recording import Recording

    return of_recording(Recording.open(path))


def of_recording(recording: Recording) -> RecordingAnalysis:
    """Explain a recording that is open.

    Raises:
        RecordingError: it cannot be read, or holds neither probes nor flows with a time.
    """
    scene = scenes.measure(recording)
    if scene is None:
        raise RecordingError(f"{recording.path}: a recording without probes and without flows: nothing to explain")
    return RecordingAnalysis(
        {
            "whydrop": metadata.version("whydrop"),
            "schema": SCHEMA,
            "captures": [],
            "recordings": [_about(recording, scene)],
            "flows": [],
            "transfers": [],
            "verdicts": [_in_words(verdict) for verdict in reduce(of_scene(scene))],
            "pair": None,
            "hops": [],
        }
    )


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


def _in_words(verdict: dict[str, Any]) -> dict[str, Any]:
    """With sentence, evidence, reasons and advice."""
    return {
        **verdict,
        "place": phrases.place(verdict["place"]),
        "at": verdict["place"],
        "byte_basis": "ip" if "limit_bytes" in verdict["parameters"] else None,
        "family": None,
        "models": [],
        "sentence": phrases.sentence(verdict),
        "evidence": [phrases.phrase(fact) for fact in verdict["facts"]],
        "against": [{"cause": one["cause"], "why": phrases.against(one)} for one in verdict["against"]],
        "advice": phrases.advice(verdict),
        "throughput_lost": None,
    }
