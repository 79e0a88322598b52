"""A recording and captures of the same test: one verdict from both.

Probes show delay and loss with and without load, a capture the fate of each packet. The findings of captures on the
test's flows of one direction compete with those of the recording on that direction, in the engine's reducer.
Packets know more than samples: what a capture is sure of, a recording makes surer, or rules out, but never displaces.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from whydrop.explaining import completing
from whydrop.explaining.recordings.causes.hosts import OF_RESPONDER
from whydrop.explaining.recordings.causes.queues import DOUBTS
from whydrop.explaining.recordings.causes.sides import Side, sides
from whydrop.explaining.recordings.findings import Fact, Finding, Quantity, in_order, reduce
from whydrop.explaining.recordings.producing import of_scene
from whydrop.explaining.recordings.wording import in_words

if TYPE_CHECKING:
    from whydrop.explaining.recordings.measures.scene import Scene
    from whydrop.explaining.recordings.ports import Port

Json = dict[str, Any]

# Of the record, or of connections beside what dropped and delayed their packets: they displace no cause.
_BESIDE = frozenset(
    {
        "capture-loss", "reset", "refused", "no-answer", "idle-timeout", "window-scaling", "sack", "ecn", "duplicate",
        "checksum", "jitter", "batching",
    }
)  # fmt: skip
# How a responder's own limit looks in packets: it reads late, or sends late.
_LIMIT_SEEN = frozenset({"receiver-window", "sender", "peer-application", "delayed-ack", "none", "unknown"})
# A confidence beyond this is certainty for a reader; its log-odds stay finite.
_SUREST = 1 - 1e-9
# A capture that is less certain of a cause than this yields to a recording that is more certain of another.
_SURE = 0.8
# What captures measure of packets, and recordings of probes.
_SAME = {"loss_probability": "loss_rate"}


def verdicts(
    scenes: Sequence[Scene],
    far: Iterable[str],
    captured: Mapping[str, Any],
    port: Port | None = None,
    connections: Mapping[str, str] | None = None,
) -> list[Json]:
    """All verdicts, in words.

    Args:
        scenes: what was measured of the recording; of one of connections, of each of them.
        far: addresses of the hosts that the test's flows went to.
        captured: the document of the captures, before it is put into words.
        port: counters of a switch's port that the path goes through.
        connections: the flows of the test by the names that captures write for them; none where that is not known.
    """
    left: list[Json] = list(captured["verdicts"])
    source = "pair" if captured.get("pair") else "capture"
    captured_flows = {one["flow"]: one for one in captured.get("flows", ())}
    # Captures behind an address translation know the connections by other names.
    seen = captured_flows.keys() | {flow for one in left for flow in one["flows"]}
    tested = {flow: name for flow, name in (connections or {}).items() if flow in seen}
    hosts, found = frozenset(far), []
    for scene in scenes:
        own, others = _of_connection(scene, left) if len(scenes) > 1 else (left, [])
        heads, apart = _sorted_out(sides(scene), hosts, tested, own)
        left = [*apart, *others]
        told, heads = _limits_known(of_scene(scene, port), heads)
        findings: list[Finding] = []
        for flows, (side, head) in heads.items():
            elsewhere = [one for one in told if set(one.subject.flows) != set(flows)]
            told = [*elsewhere, *beside([one for one in told if one not in elsewhere], head)]
            counts = _counts(side, [one for flow, one in captured_flows.items() if tested.get(flow) in flows])
            findings += _findings(side, head, source, counts)
        reduced = reduce([*told, *findings])
        found += [_joined(one, heads.get(tuple(one["flows"])), source, tested) for one in reduced]
    return in_order([*found, *map(completing.verdict, left)])


def _limits_known(
    told: Sequence[Finding], heads: dict[tuple[str, ...], tuple[Side, Json]]
) -> tuple[list[Finding], dict[tuple[str, ...], tuple[Side, Json]]]:
    """Findings and verdicts of captures; of a responder's own limit, where known, packets show only the effect."""
    limited = {frozenset(one.subject.flows) for one in told if one.detail == OF_RESPONDER and one.veto is None}
    seen_of = {frozenset(flows): seen for flows, (_, seen) in heads.items()}
    effects = {flows: seen for flows, seen in seen_of.items() if flows in limited and seen["cause"] in _LIMIT_SEEN}
    found = [
        replace(one, facts=(*one.facts, *map(_fact, effects[frozenset(one.subject.flows)]["facts"])))
        if one.detail == OF_RESPONDER and frozenset(one.subject.flows) in effects
        else one
        for one in told
    ]
    return found, {flows: head for flows, head in heads.items() if frozenset(flows) not in effects}


def _counts(side: Side, seen: Sequence[Json]) -> tuple[Fact, ...]:
    """Retransmissions as senders' kernels and captures count them, where the two differ."""
    by_kernel, captured = side.retransmitted, sum(one["retransmitted"] for one in seen)
    if not seen or by_kernel is None or round(by_kernel) == captured:
        return ()
    at = {one["vantage"] for one in seen}
    why = {("receiver", True): "lost-on-the-way", ("sender", False): "after-last-sample"}
    reason = why.get((at.pop(), captured < by_kernel)) if len(at) == 1 else None
    return (Fact.of("counted-otherwise", kernel=round(by_kernel), captured=captured, reason=reason),)


