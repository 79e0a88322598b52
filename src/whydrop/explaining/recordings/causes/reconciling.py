"""The loss rate of a UDP stream beside TCP's own signals in the same direction, reconciled.

At the stream's loss rate, TCP's packets a second times that rate are lost each second. TCP reacts to losses once a
round trip (RFC 5681), so several losses in one window make one signal.
"""

from __future__ import annotations

import math

from whydrop.explaining.recordings.causes.losses import loss_interval
from whydrop.explaining.recordings.findings import Fact
from whydrop.explaining.recordings.measures.loads import Load
from whydrop.explaining.recordings.measures.scene import Scene

_NS_PER_S = 1e9
# With fewer losses in all, the rates say nothing about each other.
_FEWEST_LOST = 5
# Congestion signals that losses make; marks and the own queue make others.
_OF_LOSSES = ("fast-retransmit", "timeout", "tail-loss-probe")


def facts(scene: Scene, names: tuple[str, ...]) -> tuple[Fact, ...]:
    """For each direction with both a UDP stream that counts losses and TCP that counts retransmissions."""
    loads = [load for load in scene.loads.values() if set(load.names) <= set(names)]
    found = (_of(scene, load) for load in loads)
    return tuple(fact for fact in found if fact is not None)


def _of(scene: Scene, load: Load) -> Fact | None:
    seconds = (scene.spans.end_ns - scene.spans.steady_ns) / _NS_PER_S
    if load.datagrams is None or not load.retransmitted or load.segments <= 0 or seconds <= 0:
        return None
    sent, lost = round(load.datagrams.sent), round(load.datagrams.lost)
    if sent <= 0 or lost + load.retransmitted < _FEWEST_LOST:
        return None
    packets = load.segments / seconds
    # Losses come in groups, which makes each count worth less: as many as TCP retransmits for one signal.
    signals = _signals(scene, load)
    group = max(1.0, load.retransmitted / seconds / signals) if signals else 1.0
    datagrams = loss_interval(lost, sent, group)
    segments = loss_interval(round(load.retransmitted), round(load.segments), group)
    low, high = datagrams.low or 0.0, datagrams.high or 0.0
    apart = (segments.low or 0.0) > high or (segments.high or 0.0) < low
    return Fact.of(
        "udp-loss-beside-tcp",
        direction=load.direction,
        udp_share=lost / sent,
        udp_low=low,
        udp_high=high,
        packets_per_s=packets,
        expected_per_s=packets * lost / sent,
        retransmitted_per_s=load.retransmitted / seconds,
        signals_per_s=signals,
        per_signal=group if signals and math.isfinite(group) else None,
        agrees=not apart,
        more=(segments.low or 0.0) > high,
    )


def _signals(scene: Scene, load: Load) -> float | None:
    """Signals of losses a second, of all TCP flows of the load; ``None`` where they are not known."""
    names = {flow.name for flow in load.flows if flow.kind == "tcp"}
    known = [one for one in scene.signals if one.flow.name in names]
    if not known:
        return None
    return sum(
        sum(one.kinds.get(kind, 0) for kind in _OF_LOSSES) * _NS_PER_S / (one.flow.end_ns - one.flow.start_ns)
        for one in known
    )
