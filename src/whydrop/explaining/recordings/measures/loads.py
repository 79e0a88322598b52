"""Measurements of the flows of one direction: goodput, retransmissions, marks, and what their own round trips met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whydrop.explaining.recordings.measures.delays import Shift, mean_of, mean_over
from whydrop.explaining.recordings.measures.outages import Outage
from whydrop.explaining.recordings.measures.series import Flow, Values
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.recording import document

_NS = 1_000_000_000

# Longer intervals do not show how a rate varies from second to second.
_LONGEST_NS = 3 * _NS


@dataclass(frozen=True)
class Datagrams:
    """Packets of streams of UDP, by their receivers' counts: sent, and lost of them."""

    sent: float
    lost: float


@dataclass(frozen=True)
class Load:
    """The flows of one direction, in the steady load.

    Attributes:
        rate: of IP packets in bit/s, all flows together: their payload and the headers of full segments.
        seconds_bps: the same of each second.
        retransmitted: segments, of those flows that count them; ``None`` where none does.
        segments: that they sent, about.
        datagrams: of its streams of UDP; ``None`` where none counts them.
        again_steps: segments retransmitted at each step.
        counts_all: true if every flow counts them step by step.
        marked: congestion marks by flow, where any; ``None`` where none is counted.
        queue_steps_s: smoothed round-trip time above the flow's least, mean over the flows at each step.
        window_steps: their congestion windows together, in packets.
        least_rtt_s: by flow.
    """

    direction: str
    flows: tuple[Flow, ...]
    rate: Shift
    seconds_bps: Values
    retransmitted: float | None
    segments: float
    datagrams: Datagrams | None
    again_steps: Values
    counts_all: bool
    marked: dict[str, float] | None
    queue_steps_s: Values
    window_steps: Values
    least_rtt_s: dict[str, float]

    @property
    def names(self) -> tuple[str, ...]:
        """Of its flows: those that lost most first, as far as that is known, then in the order of the test."""
        return tuple(flow.name for flow in sorted(self.flows, key=lambda flow: -np.nan_to_num(flow.retransmitted)))

    @property
    def _tells_seconds(self) -> bool:
        """True if no flow's intervals are much longer than a second: then bytes are spread over them evenly."""
        return all(float(np.median(np.diff(flow.intervals[:, :2]))) < _LONGEST_NS for flow in self.flows)

    @property
    def variation(self) -> float:
        """The standard deviation of the rate over seconds, beside its mean; NaN where it is not known."""
        known = self.seconds_bps[np.isfinite(self.seconds_bps)]
        mean = float(known.mean()) if len(known) > 1 and self._tells_seconds else 0.0
        return float(known.std(ddof=1)) / mean if mean > 0 else math.nan


def measure(direction: str, flows: Sequence[Flow], spans: Spans, outages: Sequence[Outage] = ()) -> Load | None:
    """The load of one direction outside of outages; ``None`` where no flow of it says what it carried."""
    own = [flow for flow in flows if flow.direction == direction and len(flow.intervals)]
    own = [flow for flow in own if flow.kind in ("tcp", "udp") and flow.makes_load]
    if not own:
        return None
    seconds = np.sum([flow.to_ip * rate_of_seconds(flow, spans) for flow in own], axis=0)
    begins_ns = spans.steady_ns + np.arange(len(seconds)) * spans.second_ns
    for outage in outages:
        seconds[(begins_ns + spans.second_ns > outage.start_ns) & (begins_ns < outage.end_ns)] = math.nan
    seconds[_outside(own, begins_ns, spans)] = math.nan
    rate = mean_of(seconds)
    if not math.isfinite(rate.value):
        return None
    telling = [flow for flow in own if math.isfinite(flow.retransmitted)]
    retransmitted = [count for flow in own if (count := _retransmitted(flow)) is not None]
    return Load(
        direction,
        tuple(own),
        rate,
        seconds,
        math.fsum(retransmitted) if retransmitted else None,
        math.fsum(float(flow.intervals[:, 2].sum()) / flow.mss_bytes for flow in own),
        _datagrams(own),
        np.sum([_again(flow, spans) for flow in telling], axis=0) if telling else np.zeros(spans.steps),
        len(telling) == len(own),
        _marked(own),
        _queue(own, spans),
        np.sum([spans.means(flow.counted.times_ns, flow.counted["congestion_window_packets"]) for flow in own], axis=0),
        {flow.name: least for flow in own if math.isfinite(least := _least_rtt_s(flow))},
    )


