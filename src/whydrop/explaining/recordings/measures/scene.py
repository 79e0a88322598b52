"""Everything that is measured of one recording, together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from whydrop.explaining.recordings.measures import delays, drops, limits, loads, losses, outages, series, spans
from whydrop.explaining.recordings.measures.delays import Delay
from whydrop.explaining.recordings.measures.drops import HostDrops
from whydrop.explaining.recordings.measures.limits import HeldShares
from whydrop.explaining.recordings.measures.loads import Load
from whydrop.explaining.recordings.measures.losses import Losses
from whydrop.explaining.recordings.measures.outages import Outage
from whydrop.explaining.recordings.measures.series import Flow, Stream
from whydrop.explaining.recordings.measures.spans import Spans

if TYPE_CHECKING:
    from whydrop.recording.recording import Recording

T = TypeVar("T")

WAYS = ("both", "up", "down")


@dataclass(frozen=True)
class Scene:
    """The numbers that findings are made of; ``delays``, ``losses`` by way, ``loads`` by direction."""

    streams: list[Stream]
    flows: list[Flow]
    spans: Spans
    delays: dict[str, Delay]
    losses: dict[str, Losses]
    loads: dict[str, Load]
    limits: list[HeldShares]
    outages: list[Outage]
    drops: list[HostDrops]

    @property
    def names(self) -> tuple[str, ...]:
        """Of all flows that made load; without load of the streams of probes."""
        return tuple(flow.name for flow in self.flows) or tuple(stream.name for stream in self.streams)


def measure(recording: Recording) -> Scene | None:
    """The numbers of a recording; ``None`` where it holds neither probes nor load, nor what its host dropped."""
    streams, flows = series.streams(recording), series.flows(recording)
    dropped = drops.measure(recording)
    time = spans.of(flows, streams, recording.step_s) or _of_drops(dropped, recording.step_s)
    if time is None:
        return None
    stopped = outages.measure(streams, flows)
    # What an outage lost tells nothing of how the path loses while it works.
    working = [_outside(stream, stopped) for stream in streams]
    return Scene(
        streams,
        flows,
        time,
        _known({way: delays.measure(streams, time, way) for way in WAYS if flows}),
        _known({way: losses.measure(working, time, way) for way in WAYS}),
        _known({direction: loads.measure(direction, flows, time, stopped) for direction in ("up", "down")}),
        limits.measure(flows, time),
        stopped,
        dropped,
    )


def _of_drops(found: list[HostDrops], step_s: float) -> Spans | None:
    if not found:
        return None
    first_ns, last_ns = min(one.first_ns for one in found), max(one.last_ns for one in found)
    # No load, and so no end of it.
    return Spans(last_ns, last_ns, last_ns, last_ns, first_ns, last_ns, round(step_s * 1e9))


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
        stream.ways[kept],
    )
