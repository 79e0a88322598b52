"""The sides judged separately: each direction with load if its one-way delay is known; otherwise both as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.findings import Fact, Finding, Place, Quantity, Subject
from whydrop.explaining.recordings.measures.delays import Delay, Shift, mean_of
from whydrop.explaining.recordings.measures.loads import Load
from whydrop.explaining.recordings.measures.losses import Losses
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.thresholds import (
    DEEP_LEAST_S,
    DEEP_MOST_S,
    FEWEST_SAMPLES,
    HIGH_QUANTILE,
    LOW_QUANTILE,
    MTU_BYTES,
    PACKETS_NO_QUEUE,
    TIMER_S,
)


@dataclass(frozen=True)
class Side:
    """One direction of the path (``up``, ``down`` or ``both``) with what is known of it.

    ``waiting`` is how long packets wait under load, as probes or else the flows' own round trips show it.
    """

    direction: str
    loads: tuple[Load, ...]
    waiting: Delay | None
    losses: Losses | None
    base: Quantity | None
    subject: Subject

    @property
    def place(self) -> Place:
        """On the path, in this direction."""
        return Place("path", self.direction)

    def finding(self, cause: str, nats: float, **more: Any) -> Finding:
        """A finding about its flows, in its direction of the path."""
        return Finding(self.subject, self.place, cause, nats, **more)

    @property
    def share_waiting(self) -> float:
        """The share of the load in which a queue stands."""
        return self.waiting.share_above(self.floor_s) if self.waiting is not None else 0.0

    @property
    def base_s(self) -> float | None:
        """The round trip without load."""
        return None if self.base is None else self.base.value

    @property
    def rate(self) -> Shift | None:
        """Of its flows in bit/s on the IP layer; ``None`` where both directions are judged together."""
        return self.loads[0].rate if len(self.loads) == 1 else None

    @property
    def floor_s(self) -> float:
        """The wait for others in service, without any queue: see ``PACKETS_NO_QUEUE``."""
        rates = [load.rate.value for load in self.loads if load.rate.value > 0]
        return max([TIMER_S, *(PACKETS_NO_QUEUE * MTU_BYTES * 8 / rate for rate in rates)])

    @property
    def deep_s(self) -> float:
        """From here on a wait is a deep queue's."""
        base_s = self.base_s if self.base_s is not None else DEEP_MOST_S
        return max(self.floor_s, DEEP_LEAST_S, min(base_s, DEEP_MOST_S))

    @property
    def retransmitted(self) -> float | None:
        """Segments that its flows retransmitted; ``None`` where no flow counts them."""
        known = [load.retransmitted for load in self.loads if load.retransmitted is not None]
        return sum(known) if known else None

    @property
    def lost(self) -> int:
        """Probes and datagrams that were lost under load, and retransmitted segments."""
        datagrams = sum(load.datagrams.lost for load in self.loads if load.datagrams is not None)
        return round((self.retransmitted or 0) + datagrams) + (self.losses.lost if self.losses is not None else 0)

    @property
    def tells_loss(self) -> bool:
        """True if anything would have shown a loss."""
        known = self.retransmitted is not None or self.losses is not None
        return known or any(load.datagrams is not None for load in self.loads)

    @property
    def counts_all(self) -> bool:
        """True if the sender of every flow counted what it retransmitted, step by step."""
        return bool(self.loads) and all(load.counts_all for load in self.loads)

    @property
    def stands(self) -> bool:
        """True if a deep queue never empties: then the bottleneck works all the time, whatever the window."""
        waiting = self.waiting
        return waiting is not None and waiting.nats > 0 and waiting.low_s > self.floor_s and self.is_deep

    @property
    def is_deep(self) -> bool:
        """True if what is waited under load is that of a deep queue."""
        return self.waiting is not None and self.waiting.induced.value >= self.deep_s


def sides(scene: Scene) -> list[Side]:
    """The sides judged separately, in the order down, up; none of what a host dropped by itself."""
    if not scene.names:
        return []
    loaded = [direction for direction in ("down", "up") if direction in scene.loads]
    one_way = all(direction in scene.delays for direction in loaded)
    if len(loaded) == 2 and not one_way:
        return [_side(scene, "both", tuple(loaded), "both")]
    if not loaded:
        return [_side(scene, _losing(scene), (), "both")]
    return [_side(scene, direction, (direction,), direction if one_way else "both") for direction in loaded]


