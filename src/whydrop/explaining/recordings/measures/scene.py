"""Everything that is measured of one recording, together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from whydrop.explaining.recordings import drops
from whydrop.explaining.recordings.findings import Finding
from whydrop.explaining.recordings.measures import (
    delays,
    kink,
    limits,
    loads,
    losses,
    outages,
    series,
    signals,
    spans,
)
from whydrop.explaining.recordings.measures.delays import Delay
from whydrop.explaining.recordings.measures.kink import WindowFit
from whydrop.explaining.recordings.measures.limits import HeldShares
from whydrop.explaining.recordings.measures.loads import Load
from whydrop.explaining.recordings.measures.losses import Losses
from whydrop.explaining.recordings.measures.outages import Outage
from whydrop.explaining.recordings.measures.series import Flow, Stream, Times
from whydrop.explaining.recordings.measures.signals import Signals
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.explaining.recordings.thresholds import LEAST_OUTAGE_S
from whydrop.recording import troubles
from whydrop.recording.end_limits import TOUCHED_BY_RESPONDER_LIMIT
from whydrop.recording.troubles import Trouble

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

T = TypeVar("T")

WAYS = ("both", "up", "down")


@dataclass(frozen=True)
class Scene:
    """The numbers that findings are made of; ``delays``, ``losses`` and ``loads`` by direction.

    ``far_limits`` are flows that met their responder's own limit, each with the share of its time;
    ``troubles`` are of the ends themselves.
    """

    streams: list[Stream]
    flows: list[Flow]
    spans: Spans
    delays: dict[str, Delay]
    losses: dict[str, Losses]
    loads: dict[str, Load]
    limits: list[HeldShares]
    signals: list[Signals]
    window_fits: list[WindowFit]
    outages: list[Outage]
    dropped: list[Finding]
    far_limits: list[tuple[Flow, float]] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all flows that made load; without load of the streams of probes."""
        return tuple(flow.name for flow in self.flows) or tuple(stream.name for stream in self.streams)

    def held_by_far_end(self, names: Iterable[str]) -> bool:
        """True if the responder's own limit had a part in what any of these flows did."""
        asked = frozenset(names)
        return any(flow.name in asked and share > TOUCHED_BY_RESPONDER_LIMIT for flow, share in self.far_limits)


def measure(recording: Recording) -> Scene | None:
    """The numbers of a recording; ``None`` where it holds neither probes nor load. What its host dropped is apart."""
    streams, flows = series.streams(recording), series.flows(recording)
    time = spans.of(flows, streams, recording.step_s)
    if time is None:
        return None
    befell = troubles.of_metadata(recording.metadata)
    still = [_pause(one) for one in befell if one.kind == "pause"]
    # Where an end stood still, it was not the path that passed nothing.
    stopped = [one for one in outages.measure(streams, flows) if not _within(one, befell)]
    # Losses in an outage, or while an end stood still, do not show how the path loses while it works.
    idle = [*stopped, *still]
    working = [stream.only(_without(stream.times_ns, idle)) for stream in streams]
    return Scene(
        streams,
        flows,
        time,
        _known({way: delays.measure(streams, time, way) for way in WAYS if flows}),
        _known({way: losses.measure(working, time, way) for way in WAYS}),
        _known({direction: loads.measure(direction, flows, time, idle) for direction in ("up", "down")}),
        limits.measure(
            [replace(flow, counted=flow.counted.only(_without(flow.counted.times_ns, still))) for flow in flows], time
        ),
        signals.measure(flows),
        kink.measure(flows),
        stopped,
        [],
        [(flow, share) for flow in flows if (share := limits.far_share(flow, time)) > 0],
        befell,
    )


def _pause(trouble: Trouble) -> Outage:
    """The time in which an end stood still, and in which its flows were to recover from that (RFC 6298)."""
    return Outage(trouble.start_ns, trouble.end_ns + round(LEAST_OUTAGE_S * 1e9), 0, (), (), 0.0)


def _within(outage: Outage, befell: list[Trouble]) -> bool:
    return any(one.start_ns < outage.end_ns and one.end_ns > outage.start_ns for one in befell)


def _without(times_ns: Times, intervals: list[Outage]) -> NDArray[np.bool_]:
    """Which times are in none of the intervals."""
    kept = np.ones(len(times_ns), dtype=bool)
    for one in intervals:
        kept &= (times_ns < one.start_ns) | (times_ns >= one.end_ns)
    return kept


def of_host(recording: Recording) -> Scene | None:
    """The packets that the host of a recording dropped itself; ``None`` where there are none."""
    found = drops.findings(recording)
    if not found:
        return None
    first_ns = round(min(one.subject.start_s or 0.0 for one in found) * 1e9)
    last_ns = round(max(one.subject.end_s or 0.0 for one in found) * 1e9)
    # No load, and so no end of it.
    time = Spans(last_ns, last_ns, last_ns, last_ns, first_ns, last_ns, round(recording.step_s * 1e9))
    return Scene([], [], time, {}, {}, {}, [], [], [], [], found)


def _known(found: dict[str, T | None]) -> dict[str, T]:
    return {name: one for name, one in found.items() if one is not None}
