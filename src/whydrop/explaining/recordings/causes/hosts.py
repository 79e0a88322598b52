"""Flows that their hosts hold back: by receive window, send buffer, application, pacing, or a responder's limit."""

from __future__ import annotations

import math

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.causes.sides import Side
from whydrop.explaining.recordings.findings import Fact, Finding, Place, Quantity, Subject, Value
from whydrop.explaining.recordings.measures import limits as measuring
from whydrop.explaining.recordings.measures.limits import HeldShares
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.thresholds import ALL_BY_FAR_LIMIT, MOST_OF_THE_TIME
from whydrop.recording import document
from whydrop.recording.end_limits import TOUCHED_BY_RESPONDER_LIMIT

FAR_END = "far-end"
# Cause and place of each limit.
_NAMES = {
    "receive-window": ("receiver-window", "receiver"),
    "send-buffer": ("sender", "sender"),
    "application": ("sender", "sender"),
    "pacing": ("sender", "sender"),
    FAR_END: ("peer-application", "far-end"),
}
OF_RESPONDER = "responder-limit"
_DETAILS = {"receive-window": None, FAR_END: OF_RESPONDER}
_WINDOWS = ("receive-window", "send-buffer", FAR_END)


def held(limits: HeldShares) -> str | None:
    """The limit of a flow for most of the time; ``None`` if no host limited it."""
    name, share = measuring.largest(limits)
    return name if share > MOST_OF_THE_TIME and name in _NAMES else None


def findings(scene: Scene, judged: list[Side]) -> list[Finding]:
    """One for each direction and limit, of the flows that it holds for most of the time."""
    found = []
    groups: dict[tuple[str, str], list[HeldShares]] = {}
    for direction, group in _by_far_end(scene).items():
        groups[direction, FAR_END] = group
    for limits in scene.limits:
        name = held(limits)
        if name is not None and name != FAR_END and limits not in groups.get((limits.flow.direction, FAR_END), ()):
            groups.setdefault((limits.flow.direction, name), []).append(limits)
    for (direction, name), group in groups.items():
        one = _finding(direction, name, group, judged)
        # A limit that is none competes only where it says why on what else is judged.
        if one.veto is None or any(side.subject == one.subject and side.place == one.place for side in judged):
            found.append(one)
    return found


def _by_far_end(scene: Scene) -> dict[str, list[HeldShares]]:
    """The flows of each direction that the responder's shared limit slowed for most of their time."""
    found = {}
    for direction in ("up", "down"):
        met = [one for one in scene.limits if one.flow.direction == direction and touched(one)]
        if met and math.fsum(one.shares[FAR_END] for one in met) / len(met) > MOST_OF_THE_TIME:
            found[direction] = met
    return found


def touched(limits: HeldShares) -> bool:
    """True if the responder's limit had a part in what the flow did."""
    return limits.shares[FAR_END] > TOUCHED_BY_RESPONDER_LIMIT


def _finding(direction: str, name: str, group: list[HeldShares], judged: list[Side]) -> Finding:
    share = math.fsum(one.shares[name] for one in group) / len(group)
    cause, kind = _NAMES[name]
    place = Place(kind, direction)
    subject = Subject(tuple(one.flow.name for one in group))
    veto = None
    for side in judged:
        if name == FAR_END and share > ALL_BY_FAR_LIMIT:
            # No queue that stands is of flows that the limit holds at all times.
            break
        if side.direction in (direction, "both") and name in _WINDOWS and side.stands and side.waiting is not None:
            # The bottleneck works all the time: a larger window would make the queue longer, and no rate higher.
            veto = Fact.of("queue-stands-regardless", low_s=side.waiting.low_s, induced_s=side.waiting.induced.value)
    # What holds all flows of a side competes with the causes of that side.
    for side in judged:
        if set(side.subject.flows) == set(subject.flows):
            subject, place = side.subject, side.place
    facts = tuple(fact for one in group for fact in _facts(one, name))
    return Finding(
        subject,
        place,
        cause,
        min(likelihood.of_most(one.shares[name], one.samples[name], MOST_OF_THE_TIME) for one in group),
        detail=_DETAILS.get(name, name),
        veto=veto,
        limited_share=share,
        quantities={"limited_share": _spread(group, name), **(_buffer(group) if name == "send-buffer" else {})},
        facts=facts,
    )


def _facts(limits: HeldShares, name: str) -> tuple[Fact, ...]:
    """The limit of a flow, and its buffer where that was the limit."""
    flow, share = limits.flow, limits.shares[name]
    if name == FAR_END:
        to_bps = document.number(flow.runner_facts.get("held_to_bps_by_responder")) or None
        told: dict[str, Value] = {"flow": flow.name, "direction": flow.direction, "share": share, "to_bps": to_bps}
        return (Fact("limited-by-responder", told),)
    own = Fact.of(
        "kernel-limited",
        flow=flow.name,
        limit=name,
        share=share,
        span_s=limits.span_s,
        by=limits.by,
        set_rate_bps=flow.set_rate_bps,
    )
    buffer = limits.buffer
    if name != "send-buffer" or buffer is None:
        return (own,)
    full = Fact.of(
        "send-buffer-full",
        flow=flow.name,
        buffer_bytes=buffer.memory_bytes,
        data_bytes=buffer.data_bytes,
        rtt_s=buffer.rtt_s,
        rate_bps=buffer.carried_bps,
        set=flow.set_send_buffer_bytes is not None,
        direction=flow.direction,
    )
    return full, own


def _buffer(group: list[HeldShares]) -> dict[str, Quantity]:
    """The smallest buffer of the group, and the least that its round trip would need.

    Linux counts the memory of a packet about twice (socket(7)), and so allows itself twice a window of them: what the
    flow carries now is the least that the path would carry.
    """
    known = [one.buffer for one in group if one.buffer is not None]
    if not known:
        return {}
    least = min(known, key=lambda one: one.memory_bytes)
    needed = max(least.memory_bytes, 2 * least.carried_bps / 8 * least.rtt_s)
    return {"send_buffer_bytes": Quantity(*[least.memory_bytes] * 3), "needed_bytes": Quantity(needed, needed, None)}


def _spread(group: list[HeldShares], name: str) -> Quantity:
    """The mean share with the interval of the surest that its samples allow (Hoeffding's inequality, 1963)."""
    share = math.fsum(one.shares[name] for one in group) / len(group)
    samples = max(1.0, min(one.samples[name] for one in group))
    half = math.sqrt(math.log(2 / 0.05) / (2 * samples))
    return Quantity(share, max(0.0, share - half), min(1.0, share + half))