def _outside(flows: Sequence[Flow], begins_ns: NDArray[np.int64], spans: Spans) -> NDArray[np.bool_]:
    """The seconds before the first of these flows began and after the last ended, as of a test that takes turns."""
    first_ns, last_ns = min(flow.start_ns for flow in flows), max(flow.end_ns for flow in flows)
    ends_ns = begins_ns + spans.second_ns
    outside = (ends_ns <= first_ns) | (begins_ns >= last_ns)
    if outside.any():
        outside |= (begins_ns < first_ns) | (ends_ns > last_ns)
    return np.asarray(outside)


def rate_of_seconds(flow: Flow, spans: Spans) -> Values:
    """The goodput of each whole second of the steady load in bit/s.

    Bytes of an interval are spread over it evenly; between intervals nothing was carried.
    """
    count = max(1, int((spans.end_ns - spans.steady_ns) // spans.second_ns))
    second_ns = spans.second_ns
    starts, ends = ((flow.intervals[:, edge] - spans.steady_ns) / second_ns for edge in (0, 1))
    sizes = flow.intervals[:, 2]
    edges = np.arange(count + 1, dtype=float)
    # Bytes carried until each edge: those of all intervals that ended, and of the others their part.
    order = np.argsort(ends)
    starts, ends, sizes = starts[order], ends[order], sizes[order]
    corners = np.concatenate([starts, ends])
    slopes = np.concatenate([sizes / (ends - starts), -sizes / (ends - starts)])
    by_time = np.argsort(corners, kind="stable")
    corners, slopes = corners[by_time], np.cumsum(slopes[by_time])
    carried = np.concatenate([[0.0], np.cumsum(slopes[:-1] * np.diff(corners))])
    until = np.interp(edges, corners, carried)
    rates = np.diff(until) * 8 * _NS / second_ns
    if flow.end_ns < spans.end_ns:
        # Where the samples of slow flows end before the load does, nothing is known of the rest.
        rates[edges[1:] > ends[-1] + _longest(starts, ends)] = math.nan
    return np.asarray(np.maximum(rates, 0.0))


def _longest(starts: Values, ends: Values) -> float:
    return float((ends - starts).max())


def _retransmitted(flow: Flow) -> float | None:
    """Segments retransmitted: the program's total for the flow, since samples do not count earlier ones."""
    told, grown = _told(flow), flow.retransmitted
    return told if told is not None or not math.isfinite(grown) else grown


# No connection sends as many; kernels count them with 32 bits.
_MOST_SEGMENTS = 1 << 32


def _told(flow: Flow) -> float | None:
    value = document.number(flow.runner_facts.get("TCP_RETRANSMIT"))
    return value if value is not None and 0 <= value < _MOST_SEGMENTS else None


def _again(flow: Flow, spans: Spans) -> Values:
    counts = flow.counted["retransmitted_packets"]
    known = np.isfinite(counts)
    times, counts = flow.counted.times_ns[known], counts[known]
    grown = np.maximum(0.0, np.diff(counts))
    kept = spans.loaded(times[1:])
    return np.asarray(np.bincount(spans.step(times[1:][kept]), grown[kept], spans.steps), dtype=np.float64)


def _datagrams(flows: Sequence[Flow]) -> Datagrams | None:
    told = [flow.datagrams for flow in flows if flow.datagrams is not None]
    return Datagrams(math.fsum(sent for sent, _ in told), math.fsum(lost for _, lost in told)) if told else None


def _marked(flows: Sequence[Flow]) -> dict[str, float] | None:
    grown = {flow.name: flow.counted.growth("delivered_ce_packets") for flow in flows}
    known = {name: count for name, count in grown.items() if math.isfinite(count)}
    return {name: count for name, count in known.items() if count > 0} if known else None


def _least_rtt_s(flow: Flow) -> float:
    values = np.concatenate([flow.counted["min_rtt_ns"], flow.counted["srtt_ns"]])
    values = values[np.isfinite(values) & (values > 0)]
    return float(values.min()) / 1e9 if len(values) else math.nan


def _queue(flows: Sequence[Flow], spans: Spans) -> Values:
    rows = [np.full(spans.steps, np.nan)]
    for flow in flows:
        least = _least_rtt_s(flow)
        if math.isfinite(least):
            rows.append(spans.means(flow.counted.times_ns, flow.counted["srtt_ns"] / 1e9 - least))
    return mean_over(rows)