def _side(scene: Scene, direction: str, loaded: tuple[str, ...], way: str) -> Side:
    loads = tuple(scene.loads[one] for one in loaded)
    names = tuple(name for load in loads for name in load.names) or scene.names
    # Losses of probes without a known direction are of the round trip: this side's only if no other has load.
    losses = scene.losses.get(direction) if direction in scene.losses else None
    if losses is None and len(scene.loads) <= 1:
        losses = scene.losses.get("both")
    waiting = scene.delays.get(way)
    if waiting is None and len(loads) == 1:
        waiting = _of_flows(loads[0])
    return Side(direction, loads, waiting, losses, _base(scene, loads), Subject(names))


def _losing(scene: Scene) -> str:
    """Of a test without load: the direction with all losses, if one has them all."""
    lost = {way: one.lost + one.idle_lost for way, one in scene.losses.items() if way != "both"}
    ways = [way for way, count in lost.items() if count]
    return ways[0] if len(lost) == 2 and len(ways) == 1 else "both"


def _base(scene: Scene, loads: tuple[Load, ...]) -> Quantity | None:
    """The round trip without load: of probes; else the least of the flows, which may have waited themselves."""
    if "both" in scene.delays:
        return quantity(scene.delays["both"].base, 0.0)
    least = [value for load in loads for value in load.least_rtt_s.values()]
    return Quantity(min(least), None, min(least)) if least else None


def _of_flows(load: Load) -> Delay | None:
    """Where there are no probes: a queue makes the round trip grow with the window; other delays do not know of it."""
    steps = load.queue_steps_s
    known = steps[np.isfinite(steps)]
    if len(known) < FEWEST_SAMPLES:
        return None
    low_s, high_s = (float(np.quantile(known, share)) for share in (LOW_QUANTILE, HIGH_QUANTILE))
    highest_s = float(known.max())
    return Delay(
        "both",
        Shift(min(load.least_rtt_s.values()), 0.0, 1.0),
        mean_of(steps),
        low_s,
        high_s,
        peak_s=highest_s,
        after_s=highest_s,
        steps_s=steps,
        idle_steps_s=np.array([]),
        samples=len(known),
        idle_samples=0,
        growth_nats=likelihood.of_dependence(load.window_steps, steps),
    )


def quantity(shift: Shift, at_least: float | None = None) -> Quantity:
    """A measured value with its interval; the lower end no lower than ``at_least``."""
    low = shift.low if at_least is None else max(at_least, shift.low)
    return Quantity(shift.value, min(low, shift.value), shift.high)


def facts(side: Side) -> tuple[Fact, ...]:
    """The measurements of a side, whatever its cause."""
    found = [] if side.waiting is None else [_of_delay(side, side.waiting)]
    for load in side.loads:
        rate = {"rate_bps": load.rate.value, "variation": load.variation if np.isfinite(load.variation) else None}
        found.append(Fact.of("rate-under-load", direction=load.direction, **rate, flows=len(load.flows)))
        if load.retransmitted is not None:
            again = {"count": round(load.retransmitted), "share": load.retransmitted / max(1.0, load.segments)}
            found.append(Fact.of("retransmissions", direction=load.direction, **again))
        if load.datagrams is not None and load.datagrams.sent:
            lost, sent = load.datagrams.lost, load.datagrams.sent
            counts = {"count": round(lost), "sent": round(sent), "share": lost / sent}
            found.append(Fact.of("datagrams-lost", direction=load.direction, **counts))
    if side.losses is not None:
        probes = {name: getattr(side.losses, name) for name in ("sent", "lost", "idle_sent", "idle_lost")}
        found.append(Fact.of("probes-lost", direction=side.losses.way, **probes))
    return tuple(found)


def _of_delay(side: Side, waiting: Delay) -> Fact:
    return Fact.of(
        "delay-under-load" if waiting.by == "probes" else "own-delay-under-load",
        direction=side.direction,
        one_way=side.direction != "both" and waiting.base_s < (side.base_s or 0) * 0.999,
        idle_s=waiting.base_s,
        loaded_s=waiting.base_s + waiting.induced.value,
        induced_s=waiting.induced.value,
        low_s=waiting.induced.low,
        high_s=waiting.induced.high,
        high_quantile_s=waiting.base_s + waiting.high_s,
        idle_samples=waiting.idle_samples,
        samples=waiting.samples,
    )
