"""Packets that the host of the recording dropped itself: no inference, its kernel said so."""

from __future__ import annotations

from whydrop.explaining.recordings.findings import Fact, Finding, Place, Subject
from whydrop.explaining.recordings.measures.drops import HostDrops
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.thresholds import MOST_NATS


def findings(scene: Scene) -> list[Finding]:
    """One for each reason and direction."""
    return [_finding(one) for one in scene.drops]


def _finding(drops: HostDrops) -> Finding:
    facts = [
        Fact(
            "dropped-here",
            {
                "reason": drops.reason,
                "kind": drops.kind,
                "packets": drops.packets,
                "location": drops.location,
                "interface": drops.interface,
            },
        )
    ]
    if drops.sent_again:
        facts.append(Fact("sent-again-after-drops-here", {"laid": drops.laid, "count": drops.sent_again}))
    if drops.stood and drops.kind == "queue" and drops.direction == "up":
        facts.append(Fact("local-stall", {"packets": drops.stood}))
    if drops.lost_events:
        facts.append(Fact("drops-not-counted", {"count": drops.lost_events}))
    if drops.late:
        facts.append(Fact("watched-too-late", {}))
    return Finding(
        # Of a subject of its own: what else befell the flows is another question.
        Subject(drops.flows, drops.first_ns / 1e9, drops.last_ns / 1e9),
        # What passes through, and what no connection was watched of, has neither end here for sure.
        Place({"up": "sender", "down": "receiver"}[drops.direction], drops.direction) if drops.known else None,
        "host-drop",
        MOST_NATS,
        detail=drops.reason,
        lost=drops.packets,
        explained=1.0,
        facts=tuple(facts),
    )
