"""Flows that get less than their part, and whether distance or congestion control explains it."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.causes.hosts import held
from whydrop.explaining.recordings.causes.sides import quantity
from whydrop.explaining.recordings.findings import Fact, Finding, Place, Subject
from whydrop.explaining.recordings.measures import sharing
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.measures.sharing import Sharing
from whydrop.explaining.recordings.thresholds import LEAST_SPREAD, UNFAIR_INDEX

_LEVEL = 0.05
# All orders of so many flows are tried; of more the normal approximation is good.
_MOST_ORDERS = 7


def findings(scene: Scene) -> list[Finding]:
    """One for each direction in which flows share unfairly."""
    found = []
    for direction, load in scene.loads.items():
        shared = sharing.measure(load, scene.streams, scene.spans)
        if shared is not None and shared.index.value < UNFAIR_INDEX:
            one = _finding(direction, shared)
            # Flows that their hosts hold back leave the rest to others, and are not wronged.
            if any(limits.flow.name in one.subject.flows and held(limits) for limits in scene.limits):
                continue
            # Nor are those that share a responder's limit wronged by the path.
            if not scene.held_by_far_end(load.names):
                found.append(one)
    return found


def _finding(direction: str, shared: Sharing) -> Finding:
    rates = shared.rates_bps
    mean = float(rates.mean())
    least = shared.goodputs[int(np.argmin(rates))]
    behind = [name for name, rate in zip(shared.names, rates, strict=True) if rate < mean]
    # Any of the flows could have been the last.
    nats = likelihood.of_shift(mean, least.error, least.freedom, least.value) - math.log(len(rates))
    own = Fact.of(
        "unequal-shares",
        index=shared.index.value,
        flows=list(shared.names),
        rates_bps=[float(rate) for rate in rates],
        fair_bps=mean,
    )
    reasons = _reasons(shared)
    return Finding(
        Subject(tuple(behind)),
        Place("path", direction),
        "unfairness",
        likelihood.bounded(nats),
        detail=reasons[0].code.removeprefix("shares-follow-") if reasons else None,
        quantities={"fairness_index": quantity(shared.index, 0.0)},
        facts=(own, *reasons),
    )


def _reasons(shared: Sharing) -> list[Fact]:
    found = []
    rtts, rates = shared.rtts_s, shared.rates_bps
    if np.isfinite(rtts).all() and rtts.min() > 0 and rtts.max() >= LEAST_SPREAD * rtts.min():
        chance = _chance_of_order(rtts, rates)
        if chance <= _LEVEL:
            fact = {"near_s": float(rtts.min()), "far_s": float(rtts.max()), "chance": chance}
            found.append(Fact("shares-follow-distance", fact))
    groups: dict[str, list[float]] = {}
    for control, rate in zip(shared.controls, rates.tolist(), strict=True):
        groups.setdefault(control, []).append(rate)
    if len(groups) > 1 and "" not in groups:
        first, last = (pick(groups, key=lambda name: float(np.mean(groups[name]))) for pick in (max, min))
        if min(groups[first]) > max(groups[last]):
            found.append(Fact.of("shares-follow-congestion-control", most=first, least=last))
    return found


def _chance_of_order(rtts: likelihood.Values, rates: likelihood.Values) -> float:
    """How often rates in random order would fall with distance as clearly as these (permutation of ranks)."""
    far, got = np.argsort(np.argsort(rtts)), np.argsort(np.argsort(rates))
    seen = float((far * got).sum())
    if len(far) <= _MOST_ORDERS:
        drawn = [float((far * np.array(order)).sum()) for order in permutations(range(len(far)))]
        return float(np.mean([value <= seen for value in drawn]))
    correlation = float(np.corrcoef(far, got)[0, 1])
    return 0.5 * math.erfc(-correlation * math.sqrt(len(far) - 1) / math.sqrt(2))
