"""An end of the test that was in trouble itself: its own losses and pauses, stated before anything about the path."""

from __future__ import annotations

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.findings import Fact, Finding, Place, Quantity, Subject
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.thresholds import MOST_NATS
from whydrop.recording.troubles import Trouble

STOOD_STILL, RECEIVE_BUFFER = "stood-still", "receive-buffer"


def findings(scene: Scene) -> list[Finding]:
    """One for each end: what it threw away, or for how long it stood still."""
    hosts = dict.fromkeys(one.host for one in scene.troubles)
    return [_finding(scene, [one for one in scene.troubles if one.host == host]) for host in hosts]


def _finding(scene: Scene, own: list[Trouble]) -> Finding:
    host = own[0].host
    pauses = [one for one in own if one.kind == "pause"]
    thrown = sum(one.count for one in own)
    paused_s = sum(one.length_s for one in pauses)
    whole_s = (scene.spans.last_ns - scene.spans.first_ns) / 1e9
    fact = Fact.of(
        "end-in-trouble",
        host=host,
        pauses=len(pauses),
        paused_s=paused_s,
        longest_s=max((one.length_s for one in pauses), default=0.0),
        start_s=(min(one.start_ns for one in own) - scene.spans.first_ns) / 1e9,
        thrown_away=thrown,
    )
    return Finding(
        Subject(scene.names, min(one.start_ns for one in own) / 1e9, max(one.end_ns for one in own) / 1e9),
        Place("this-host" if host is None else "far-end", "both"),
        "host-drop" if thrown else "peer-application" if host is not None else "sender",
        likelihood.bounded(MOST_NATS),
        detail=RECEIVE_BUFFER if thrown else STOOD_STILL,
        lost=thrown,
        explained=1.0,
        limited_share=min(1.0, paused_s / whole_s) if whole_s > 0 else 0.0,
        quantities={"duration_s": Quantity(paused_s, paused_s, paused_s)} if pauses else {},
        facts=(fact,),
    )
