"""Queues: deep and short ones, managed ones; or that nothing waits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.causes import losses
from whydrop.explaining.recordings.causes.sides import Side, facts, quantity
from whydrop.explaining.recordings.findings import Fact, Finding, Quantity
from whydrop.explaining.recordings.measures.delays import mean_of
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.thresholds import (
    CEILING_SHARE,
    DROPS_WITHIN_S,
    FALSE_MARKS,
    FEWEST_EPISODES,
    FEWEST_EVENTS,
    LONGEST_MANAGED_S,
    LOSS_BASED,
    MOST_OF_THE_TIME,
    PROVEN_DEPTH,
    SAWTOOTH,
    STANDING_MANAGED_S,
    WAITS_UNDROPPED_S,
)


def findings(scene: Scene, side: Side) -> list[Finding]:
    """The findings from the delays under load of one side."""
    if not side.loads:
        return []
    return [one for one in (_full_queue(scene, side), _managed(scene, side), _nothing(side)) if one is not None]


def _full_queue(scene: Scene, side: Side) -> Finding | None:
    """A first-in, first-out queue: what waits behind the load, and drops only where it is full."""
    waiting = side.waiting
    if waiting is None or waiting.nats <= 0 or waiting.induced.value <= side.floor_s:
        return None
    dropped = side.lost > 0
    if not side.is_deep and not dropped:
        # A short queue that drops nothing is what a link in use has.
        return None
    # Delay at a fixed rate without any drop is a shaper's; the queue of a shaper is never full.
    cause = ("deep-queue" if dropped or not side.tells_loss else "shaper") if side.is_deep else "shallow-queue"
    own = []
    if waiting.low_s > side.floor_s:
        own.append(Fact.of("queue-never-empties", low_s=waiting.low_s, share=side.share_waiting))
    else:
        own.append(Fact.of("queue-empties", share=1.0 - side.share_waiting))
    if side.direction == "both":
        own.append(Fact("direction-unknown"))
    return side.finding(
        cause,
        waiting.nats_beyond(side.floor_s),
        detail="bufferbloat" if side.is_deep else None,
        veto=_held_low(side) or (_managed_is_possible(scene, side) if side.is_deep else _short_is_not_sure(side)),
        lost=side.lost,
        explained=_under_load(side),
        limited_share=side.share_waiting,
        quantities=_quantities(side),
        facts=(*facts(side), *own),
    )


def _quantities(side: Side) -> dict[str, Quantity]:
    waiting, rate = side.waiting, side.rate
    found = {}
    if waiting is not None:
        found["induced_delay_s"] = quantity(waiting.induced, 0.0)
    if side.base is not None:
        found["base_rtt_s"] = side.base
    # Only behind a queue that stands the flows' rate is that of the bottleneck.
    if rate is not None and waiting is not None and waiting.low_s > side.floor_s:
        found["drain_rate_bps"] = quantity(rate, 0.0)
        if side.lost >= FEWEST_EVENTS and side.is_deep:
            # Full at the highest that was seen, or later: between two probes it may have been higher.
            size = waiting.after_s * rate.value / 8
            found["limit_bytes"] = Quantity(size, waiting.high_s * max(0.0, rate.low) / 8, None)
    return found


def _under_load(side: Side) -> float:
    """The share of the losses that would not have been without load."""
    probes = side.losses
    if not side.lost:
        return 0.0
    if probes is None or not probes.idle_sent:
        return 1.0
    anyway = min(probes.lost, probes.sent * probes.idle_lost / probes.idle_sent)
    return (side.lost - anyway) / side.lost


def _held_low(side: Side) -> Fact | None:
    """Drops while the queue is far below what it has been: no first-in, first-out queue drops when it is not full."""
    waiting = side.waiting
    if waiting is None or waiting.by != "probes":
        return None
    dropped = _dropped(side)
    episodes = int((np.diff(dropped.astype(int), prepend=0) > 0).sum())
    if episodes < FEWEST_EPISODES or waiting.peak_s < PROVEN_DEPTH * max(waiting.induced.value, side.floor_s):
        return None
    steps = waiting.steps_s
    high = np.isfinite(steps) & (steps > 0.5 * waiting.peak_s)
    near = np.convolve(high.astype(float), np.ones(3), mode="same") > 0
    if bool((near & dropped).any()):
        return None
    return Fact.of(
        "drops-below-proven-depth", peak_s=waiting.peak_s, standing_s=waiting.induced.value, episodes=episodes
    )


# Why a queue of fixed length is not named of samples alone. Packets can show it.
DOUBTS = frozenset(
    {"too-few-drops", "no-ceiling", "managed-queue-possible", "managed-deep-queue-possible", "drops-at-any-delay"}
)


def _managed_is_possible(scene: Scene, side: Side) -> Fact | None:
    """The reason not to name a deep queue: a managed one may let the same flows wait as long, and drop as often.

    It is ruled out where half of the packets wait longer than any management allows, or where packets wait for seconds
    and no flow loses any: a managed queue would have dropped by then. Only counters of all flows show that nothing was
    dropped.
    """
    waiting = side.waiting
    if waiting is None or not (side.lost or side.retransmitted is None):
        return None
    most_s = STANDING_MANAGED_S if _may_be_loss_based(side) else LONGEST_MANAGED_S
    # Two queues, one in each direction, share the delay of a round trip.
    ways = 2 if side.direction == "both" else 1
    if waiting.induced.value > most_s * ways:
        return None
    quiet_s = _longest_undropped(side, WAITS_UNDROPPED_S * ways) * scene.spans.step_ns / 1e9
    if side.counts_all and quiet_s >= DROPS_WITHIN_S:
        return None
    return Fact.of("managed-deep-queue-possible", standing_s=waiting.induced.value, limit_s=most_s * ways)


def _longest_undropped(side: Side, waits_s: float) -> int:
    """The most steps in a row in which packets wait for longer than this, and nothing is lost."""
    waiting = side.waiting
    if waiting is None:
        return 0
    with np.errstate(invalid="ignore"):
        standing = (waiting.steps_s > waits_s) & ~_dropped(side)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], standing, [False]]).astype(int)))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _short_is_not_sure(side: Side) -> Fact | None:
    """Why a short queue is not named: it drops when it is full, and only then; and so may others seem to."""
    waiting = side.waiting
    if waiting is None:
        return None
    dropped, steps = _dropped(side), waiting.steps_s
    if dropped.sum() < FEWEST_EVENTS:
        return Fact.of("too-few-drops", count=int(dropped.sum()))
    full = np.isfinite(steps) & (steps > 0.5 * waiting.after_s)
    near = np.convolve(full.astype(float), np.ones(3), mode="same") > 0
    ceiling = float(np.nanmedian(steps)) / waiting.after_s if waiting.after_s > 0 else 0.0
    if ceiling < CEILING_SHARE:
        return Fact.of("no-ceiling", median_s=float(np.nanmedian(steps)), highest_s=waiting.after_s)
    share = float((near & dropped).sum() / dropped.sum())
    if share > MOST_OF_THE_TIME:
        # No packet is seen: a managed queue that holds its delay as tightly looks the same.
        return Fact.of("managed-queue-possible", median_s=float(np.nanmedian(steps)), highest_s=waiting.after_s)
    return Fact.of("drops-at-any-delay", share=share, highest_s=waiting.after_s)


def _dropped(side: Side) -> NDArray[np.bool_]:
    """In which steps of the steady load something was lost."""
    dropped = np.sum([load.again_steps for load in side.loads], axis=0) > 0
    if side.losses is not None:
        dropped |= side.losses.steps_lost > 0
    return np.asarray(dropped, dtype=np.bool_)


def _controls(side: Side) -> set[str]:
    """The congestion controls of its flows; empty text for a flow with an unknown control."""
    return {flow.control for load in side.loads for flow in load.flows if flow.kind == "tcp"}


def _loss_based(side: Side) -> bool:
    controls = _controls(side)
    return bool(controls) and controls <= LOSS_BASED


def _may_be_loss_based(side: Side) -> bool:
    return _controls(side) <= LOSS_BASED | {""}


@dataclass(frozen=True)
class _Sign:
    """One observation that supports a managed queue."""

    detail: str
    nats: float
    fact: Fact
    quantities: dict[str, Quantity]


def _managed(scene: Scene, side: Side) -> Finding | None:
    """Active queue management: marks, a queue for each flow, or drops that hold the delay low."""
    looks = (_marks(side), _isolation(scene, side), _spared(scene, side), _control(side))
    signs = [sign for sign in looks if sign is not None and sign.nats > 0]
    veto = _waits_unmanaged(side)
    if not signs:
        # also for the other producers of this side
        return None if veto is None else side.finding("aqm", 0.0, veto=veto)
    leading = max(signs, key=lambda sign: sign.nats)
    return side.finding(
        "aqm",
        likelihood.bounded(math.fsum(sign.nats for sign in signs)),
        detail=leading.detail,
        veto=veto,
        lost=side.lost,
        explained=_under_load(side),
        limited_share=side.share_waiting,
        quantities={**_quantities(side), **{k: v for sign in signs for k, v in sign.quantities.items()}},
        facts=(*(sign.fact for sign in signs), *facts(side)),
    )


def _waits_unmanaged(side: Side) -> Fact | None:
    """Half of the probes were queued in this direction for longer than any queue management allows."""
    waiting = side.waiting
    # Of the round trip alone it is not known which of two queues was long.
    if waiting is None or waiting.by != "probes" or side.direction == "both":
        return None
    if waiting.induced.low <= max(LONGEST_MANAGED_S, 2 * (side.base_s or 0.0)):
        return None
    return Fact.of("waits-unmanaged", typical_s=waiting.induced.value)


def _marks(side: Side) -> _Sign | None:
    """Congestion marks (RFC 3168): a queue that only drops sets none."""
    marked = {name: count for load in side.loads for name, count in (load.marked or {}).items()}
    if not marked:
        return None
    fact = Fact.of("congestion-marks", count=round(math.fsum(marked.values())), flows=len(marked))
    return _Sign("marking", likelihood.bounded(-len(marked) * math.log(FALSE_MARKS)), fact, {})


def _isolation(scene: Scene, side: Side) -> _Sign | None:
    """Flows with queued packets of their class are not queued: a queue for each flow (RFC 8290).

    Probes that are marked otherwise may have a queue of their own in any scheduler that knows classes.
    """
    classes = {flow.dscp for load in side.loads for flow in load.flows}
    alike = [stream for stream in scene.streams if stream.dscp in classes]
    probed = side.waiting
    if probed is None or probed.by != "probes" or not alike or scene.held_by_far_end(side.subject.flows):
        # A responder that reads or sends late delays packets at its end: such round trips are not the path's.
        return None
    own = [load.queue_steps_s for load in side.loads if np.isfinite(load.queue_steps_s).any()]
    if not own:
        return None
    with np.errstate(invalid="ignore"):
        longest = np.fmax.reduce(own)
    # Round trips of flows include both directions; so must those of the probes.
    round_trip = scene.delays.get("both")
    if round_trip is None:
        return None
    both = np.isfinite(longest) & np.isfinite(round_trip.steps_s)
    if both.sum() < FEWEST_EPISODES:
        return None
    queue, beside = mean_of(longest[both]), mean_of(round_trip.steps_s[both])
    difference = mean_of(longest[both] - round_trip.steps_s[both])
    # Flows take turns: each waits for one packet of every other, and acknowledgments for a second one (RFC 1122). That
    # much longer may be the round trips of flows, even where they wait in one queue with the probes.
    turns = max(len(load.flows) for load in side.loads) * side.floor_s
    if round_trip.induced.value > turns:
        return None
    nats = likelihood.of_shift(difference.value, difference.error, difference.freedom, turns)
    fact = Fact.of(
        "flows-wait-apart", flows_s=queue.value, probes_s=max(0.0, beside.value), turns_s=turns, streams=len(alike)
    )
    return _Sign("flow-queueing", nats, fact, {"queue_delay_s": quantity(queue, 0.0)})


def _spared(scene: Scene, side: Side) -> _Sign | None:
    """Flows that lose packets on a link that is full, while probes neither wait nor are lost: these pass beside it.

    Full: the rate of all flows together is steadier than independent ones could be. A first-in, first-out queue that is
    full would make probes wait; a policer would drop them too.
    """
    waiting, probes = side.waiting, side.losses
    if waiting is None or waiting.by != "probes" or probes is None or probes.lost or len(side.loads) != 1:
        return None
    if scene.held_by_far_end(side.subject.flows):
        # It is the limit's rate that is steady.
        return None
    load = side.loads[0]
    if waiting.induced.high > len(load.flows) * side.floor_s or not _loss_based(side):
        return None
    if (load.retransmitted or 0) < FEWEST_EVENTS or not math.isfinite(load.variation):
        return None
    own = load.queue_steps_s[np.isfinite(load.queue_steps_s)]
    if not len(own) or float(np.median(own)) <= side.floor_s:
        # A token bucket without room for a full packet lets small probes pass, and delays none.
        return None
    share = min(0.5, (load.retransmitted or 0) / max(1.0, load.segments))
    spared = -probes.sent / probes.inflation * math.log(1 - share)
    nats = min(likelihood.bounded(spared), likelihood.of_steadiness(load.seconds_bps, len(load.flows), SAWTOOTH))
    fact = Fact.of("flows-lose-apart", share=share, sent=probes.sent, variation=load.variation)
    return _Sign("flow-queueing", nats, fact, {})


def _control(side: Side) -> _Sign | None:
    """Delay that stands low under flows that would fill the queue, which has been far longer, with drops all along."""
    fact = _held_low(side)
    if fact is None or side.waiting is None or side.waiting.induced.value <= side.floor_s:
        return None
    if side.direction == "both":
        # Of the round trip alone it is not known which of two queues was long, and which dropped.
        return None
    nats = side.waiting.nats_beyond(side.floor_s)
    if not _loss_based(side):
        # Flows that keep the queue short by themselves may lose packets to chance: only if these follow the load.
        nats = min(nats, -losses.without_load(side.losses) if side.losses is not None else 0.0)
    return _Sign("held-delay", nats, fact, {"standing_delay_s": quantity(side.waiting.induced, 0.0)})


def _nothing(side: Side) -> Finding | None:
    """Nothing waits or is lost that was not before: what a path under load should be."""
    waiting = side.waiting
    if waiting is None or waiting.by != "probes" or side.lost or waiting.induced.high > side.deep_s:
        return None
    # One parameter, the shift, is not needed (Schwarz).
    idle, loaded = (likelihood.independent(one[np.isfinite(one)]) for one in (waiting.idle_steps_s, waiting.steps_s))
    nats = 0.5 * math.log(max(1.0, idle * loaded / (idle + loaded)))
    small = Fact.of("delay-stays-low", high_s=max(0.0, waiting.induced.high), limit_s=side.deep_s)
    quantities = {name: one for name, one in _quantities(side).items() if name in ("induced_delay_s", "base_rtt_s")}
    finding = side.finding("none", nats, quantities=quantities, facts=(small, *facts(side)))
    return finding if side.tells_loss else replace(finding, facts=(*finding.facts, Fact("losses-not-reported")))
