"""Outages: for a while nothing passed, then it went on."""

from __future__ import annotations

import math

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.findings import Fact, Finding, Place, Quantity, Subject
from whydrop.explaining.recordings.measures.outages import Outage
from whydrop.explaining.recordings.measures.scene import Scene


def findings(scene: Scene) -> list[Finding]:
    """One for each interval."""
    return [_finding(scene, outage) for outage in scene.outages]


def _finding(scene: Scene, outage: Outage) -> Finding:
    length_s = (outage.end_ns - outage.start_ns) / 1e9
    # Probes of several streams that are sent together are lost together: one round counts.
    rounds = math.ceil(outage.probes / max(1, len(outage.streams)))
    pause_s = length_s / max(1, rounds)
    whole_s = (scene.spans.last_ns - scene.spans.first_ns) / 1e9
    return Finding(
        Subject(outage.silent or outage.streams, outage.start_ns / 1e9, outage.end_ns / 1e9),
        Place("path", "both"),
        "outage",
        likelihood.bounded(-rounds * math.log(outage.persistence)),
        lost=outage.probes,
        explained=1.0,
        limited_share=min(1.0, length_s / whole_s) if whole_s > 0 else 0.0,
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
