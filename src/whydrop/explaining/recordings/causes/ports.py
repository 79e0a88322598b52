"""A port of a switch that discards when the flows lose: the queue before it is full."""

from __future__ import annotations

import math

from whydrop.explaining.recordings.causes.sides import Side
from whydrop.explaining.recordings.findings import Fact, Finding
from whydrop.explaining.recordings.measures import ports
from whydrop.explaining.recordings.measures.ports import Coincidence, Port
from whydrop.explaining.recordings.thresholds import COINCIDENCE, COMING_TOGETHER


def findings(port: Port, side: Side) -> list[Finding]:
    """The findings of the counters of the port about one side."""
    found = ports.measure(port, [flow for load in side.loads for flow in load.flows])
    if found is None:
        unknown = Fact("port-not-known-then", {"port": port.name})
        return [Finding(side.subject, side.place, "unknown", 0.0, facts=(unknown,), source="switch")]
    fact = _fact(found)
    if not found.with_both or found.chance > COMING_TOGETHER:
        return [Finding(side.subject, side.place, "unknown", 0.0, facts=(fact,), source="switch")]
    # A port that discards has a full queue (ifOutDiscards, RFC 2863). Where the flows' packets wait
    # long it is a long one. That the two came together by chance is never ruled out beyond one in a thousand.
    nats = min(-math.log(COINCIDENCE), -math.log(max(found.chance, 1e-300)))
    cause = "deep-queue" if side.is_deep else "shallow-queue"
    explained = found.with_both / found.with_losses
    return [
        Finding(
            side.subject,
            side.place,
            cause,
            nats,
            detail="bufferbloat" if side.is_deep else None,
            lost=side.lost,
            explained=explained,
            facts=(fact,),
            source="switch",
        )
    ]


def _fact(found: Coincidence) -> Fact:
    return Fact(
        "port-discards",
        {
            "port": found.port,
            "span_s": found.span_s,
            "discards": found.discards,
            "packets": found.packets,
            "bins": found.bins,
            "with_discards": found.with_discards,
            "with_losses": found.with_losses,
            "with_both": found.with_both,
            "chance": found.chance,
            "highest_bps": found.highest_bps if math.isfinite(found.highest_bps) else None,
        },
    )
