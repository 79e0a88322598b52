"""The producer: what was measured of a recording in, findings out."""

from __future__ import annotations

import math
from dataclasses import replace

from whydrop.explaining.recordings import ports
from whydrop.explaining.recordings.causes import hosts, interruptions, losses, queues, reconciling, senders, sharing
from whydrop.explaining.recordings.causes.sides import Side, facts, sides
from whydrop.explaining.recordings.findings import Fact, Finding
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.ports import Port
from whydrop.explaining.recordings.thresholds import MECHANISMS


def of_scene(scene: Scene, port: Port | None = None) -> list[Finding]:
    """The findings of what was measured; with the counters of a switch's port that the path goes through."""
    judged = sides(scene)
    found = []
    for side in judged:
        found += [*queues.findings(scene, side), *losses.findings(side), _background(side)]
        found += ports.findings(port, side) if port is not None else []
    at_hosts = hosts.findings(scene, judged)
    found = _without_path(found, at_hosts)
    found += [*at_hosts, *sharing.findings(scene), *scene.dropped, *interruptions.findings(scene)]
    return [_paid(_with_senders(scene, finding)) for finding in found]


# Causes that only flows limited by the path can show.
_OF_FULL_LOAD = frozenset({"deep-queue", "shaper", "shallow-queue", "aqm", "policer", "none"})


def _without_path(found: list[Finding], at_hosts: list[Finding]) -> list[Finding]:
    """The findings, those ruled out that need flows as fast as the path, where a limit at an end slowed them.

    That nothing waits is what comes of such a limit. Queues may be there all the same, as of other traffic, but not of
    flows that their responder kept below the path's rate.
    """
    held = {one.subject.flows: one for one in at_hosts if one.veto is None and one.nats > math.log(MECHANISMS)}

    def ruled(finding: Finding) -> Finding:
        limited = held.get(finding.subject.flows)
        if limited is None or finding.veto is not None:
            return finding
        if limited.detail == hosts.OF_RESPONDER and finding.cause in _OF_FULL_LOAD:
            return replace(finding, veto=Fact.of("load-limited-by-responder", share=limited.limited_share))
        if finding.cause == "none":
            return replace(finding, veto=Fact.of("load-limited-by-host", share=limited.limited_share))
        return finding

    return [ruled(finding) for finding in found]


def _with_senders(scene: Scene, finding: Finding) -> Finding:
    """With the facts from the senders of its flows, for any cause."""
    if finding.cause in ("unfairness", "outage", "host-drop") or finding.detail == interruptions.STOOD_STILL:
        return finding
    told = senders.facts(scene, finding.subject.flows)
    # That one of the limits is the cause is said once.
    named = {fact.values["flow"] for fact in finding.facts if fact.code in ("kernel-limited", "limited-by-responder")}
    own = [fact for fact in told if fact.code != "limited-by" or fact.values["flow"] not in named]
    return replace(finding, facts=(*finding.facts, *own, *reconciling.facts(scene, finding.subject.flows)))


def _paid(finding: Finding) -> Finding:
    """A finding that accuses pays for having been chosen among many, where others compete."""
    if finding.cause in ("none", "unknown", "unfairness", "outage", "host-drop"):
        return finding
    return replace(finding, nats=finding.nats - math.log(MECHANISMS))


def _background(side: Side) -> Finding:
    """Nothing in particular, at 0 nats; with what is known, so that a reader of ``unknown`` sees why."""
    lacking = []
    if not side.loads:
        lacking.append(Fact("no-load"))
    elif side.waiting is None:
        lacking.append(Fact("no-delay-known"))
    if not side.tells_loss:
        lacking.append(Fact("losses-not-reported"))
    return side.finding("unknown", 0.0, lost=side.lost, facts=(*facts(side), *lacking))
