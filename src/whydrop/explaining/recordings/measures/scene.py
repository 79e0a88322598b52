"""Everything that is measured of one recording, together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from whydrop.explaining.recordings.measures import (
    delays,
    drops,
    far_limits,
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
from whydrop.explaining.recordings.measures.drops import HostDrops
from whydrop.explaining.recordings.measures.kink import WindowFit
from whydrop.explaining.recordings.measures.limits import HeldShares
from whydrop.explaining.recordings.measures.loads import Load
from whydrop.explaining.recordings.measures.losses import Losses
from whydrop.explaining.recordings.measures.outages import Outage
from whydrop.explaining.recordings.measures.series import Flow, Stream
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
    drops: list[HostDrops]
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
    working = [_outside(stream, idle) for stream in streams]
    return Scene(
        streams,
        flows,
        time,
        _known({way: delays.measure(streams, time, way) for way in WAYS if flows}),
        _known({way: losses.measure(working, time, way) for way in WAYS}),
        _known({direction: loads.measure(direction, flows, time, idle) for direction in ("up", "down")}),
        limits.measure([_without(flow, still) for flow in flows], time),
        signals.measure(flows),
        kink.measure(flows),
        stopped,
        [],
        [(flow, share) for flow in flows if (share := far_limits.share(flow, time)) > 0],
        befell,
    )


def _pause(trouble: Trouble) -> Outage:
    """The time in which an end stood still, and in which its flows were to recover from that (RFC 6298)."""
    return Outage(trouble.start_ns, trouble.end_ns + round(LEAST_OUTAGE_S * 1e9), 0, (), (), 0.0)


def _within(outage: Outage, befell: list[Trouble]) -> bool:
    return any(one.start_ns < outage.end_ns and one.end_ns > outage.start_ns for one in befell)


def _without(flow: Flow, still: list[Outage]) -> Flow:
    """The flow without the samples of times in which an end stood still."""
    if not still:
        return flow
    times = flow.counted.times_ns
    kept = np.ones(len(times), dtype=bool)
    for pause in still:
        kept &= (times < pause.start_ns) | (times >= pause.end_ns)
    return replace(flow, counted=flow.counted.only(kept))


def of_host(recording: Recording) -> Scene | None:
    """The packets that the host of a recording dropped itself; ``None`` where there are none."""
    found = drops.measure(recording)
    if not found:
        return None
    first_ns, last_ns = min(one.first_ns for one in found), max(one.last_ns for one in found)
    # No load, and so no end of it.
    time = Spans(last_ns, last_ns, last_ns, last_ns, first_ns, last_ns, round(recording.step_s * 1e9))
    return Scene([], [], time, {}, {}, {}, [], [], [], [], found)


def _known(found: dict[str, T | None]) -> dict[str, T]:
    return {name: one for name, one in found.items() if one is not None}


def _outside(stream: Stream, stopped: list[Outage]) -> Stream:
    kept = np.ones(len(stream.times_ns), dtype=bool)
    for outage in stopped:
        kept &= (stream.times_ns < outage.start_ns) | (stream.times_ns >= outage.end_ns)
    if kept.all():
        return stream
    return Stream(
        stream.name,
        stream.host,
        stream.dscp,
        stream.times_ns[kept],
        {way: values[kept] for way, values in stream.delays_s.items()},
        stream.lost[kept],
        stream.directions[kept],
    )
