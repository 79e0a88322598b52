"""Flows that their hosts hold back: the receive window, the send buffer, the application, pacing."""

from __future__ import annotations

import math

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.findings import Fact, Finding, Place, Quantity, Subject
from whydrop.explaining.recordings.measures import limits as measuring
from whydrop.explaining.recordings.measures.limits import HeldShares
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.naming.sides import Side
from whydrop.explaining.recordings.thresholds import MOST_OF_THE_TIME

# Cause and place of each limit.
_NAMES = {
    "receive-window": ("receiver-window", "receiver"),
    "send-buffer": ("sender", "sender"),
    "application": ("sender", "sender"),
    "pacing": ("sender", "sender"),
}
_WINDOWS = ("receive-window", "send-buffer")


def held(limits: HeldShares) -> str | None:
    """The limit that held a flow for most of the time; ``None`` where no host did."""
    name, share = measuring.largest(limits)
    return name if share > MOST_OF_THE_TIME and name in _NAMES else None


def findings(scene: Scene, judged: list[Side]) -> list[Finding]:
    """One for each direction and limit, of the flows that it holds for most of the time."""
    found = []
    groups: dict[tuple[str, str], list[HeldShares]] = {}
    for limits in scene.limits:
        name = held(limits)
        if name is not None:
            groups.setdefault((limits.flow.direction, name), []).append(limits)
    for (direction, name), group in groups.items():
        one = _finding(direction, name, group, judged)
        # A limit that is none competes only where it says why on what else is judged.
        if one.veto is None or any(side.subject == one.subject and side.place == one.place for side in judged):
            found.append(one)
    return found


def _finding(direction: str, name: str, group: list[HeldShares], judged: list[Side]) -> Finding:
    share = math.fsum(one.shares[name] for one in group) / len(group)
    cause, kind = _NAMES[name]
    place = Place(kind, direction)
    subject = Subject(tuple(one.flow.name for one in group))
    veto = None
    for side in judged:
        if side.direction in (direction, "both") and name in _WINDOWS and side.stands and side.waiting is not None:
            # The bottleneck works all the time: a larger window would make the queue longer, and no rate higher.
            veto = Fact("queue-stands-anyway", {"low_s": side.waiting.low_s, "induced_s": side.waiting.induced.value})
    # What holds all flows of a side competes with the causes of that side.
    for side in judged:
        if set(side.subject.flows) == set(subject.flows):
            subject, place = side.subject, side.place
    facts = tuple(
        Fact(
            "kernel-limited",
            {"flow": one.flow.name, "limit": name, "share": one.shares[name], "span_s": one.span_s, "by": one.by},
        )
        for one in group
    )
    return Finding(
        subject,
        place,
        cause,
        min(likelihood.of_most(one.shares[name], one.samples[name], MOST_OF_THE_TIME) for one in group),
        detail=None if cause == "receiver-window" else name,
        veto=veto,
        limited_share=share,
        quantities={"limited_share": _spread(group, name)},
        facts=facts,
    )


def _spread(group: list[HeldShares], name: str) -> Quantity:
    """The mean share with the interval of the surest that its samples allow (Hoeffding's inequality, 1963)."""
    share = math.fsum(one.shares[name] for one in group) / len(group)
    samples = max(1.0, min(one.samples[name] for one in group))
    half = math.sqrt(math.log(2 / 0.05) / (2 * samples))
    return Quantity(share, max(0.0, share - half), min(1.0, share + half))
