"""The limits of each flow: by the times that its sender's kernel counts, and by what its samples show.

Linux (4.10) counts for how long it was busy sending, and of that for how long the receive window or the send buffer
stopped it (F. Baker, Y. Cheng, "tcp: instrument how long TCP is limited by ...", commits 0f87230d1a6c and following).
Web100 counts all of the time as limited by the receive window, the congestion window, or the sender (RFC 4898,
SndLimTime). What these do not tell apart, and everything where they are missing, is told by the samples at both ends of
each interval:

- ``receive-window``: what is under way and one segment more do not fit into what the other end lets be sent, and data
  waits;
- ``application``: no whole segment waits to be sent (a shorter one waits for acknowledgments: RFC 896), and the
  congestion window is not full; ``send-buffer`` if the socket's memory is. Where a kernel does not tell what waits:
  less than half of the window is in use (RFC 7661, section 4.2);
- ``pacing``: data waits, the window is not full, and the pacing rate is below a window each round trip, or at the
  most that is set;
- ``path-rate``: the window is full, and more than `BACKLOG_PACKETS` of the flow stand in queues: W (1 - base / RTT), as
  TCP Vegas counts them (L. S. Brakmo, L. L. Peterson, 1995). A larger window would make the queue longer and nothing
  faster. So it is with a congestion control that sends by its estimate of the path's rate (BBR);
- ``congestion-window``: the window is full, and nothing stands: slow start (which bursts ahead of the path), or what
  losses left of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whydrop.explaining.recordings.likelihood import dependence
from whydrop.explaining.recordings.measures.series import Counted, Flow, Values
from whydrop.explaining.recordings.measures.spans import Spans
from whydrop.explaining.recordings.thresholds import (
    AT_MOST,
    BACKLOG_PACKETS,
    BUFFER_FULL,
    BY_RATE,
    VALIDATED,
)
from whydrop.recording import derived

LIMITS = ("receive-window", "send-buffer", "application", "congestion-window", "pacing", "path-rate")
_WINDOW, _BUFFER, _APPLICATION, _CONGESTION, _PACING, _PATH = range(len(LIMITS))

_CLOCKS = (
    "receive_window_limited_ns",
    "send_buffer_limited_ns",
    "busy_ns",
    "congestion_limited_ns",
    "sender_limited_ns",
)

_SNDLIM = ("receive_window_limited_ns", "congestion_limited_ns", "sender_limited_ns")

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class HeldShares:
    """Shares of the steady load in which one flow was held, by what held it.

    ``queue_delay_s`` is the median of what its packets waited where the path's rate did; NaN where it never did.
    ``samples`` is how many independent samples of it there are, by limit. ``by`` is ``kernel`` where its clocks tell of
    the receive window and the send buffer, else ``samples``. Shares add up to the part of the time that is known.
    """

    flow: Flow
    shares: dict[str, float]
    samples: dict[str, float]
    span_s: float
    queue_delay_s: float
    by: str


def measure(flows: Sequence[Flow], spans: Spans) -> list[HeldShares]:
    """Of each TCP flow whose kernel told.

    An end that receives more than it sends has only requests to send: that these do not fill the path limits nobody.
    """
    sending = [flow for flow in flows if flow.kind == "tcp" and flow.makes_load]
    return [found for flow in sending if (found := _of(flow, spans)) is not None]


def _of(flow: Flow, spans: Spans) -> HeldShares | None:
    times = flow.counted.times_ns
    kept = spans.loaded(times) & (times >= flow.start_ns) & (times <= flow.end_ns)
    counted = _evened(flow.counted).only(kept)
    times = counted.times_ns
    if len(times) < 4 or times[-1] <= times[0]:
        return None
    elapsed = np.diff(times).astype(float)
    shown = _shown(counted, flow.control)
    by, parts = _parts(counted, shown, elapsed)
    known = np.isfinite(parts).all(axis=0) & (elapsed > 0)
    if known.sum() < 3:
        return None
    waited = (counted["srtt_ns"] - base_rtt_ns(counted))[shown == _PATH] / 1e9
    waited = waited[np.isfinite(waited)]
    parts, weights = parts[:, known], elapsed[known] / elapsed[known].sum()
    return HeldShares(
        flow,
        {name: float(np.clip(part @ weights, 0.0, 1.0)) for name, part in zip(LIMITS, parts, strict=True)},
        {name: len(part) / dependence(part) for name, part in zip(LIMITS, parts, strict=True)},
        float(elapsed[known].sum()) / 1e9,
        float(np.median(waited)) if len(waited) else math.nan,
        by,
    )


def _parts(counted: Counted, shown: Values, elapsed: Values) -> tuple[str, Values]:
    """Who tells; and for each limit the share of each interval, NaN where nobody does."""
    # A clock may be read a little late, and then again early: more than all of an interval is made up for by others.
    clocks = {name: counted.grown(name) / np.maximum(elapsed, 1.0) for name in _CLOCKS}
    window, buffer, busy, congestion, sender = clocks.values()
    parts = np.full((len(LIMITS), len(elapsed)), math.nan)
    if np.isfinite(window + congestion + sender).any():
        parts[:] = 0.0
        parts[_WINDOW] = window
        _divide(parts, sender, _halves(np.where(shown == _BUFFER, _BUFFER, _APPLICATION), shown))
        _divide(parts, congestion, _halves(np.where(shown == _PATH, _PATH, _CONGESTION), shown))
        return "kernel", parts
    if np.isfinite(window + buffer + busy).any():
        # The kernel's clocks say when these two stopped it; the samples say what did otherwise.
        others = np.where(shown == _WINDOW, _CONGESTION, np.where(shown == _BUFFER, _APPLICATION, shown))
        parts[:] = 0.0
        parts[_WINDOW], parts[_BUFFER] = window, buffer
        _divide(parts, busy - window - buffer, _halves(others, shown))
        parts[_APPLICATION] += 1.0 - busy
        return "kernel", parts
    known = np.isfinite(shown[1:] + shown[:-1])
    parts[:, known] = 0.0
    _divide(parts, np.where(known, 1.0, math.nan), _halves(shown, shown))
    return "samples", parts


def _evened(counted: Counted) -> Counted:
    clocks = derived.evened(counted.times_ns.astype(float), [counted[name] for name in _SNDLIM])
    return Counted(counted.times_ns, {**counted.columns, **dict(zip(_SNDLIM, clocks, strict=True))})


def _halves(classes: Values, shown: Values) -> tuple[Values, Values]:
    """The first and the second half of an interval, by the samples at its ends; one that tells nothing is as the other.

    Where neither tells, what is left over is the congestion window's: the kernel says that it was busy.
    """
    told = np.where(np.isfinite(shown), classes, math.nan)
    first, second = told[:-1], told[1:]
    first, second = np.where(np.isfinite(first), first, second), np.where(np.isfinite(second), second, first)
    return np.nan_to_num(first, nan=_CONGESTION), np.nan_to_num(second, nan=_CONGESTION)


def _divide(parts: Values, share: Values, halves: tuple[Values, Values]) -> None:
    """Give the share of each interval to the classes of its halves."""
    for each in range(len(LIMITS)):
        own = 0.5 * sum((half == each).astype(float) for half in halves)
        if own.any():
            parts[each] += own * np.nan_to_num(share)
    parts[:, ~np.isfinite(share)] = math.nan


def _shown(counted: Counted, control: str) -> Values:
    """The limit of the flow that each sample shows; NaN where it does not tell."""
    window, flight = counted["congestion_window_packets"], in_flight(counted)
    waits, mss = counted["not_sent_bytes"], counted["mss_bytes"]
    by_rate = control in BY_RATE
    with np.errstate(invalid="ignore", divide="ignore"):
        full = flight >= window
        used = np.where(np.isfinite(waits), full | (waits >= mss), flight >= VALIDATED * window)
        # What has left and is not acknowledged, SACKed or not, is what the receive window is about.
        ahead = counted["unacked_packets"] * mss + mss > counted["send_window_bytes"]
        memory_full = counted["send_memory_bytes"] >= BUFFER_FULL * counted["send_buffer_bytes"]
        # Memory is counted with its overhead: as much again (socket(7), SO_SNDBUF).
        buffered = 2 * (flight * mss + np.nan_to_num(waits)) >= counted["send_buffer_bytes"]
        stopped_by_buffer = np.where(np.isfinite(counted["send_memory_bytes"]), memory_full, buffered)
        a_window_each_rtt_bps = window * mss * 8e9 / counted["srtt_ns"]
        set_to = counted["max_pacing_rate_bps"]
        paced = ~full & (
            (counted["pacing_rate_bps"] >= AT_MOST * set_to)
            if by_rate
            else (counted["pacing_rate_bps"] < a_window_each_rtt_bps)
        )
        stands = by_rate | (backlog(counted, flight) >= BACKLOG_PACKETS) & ~slow_start(counted)
    shown = np.where(stands, float(_PATH), float(_CONGESTION))
    shown = np.where(paced, float(_PACING), shown)
    shown = np.where(used, shown, np.where(stopped_by_buffer, float(_BUFFER), float(_APPLICATION)))
    shown = np.where(used & ahead & ~full, float(_WINDOW), shown)
    return np.where(np.isfinite(window) & np.isfinite(flight), shown, math.nan)


def in_flight(counted: Counted) -> Values:
    """Packets on the path, as Linux counts them (tcp_packets_in_flight)."""
    gone = np.nan_to_num(counted["sacked_packets"]) + np.nan_to_num(counted["lost_packets"])
    return np.asarray(counted["unacked_packets"] - gone + np.nan_to_num(counted["in_retransmission_packets"]))


def base_rtt_ns(counted: Counted) -> Values:
    """The least round trip that was known at each sample; where the kernel does not tell, the least smoothed one."""
    told, smoothed = counted["min_rtt_ns"], counted["srtt_ns"]
    least = np.fmin.accumulate(np.where(smoothed > 0, smoothed, math.inf)) if len(smoothed) else smoothed
    base = np.where(told > 0, told, least)
    return np.where(np.isfinite(base), base, math.nan)


def backlog(counted: Counted, flight: Values) -> Values:
    """Packets of the flow that stand in queues."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(flight * (1.0 - base_rtt_ns(counted) / counted["srtt_ns"]))


def slow_start(counted: Counted) -> Flags:
    """Where the window is below its threshold; a threshold that was never set is null."""
    threshold = counted["slow_start_threshold_packets"]
    return np.asarray(counted["congestion_window_packets"] < np.where(np.isfinite(threshold), threshold, math.inf))


def largest(limits: HeldShares) -> tuple[str, float]:
    """The limit that held a flow for longest, and its share of the time."""
    name = max(limits.shares, key=lambda one: limits.shares[one])
    share = limits.shares[name]
    return name, share if math.isfinite(share) else 0.0
