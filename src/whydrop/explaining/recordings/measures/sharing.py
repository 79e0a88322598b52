"""How flows of one direction share what there is, while all of them run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from whydrop.explaining.recordings.measures.delays import Shift, mean_of
from whydrop.explaining.recordings.measures.loads import Load, rate_of_seconds
from whydrop.explaining.recordings.measures.series import Stream, Values
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.explaining.recordings.thresholds import TOGETHER_SHARE
from whydrop.recording.statistics import resampling
from whydrop.recording.statistics.differences import resampled


@dataclass(frozen=True)
class Sharing:
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


def measure(load: Load, streams: list[Stream], spans: Spans) -> Sharing | None:
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
    return Sharing(
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
