"""Flows that get less than their part, and whether distance or congestion control explains it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from whydrop.explaining.recordings import likelihood
from whydrop.explaining.recordings.causes.hosts import held
from whydrop.explaining.recordings.causes.sides import quantity
from whydrop.explaining.recordings.findings import Fact, Finding, Place, Subject
from whydrop.explaining.recordings.measures.delays import Shift, mean_of
from whydrop.explaining.recordings.measures.loads import Load, rate_of_seconds
from whydrop.explaining.recordings.measures.scene import Scene
from whydrop.explaining.recordings.measures.series import Stream, Values
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.explaining.recordings.thresholds import LEAST_SPREAD, TOGETHER_SHARE, UNFAIR_INDEX
from whydrop.recording.statistics import resampling
from whydrop.recording.statistics.differences import resampled

_LEVEL = 0.05
# All orders of so many flows are tried; of more the normal approximation is good.
_MOST_ORDERS = 7


@dataclass(frozen=True)
class _Sharing:
    """R. Jain's index of the flows' mean goodputs, and what they differ in.

    Attributes:
        goodputs: of each flow in bit/s, with its error.
        rtts_s: base round-trip time of each flow; NaN where it is not known.
        controls: congestion control of each flow; empty where it is not known.
    """

    names: tuple[str, ...]
    index: Shift
    goodputs: tuple[Shift, ...]
    rtts_s: Values
    controls: tuple[str, ...]

    @property
    def rates_bps(self) -> Values:
        """Mean goodputs."""
        return np.array([one.value for one in self.goodputs])


def findings(scene: Scene) -> list[Finding]:
    """One for each direction in which flows share unfairly."""
    found = []
    for direction, load in scene.loads.items():
        shared = _measured(load, scene.streams, scene.spans)
        if shared is not None and shared.index.value < UNFAIR_INDEX:
            one = _finding(direction, shared)
            # Flows that their hosts hold back leave the rest to others, and are not wronged.
            if any(limits.flow.name in one.subject.flows and held(limits) for limits in scene.limits):
                continue
            # Nor are those that share a responder's limit wronged by the path.
            if not scene.held_by_far_end(load.names):
                found.append(one)
    return found


def _measured(load: Load, streams: list[Stream], spans: Spans) -> _Sharing | None:
    """The sharing of the TCP flows of a direction; ``None`` where there are not two, or they do not run together."""
    flows = [flow for flow in load.flows if flow.kind == "tcp"]
    if len(flows) < 2:
        return None
    start_ns, end_ns = max(flow.start_ns for flow in flows), min(flow.end_ns for flow in flows)
    if end_ns - start_ns < TOGETHER_SHARE * (spans.end_ns - spans.start_ns):
        return None
    rates = np.vstack([rate_of_seconds(flow, spans) for flow in flows])
    begins_ns = spans.steady_ns + np.arange(rates.shape[1]) * spans.second_ns
    all_run = (begins_ns >= start_ns) & (begins_ns + spans.second_ns <= end_ns)
    rates = rates[:, np.isfinite(rates).all(axis=0) & all_run]
    if rates.shape[1] < 4 or not (rates.sum(axis=1) > 0).any():
        return None

    def index(times: Values) -> Values:
        means = times @ rates.T
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(means.sum(axis=1) ** 2 / (means.shape[1] * (means**2).sum(axis=1)))

    found = resampled(index, rates.max(axis=0), np.random.default_rng(resampling.SEED))
    return _Sharing(
        tuple(flow.name for flow in flows),
        Shift(found.value, found.error if math.isfinite(found.error) else 0.0, max(1.0, found.freedom)),
        tuple(mean_of(row) for row in rates),
        np.array([_rtt_s(flow.host, flow.name, load, streams, spans) for flow in flows]),
        tuple(flow.control for flow in flows),
    )


def _rtt_s(host: str, name: str, load: Load, streams: list[Stream], spans: Spans) -> float:
    """Of probes to the same host without load; else the least that the flow itself met."""
    known = [stream for stream in streams if stream.host == host]
    idle = [stream.delays_s["both"][spans.idle(stream.times_ns)] for stream in known]
    samples = np.concatenate([np.array([]), *idle])
    samples = samples[np.isfinite(samples)]
    return float(np.median(samples)) if len(samples) else load.least_rtt_s.get(name, math.nan)


def _finding(direction: str, shared: _Sharing) -> Finding:
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


def _reasons(shared: _Sharing) -> list[Fact]:
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


def _chance_of_order(rtts: Values, rates: Values) -> float:
    """How often rates in random order would fall with distance as clearly as these (permutation of ranks)."""
    far, got = np.argsort(np.argsort(rtts)), np.argsort(np.argsort(rates))
    seen = float((far * got).sum())
    if len(far) <= _MOST_ORDERS:
        drawn = [float((far * np.array(order)).sum()) for order in permutations(range(len(far)))]
        return float(np.mean([value <= seen for value in drawn]))
    correlation = float(np.corrcoef(far, got)[0, 1])
    return 0.5 * math.erfc(-correlation * math.sqrt(len(far) - 1) / math.sqrt(2))
