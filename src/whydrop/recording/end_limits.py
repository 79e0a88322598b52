"""Limits at the ends of a flow: a responder's own limit, a send buffer that is too small.

``run`` warns by these rules, and ``explain`` decides by them.

A responder with a limit (``--max-rate``; every open one) paces the flows that it sends, and reports the rate
(``held_to_bps_by_responder``). It reads uploads no faster than its limit, which all uploads of a test share, and
reports how long it delayed reading each (``held_back_s_by_responder``). Behind a path slower than the limit it never
delays reading, so this time is due to the limit alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from whydrop.recording import document

Values = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Headers of paced packets, and intervals that do not end with a packet, take no more than the rest of the paced rate.
AT_RESPONDER_LIMIT = 0.9
# Above this share of its time at the responder's limit, a flow's rate and round trips are partly due to the limit.
TOUCHED_BY_RESPONDER_LIMIT = 0.05

# Linux wakes a writer when a third of the send buffer is free (sk_stream_is_writeable): until then the buffer stops
# the application.
BUFFER_FULL = 2 / 3
# With a round trip of this many times its minimum, a flow stands in a queue: a larger buffer would only queue more.
STANDS_IN_QUEUE = 1.25
# A full window that keeps this many packets of its own in queues has reached the path's rate: the upper bound (beta) of
# TCP Vegas (L. S. Brakmo, L. L. Peterson, "TCP Vegas: End to End Congestion Avoidance", 1995).
BACKLOG_PACKETS = 4.0
# The kernel's clock of the send buffer runs while all written data is sent. Where it ran for this share of an interval,
# the buffer was emptied again and again in it.
RUNS_DRY = 0.1
# Congestion controls that send by their estimate of the path's rate, and keep a window of twice what that needs.
BY_RATE = frozenset({"bbr", "bbr1", "bbr2", "bbr3"})


class Samples(Protocol):
    """Columns of table ``tcp_info`` of one flow, in order of time; NaN where a value is not known."""

    def __getitem__(self, name: str, /) -> Values:
        """One column."""


@dataclass(frozen=True)
class Paced:
    """How long a flow was about as fast as the responder paced it, and how long it was watched, ns."""

    at_limit_ns: float = 0.0
    total_ns: float = 0.0

    def __add__(self, other: Paced) -> Paced:
        """Both together."""
        return Paced(self.at_limit_ns + other.at_limit_ns, self.total_ns + other.total_ns)

    @classmethod
    def of(cls, facts: Mapping[str, Any], intervals: Values) -> Paced:
        """By the facts of a flow, and start, end (ns) and bytes of payload of each interval, one row each."""
        limit_bps = document.number(facts.get("held_to_bps_by_responder")) or 0.0
        if limit_bps <= 0 or not len(intervals):
            return cls()
        starts, ends, sizes = intervals.T
        spans_ns = ends - starts
        at_limit = sizes * 8e9 >= AT_RESPONDER_LIMIT * limit_bps * spans_ns
        return cls(float(np.where(at_limit, spans_ns, 0.0).sum()), float(spans_ns.sum()))


def share_at_responder(facts: Mapping[str, Any], paced: Paced, lasted_ns: float) -> float:
    """The share of its time in which a responder's own limit set the rate of a flow; 0 where it reported none."""
    # Data left in the receive buffer at the end of the flow is read late too, and counted with it.
    delayed_ns = (document.number(facts.get("held_back_s_by_responder")) or 0.0) * 1e9
    read_late = min(1.0, delayed_ns / lasted_ns) if delayed_ns > 0 and lasted_ns > 0 else 0.0
    return max(read_late, paced.at_limit_ns / paced.total_ns if paced.total_ns > 0 else 0.0)


def limited_by_send_buffer(samples: Samples) -> Flags:
    """Where the send buffer is full, and all of it would fit into the congestion window and into the path."""
    flight = in_flight(samples)
    with np.errstate(invalid="ignore", divide="ignore"):
        buffered = flight + np.nan_to_num(samples["not_sent_bytes"]) / samples["mss_bytes"]
        full = samples["send_memory_bytes"] >= BUFFER_FULL * samples["send_buffer_bytes"]
        fits = buffered < samples["congestion_window_packets"]
        return np.asarray(full & fits & ~stands_in_queue(samples, flight), dtype=np.bool_)


def stands_in_queue(samples: Samples, flight: Values) -> Flags:
    """Where packets of the flow stand in a queue: whatever limits the flow, more packets would only queue."""
    with np.errstate(invalid="ignore", divide="ignore"):
        longer = samples["srtt_ns"] > STANDS_IN_QUEUE * base_rtt_ns(samples)
        return np.asarray(longer & (backlog(samples, flight) >= BACKLOG_PACKETS), dtype=np.bool_)


def in_flight(samples: Samples) -> Values:
    """Packets on the path, as Linux counts them (tcp_packets_in_flight)."""
    gone = np.nan_to_num(samples["sacked_packets"]) + np.nan_to_num(samples["lost_packets"])
    return np.asarray(samples["unacked_packets"] - gone + np.nan_to_num(samples["in_retransmission_packets"]))


def base_rtt_ns(samples: Samples) -> Values:
    """The minimum round trip known at each sample; where the kernel reports none, the minimum of the smoothed ones."""
    reported, smoothed = samples["min_rtt_ns"], samples["srtt_ns"]
    least = np.fmin.accumulate(np.where(smoothed > 0, smoothed, math.inf)) if len(smoothed) else smoothed
    base = np.where(reported > 0, reported, least)
    return np.where(np.isfinite(base), base, math.nan)


def backlog(samples: Samples, flight: Values) -> Values:
    """Packets of the flow that stand in queues."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(flight * (1.0 - base_rtt_ns(samples) / samples["srtt_ns"]))