def beside(told: Sequence[Finding], seen: Json) -> list[Finding]:
    """A recording's findings on a side beside what captures found there, which count its losses exactly.

    Samples that support a cause less than the background do not contradict packets that show it.
    """
    stand = [replace(one, lost=0) for one in told if not _is_doubt(one)]
    cause = seen["cause"]
    if cause in ("none", "unknown"):
        return stand
    is_ruled_out = any(one.cause == cause and one.veto is not None for one in stand)
    gives_way = is_ruled_out or seen["confidence"] < _SURE
    return [
        _supporting(one, seen) if one.cause == cause else one
        for one in stand
        if one.cause in (cause, "unknown") or one.veto is not None or gives_way
    ]


def _supporting(finding: Finding, seen: Json) -> Finding:
    """A finding of the cause that captures name, with the quantities that they leave open."""
    known = {_SAME.get(name, name) for name in seen["parameters"]}
    quantities = {name: one for name, one in finding.quantities.items() if name not in known}
    return replace(finding, nats=max(0.0, finding.nats), quantities=quantities)


def _is_doubt(finding: Finding) -> bool:
    """True of a cause that samples alone cannot show: no reason against it where packets are seen."""
    return finding.veto is not None and finding.veto.code in DOUBTS


def _of_connection(scene: Scene, found: Sequence[Json]) -> tuple[list[Json], list[Json]]:
    """Verdicts of captures on the flows of one connection, by their names, and the others."""
    names = {flow.name.partition(" #")[0] for flow in scene.flows}
    own = [one for one in found if set(one["flows"]) <= names]
    return own, [one for one in found if one not in own]


def _sorted_out(
    judged: Sequence[Side], far: frozenset[str], tested: Mapping[str, str], found: Iterable[Json]
) -> tuple[dict[tuple[str, ...], tuple[Side, Json]], list[Json]]:
    """The first verdict of captures on each side, by the side's flows; and all others, which stand by themselves.

    Further ones are on other places of the path, on other hosts, or on connections between the same hosts that carried
    no load: several causes may be true.
    """
    heads: dict[tuple[str, ...], tuple[Side, Json]] = {}
    apart = []
    for verdict in found:
        is_of_load = not tested or not tested.keys().isdisjoint(verdict["flows"])
        way = _way(verdict["flows"], far) if is_of_load else None
        side = next((one for one in judged if way is not None and one.direction in (way, "both")), None)
        if side is None or side.subject.flows in heads or verdict["cause"] in _BESIDE:
            apart.append(verdict)
        else:
            heads[side.subject.flows] = (side, verdict)
    return heads, apart


def _way(flows: Iterable[str], far: frozenset[str]) -> str | None:
    """``up`` where all flows go to the test's far hosts, ``down`` where they come from there.

    >>> _way(["10.0.0.1:41001 > 10.0.3.1:5201"], frozenset({"10.0.3.1"}))
    'up'
    >>> _way(["[2001:db8::1]:5201 > [2001:db8::2]:41001"], frozenset({"2001:db8::1"}))
    'down'
    """
    ways = set()
    for flow in flows:
        source, destination = (end.rpartition(":")[0].strip("[]") in far for end in flow.split(" > "))
        ways.add({(False, True): "up", (True, False): "down"}.get((source, destination)))
    return ways.pop() if len(ways) == 1 else None


def _findings(side: Side, verdict: Json, source: str, counts: tuple[Fact, ...] = ()) -> list[Finding]:
    """A capture's findings on a side, and what it rules out, as findings that compete with the recording's."""
    sure = min(_SUREST, max(1 - _SUREST, verdict["confidence"]))
    named = side.finding(
        verdict["cause"],
        0.0 if verdict["cause"] == "unknown" else math.log(sure / (1 - sure)),
        detail=verdict["detail"],
        lost=verdict["lost"],
        explained=verdict["explained"],
        limited_share=verdict["limited_share"],
        quantities={name: Quantity(**one) for name, one in verdict["parameters"].items()},
        facts=(*map(_fact, verdict["facts"]), *counts),
        source=source,
    )
    against = [
        side.finding(one["cause"], 0.0, veto=_fact(one["fact"]), source=source)
        for one in verdict["against"]
        if one["cause"] != "unknown" and one["fact"] is not None
    ]
    return [named, *against]


def _fact(found: Mapping[str, Any]) -> Fact:
    return Fact(found["code"], found["values"], tuple(found.get("packets", ())))


def _joined(verdict: Json, head: tuple[Side, Json] | None, source: str, tested: Mapping[str, str]) -> Json:
    """The verdict in the words of the stronger source, with the evidence of both.

    A flow that both name is named as the recording does, in the order of the captures.
    """
    told = in_words(verdict)
    if head is None:
        return told
    seen = completing.verdict(head[1])
    captured = [tested.get(flow, flow) for flow in seen["flows"]]
    flows = [*captured, *verdict["flows"]] if tested else [*verdict["flows"], *captured]
    told["flows"] = list(dict.fromkeys(flows))
    if seen["cause"] != verdict["cause"]:
        return told
    told |= {name: seen[name] for name in ("byte_basis", "family", "models", "throughput_lost")}
    if verdict["sources"][:1] == [source]:
        told |= {name: seen[name] for name in ("sentence", "advice")}
    return told
