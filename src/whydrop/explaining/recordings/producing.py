"""The producer: a recording in, findings out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from whydrop.explaining.recordings.findings import Fact, Finding
from whydrop.explaining.recordings.measures import scene as scenes
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.naming import drops, hosts, losses, outages, queues, sharing
from whydrop.explaining.recordings.naming.sides import Side, facts, sides
from whydrop.explaining.recordings.thresholds import MECHANISMS

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording


def produce(recording: Recording) -> list[Finding]:
    """All findings of a recording; of each side at least the background with what was measured.

    Raises:
        RecordingError: a table of it cannot be read.
    """
    scene = scenes.measure(recording)
    return [] if scene is None else of_scene(scene)


def of_scene(scene: Scene) -> list[Finding]:
    """The findings of what was measured."""
    judged = sides(scene) if scene.names else []
    found = []
    for side in judged:
        found += [*queues.findings(scene, side), *losses.findings(side), _background(side)]
    found += [*hosts.findings(scene, judged), *sharing.findings(scene), *outages.findings(scene)]
    found += drops.findings(scene)
    return [_paid(finding) for finding in found]


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
        lacking.append(Fact("losses-not-told"))
    return Finding(side.subject, side.place, "unknown", 0.0, lost=side.lost, facts=(*facts(side), *lacking))
