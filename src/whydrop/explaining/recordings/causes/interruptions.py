"""Times in which nothing passed: outages of the path, and ends of the test that were in trouble themselves.

An end's own losses and pauses are stated before anything about the path.
"""

from __future__ import annotations

import math

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.findings import Fact, Finding, Place, Quantity, Subject
from whydrop.explaining.recordings.measures.outages import Outage
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.thresholds import MOST_NATS
from whydrop.recording.troubles import Trouble

STOOD_STILL, RECEIVE_BUFFER = "stood-still", "receive-buffer"


def findings(scene: Scene) -> list[Finding]:
    """One for each outage, and for each end: what it threw away, or for how long it stood still."""
    hosts = dict.fromkeys(one.host for one in scene.troubles)
    troubled = (_of_end(scene, [one for one in scene.troubles if one.host == host]) for host in hosts)
    return [*(_of_outage(scene, outage) for outage in scene.outages), *troubled]


def _share(scene: Scene, length_s: float) -> float:
    """The share of the recording's time."""
    whole_s = (scene.spans.last_ns - scene.spans.first_ns) / 1e9
    return min(1.0, length_s / whole_s) if whole_s > 0 else 0.0


def _of_outage(scene: Scene, outage: Outage) -> Finding:
    length_s = (outage.end_ns - outage.start_ns) / 1e9
    # Probes of several streams that are sent together are lost together: one round counts.
    rounds = math.ceil(outage.probes / max(1, len(outage.streams)))
    pause_s = length_s / max(1, rounds)
    return Finding(
        Subject(outage.silent or outage.streams, outage.start_ns / 1e9, outage.end_ns / 1e9),
        Place("path", "both"),
        "outage",
        likelihood.bounded(-rounds * math.log(outage.persistence)),
        lost=outage.probes,
        explained=1.0,
        limited_share=_share(scene, length_s),
        quantities={"duration_s": Quantity(length_s, max(0.0, length_s - pause_s), length_s + pause_s)},
        facts=(
            Fact.of(
                "nothing-passed",
                start_s=(outage.start_ns - scene.spans.first_ns) / 1e9,
                duration_s=length_s,
                probes=outage.probes,
                streams=len(outage.streams),
                silent_flows=len(outage.silent),
            ),
        ),
    )


def _of_end(scene: Scene, own: list[Trouble]) -> Finding:
    host = own[0].host
    pauses = [one for one in own if one.kind == "pause"]
    thrown = sum(one.count for one in own)
    paused_s = sum(one.length_s for one in pauses)
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
        limited_share=_share(scene, paused_s),
        quantities={"duration_s": Quantity(paused_s, paused_s, paused_s)} if pauses else {},
        facts=(fact,),
    )
