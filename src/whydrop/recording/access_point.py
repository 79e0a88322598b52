"""The streams of probes of a recording with a test that probed an access point beside the far ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording


def planned(recording: Recording) -> Mapping[str, Any] | None:
    """The part of the plan about them (``Plan.segments``); ``None`` where there is none, or none that makes sense."""
    found = (recording.metadata.get("test") or {}).get("segments")
    if not isinstance(found, dict) or not isinstance(found.get("far"), list) or not found["far"]:
        return None
    hosts = [found.get("near"), *found["far"]]
    return found if all(isinstance(one, dict) and {"host", "probe"} <= one.keys() for one in hosts) else None


def probe(recording: Recording) -> str | None:
    """The name of the stream that goes no farther than the access point: it measures no path to a far end."""
    found = planned(recording)
    return None if found is None else str(found["near"]["probe"])
