"""Responsiveness (RPM), said with the verdicts on the path of a test that measured it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whydrop.explaining.recordings.wording import phrase
from whydrop.recording.metrics.responsiveness import Responsiveness, of_recording

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

CODE = "responsiveness"


def said_of(verdicts: list[dict[str, Any]], recording: Recording) -> None:
    """Add a fact for each direction of which it is known, and its words, behind the other facts."""
    facts = [_fact(one) for one in of_recording(recording) if one.rpm is not None]
    for verdict in verdicts:
        if (verdict["at"] or {}).get("kind") == "path":
            verdict["facts"] += facts
            verdict["evidence"] += [phrase(fact) for fact in facts]


def _fact(one: Responsiveness) -> dict[str, Any]:
    rates = {"rpm": one.rpm, "new_rpm": one.foreign_rpm, "loaded_rpm": one.self_rpm}
    whole = {name: round(rate) for name, rate in rates.items() if rate is not None}
    load = "download" if one.direction == "down" else "upload"
    return {"code": CODE, "values": {"load": load, **whole, "confidence": one.confidence}}
