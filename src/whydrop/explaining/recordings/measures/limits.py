"""The limits of each flow: by the times that its sender's kernel counts, and by what its samples show.

Linux (4.10) counts for how long it was busy sending, and of that for how long the receive window or the send buffer
stopped it (F. Baker, Y. Cheng, "tcp: instrument how long TCP is limited by ...", commits 0f87230d1a6c and following).
Web100 counts all of the time as limited by the receive window, the congestion window, or the sender (RFC 4898,
SndLimTime). The samples at both ends of each interval show the limits that these counters do not distinguish, or all of
them where the counters are missing:

- ``receive-window``: the data in flight and one segment more exceed the window of the other end, and data is ready;
- ``application``: no whole segment waits to be sent (a shorter one waits for acknowledgments: RFC 896), and the
  congestion window is not full; ``send-buffer`` if the socket's memory is. Where a kernel does not report unsent data:
  less than half of the window is in use (RFC 7661, section 4.2);
- ``pacing``: data waits, the window is not full, and the pacing rate is below a window each round trip, or at the
  most that is set;
- ``path-rate``: the window is full, and more than `BACKLOG_PACKETS` of the flow stand in queues: W (1 - base / RTT), as
  TCP Vegas counts them (L. S. Brakmo, L. L. Peterson, 1995). A larger window would make the queue longer and nothing
  faster. So it is with a congestion control that sends by its estimate of the path's rate (BBR);
- ``congestion-window``: the window is full, and nothing stands: slow start (which bursts ahead of the path), or what
  losses left of it;
- ``send-buffer``: the socket's memory is full, and all that is in it would fit into the congestion window. The
  kernel's clock of the send buffer does not run while any of it waits to leave (for a pacer, or for the next
  acknowledgment), and so misses a part of that time. A flow of ours that is greedy always has something to send: where
  none of it waits, it is the buffer that lets none in;
- ``far-end``: the responder's own limit (`far_share`), ahead of everything that it brings about.
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
from whydrop.explaining.recordings.thresholds import AT_MOST, BUFFER_IN_USE, VALIDATED
from whydrop.recording import derived
from whydrop.recording.end_limits import (
    BACKLOG_PACKETS,
    BUFFER_FULL,
    BY_RATE,
    RUNS_DRY,
    Paced,
    backlog,
    base_rtt_ns,
    in_flight,
    limited_by_send_buffer,
    share_at_responder,
    stands_in_queue,
)  # fmt: skip

LIMITS = ("receive-window", "send-buffer", "application", "congestion-window", "pacing", "path-rate", "far-end")
_WINDOW, _BUFFER, _APPLICATION, _CONGESTION, _PACING, _PATH, _FAR_END = range(len(LIMITS))

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
    """Shares of the steady load, by the limit of one flow.

    ``queue_delay_s`` is the median of what its packets waited where the path's rate did; NaN where it never did.
    ``samples`` is how many independent samples of it there are, by limit. ``by`` is ``kernel`` where its clocks count
    the receive window and the send buffer, else ``samples``. Shares add up to the part of the time that is known.
    ``buffer`` describes the send buffer where it was the limit.
    """

    flow: Flow
    shares: dict[str, float]
    samples: dict[str, float]
    span_s: float
    queue_delay_s: float
    by: str
    buffer: SendBuffer | None = None


@dataclass(frozen=True)
class SendBuffer:
    """Medians over the samples in which a send buffer was full.

    Attributes:
        memory_bytes: the most that the socket's memory may be, overhead included (``SO_SNDBUF``).
        data_bytes: of the stream in it, sent or not.
        rtt_s: the round trip over which these are spread.
        carried_bps: what the flow carried.
    """

    memory_bytes: float
    data_bytes: float
    rtt_s: float
    carried_bps: float


def measure(flows: Sequence[Flow], spans: Spans) -> list[HeldShares]:
    """Of each TCP flow with samples of its kernel.

    An end that receives more than it sends has only requests to send. That these do not fill the path is no limit.
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
    shown = _shown(counted, flow.control, is_greedy=flow.is_greedy)
    by, parts = _parts(counted, shown, elapsed, is_greedy=flow.is_greedy)
    _give_to_far_end(parts, far_share(flow, spans), flow.direction)
    known = np.isfinite(parts).all(axis=0) & (elapsed > 0)
    if known.sum() < 3:
        return None
    waited = (counted["srtt_ns"] - base_rtt_ns(counted))[shown == _PATH] / 1e9
    waited = waited[np.isfinite(waited)]
    parts, weights = parts[:, known], elapsed[known] / elapsed[known].sum()
    return HeldShares(
        flow,
        {name: float(np.clip(part @ weights, 0.0, 1.0)) for name, part in zip(LIMITS, parts, strict=True)},
        {name: _independent(name, part, flow) for name, part in zip(LIMITS, parts, strict=True)},
        float(elapsed[known].sum()) / 1e9,
        float(np.median(waited)) if len(waited) else math.nan,
        by,
        _send_buffer(counted, shown),
    )


def far_share(flow: Flow, spans: Spans) -> float:
    """The share of the steady load in which the responder's own limit set the rate of this flow; 0 without a report."""
    starts = flow.intervals[:, 0]
    steady = flow.intervals[(starts >= min(spans.steady_ns, flow.end_ns)) & (starts < spans.end_ns)]
    return share_at_responder(flow.runner_facts, Paced.of(flow.runner_facts, steady), flow.end_ns - flow.start_ns)


def _independent(name: str, part: Values, flow: Flow) -> float:
    """How many independent samples there are of a share.

    A responder reports its limit for all of the time. A flow that always has more to send is stopped by its buffer
    whenever nothing else stops it.
    """
    certain = name == LIMITS[_FAR_END] or (name == LIMITS[_BUFFER] and flow.is_greedy)
    return float(len(part)) if certain else len(part) / dependence(part)


def _give_to_far_end(parts: Values, held: float, direction: str) -> None:
    """Take the far end's share of each interval from the limits that show its effect at the near end first."""
    if not held:
        return
    # A responder that reads late closes its window; one that sends late has a pacing rate.
    shown_as = _WINDOW if direction == "up" else _PACING
    known = np.isfinite(parts).all(axis=0)
    taken = np.minimum(parts[shown_as, known], held)
    parts[shown_as, known] -= taken
    others = np.maximum(parts[:, known].sum(axis=0), 1e-9)
    rest = np.minimum(1.0, np.maximum(0.0, held - taken) / others)
    parts[:, known] *= 1.0 - rest
    parts[_FAR_END, known] = held


def _send_buffer(counted: Counted, shown: Values) -> SendBuffer | None:
    """The buffer, from the samples that show it full."""
    full = shown == _BUFFER
    if full.sum() < 2:
        return None
    flight = in_flight(counted) * counted["mss_bytes"] + np.nan_to_num(counted["not_sent_bytes"])
    memory, data, rtt_ns = (
        float(np.median(known)) if len(known := values[full & np.isfinite(values)]) else math.nan
        for values in (counted["send_buffer_bytes"], flight, counted["srtt_ns"])
    )
    seconds = (counted.times_ns[-1] - counted.times_ns[0]) / 1e9
    carried_bps = counted.growth("acked_bytes") * 8 / seconds if seconds > 0 else math.nan
    if not (memory > 0 and data > 0 and rtt_ns > 0 and carried_bps > 0):
        return None
    return SendBuffer(memory, data, rtt_ns / 1e9, float(carried_bps))


def _parts(counted: Counted, shown: Values, elapsed: Values, *, is_greedy: bool = False) -> tuple[str, Values]:
    """The source, and for each limit the share of each interval, NaN where it is not known."""
    # A clock may be read a little late, then early: an interval with more than its time is balanced by others.
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
        # A buffer that is known to be full stops a flow also while the rest of its data is still to leave.
        told = shown if np.isfinite(counted["send_memory_bytes"]).any() else _without_buffer(shown, is_greedy)
        others = np.where(shown == _WINDOW, _CONGESTION, _as_emptied(counted, told, buffer))
        parts[:] = 0.0
        parts[_WINDOW], parts[_BUFFER] = window, buffer
        _divide(parts, busy - window - buffer, _halves(others, shown))
        if is_greedy:
            # Where its buffer was not what it waited for, its writer was late, and nothing is known.
            parts[_BUFFER] += (1.0 - busy) * _emptied(buffer, shown)
        else:
            parts[_APPLICATION] += 1.0 - busy
        return "kernel", parts
    known = np.isfinite(shown[1:] + shown[:-1])
    parts[:, known] = 0.0
    _divide(parts, np.where(known, 1.0, math.nan), _halves(shown, shown))
    return "samples", parts


def _without_buffer(shown: Values, is_greedy: bool) -> Values:
    """Samples that only seem to show a full buffer: the kernel's clock of it says when it was."""
    return shown if is_greedy else np.where(shown == _BUFFER, float(_APPLICATION), shown)


def _emptied(buffer: Values, shown: Values) -> Flags:
    """The intervals in which the buffer of a flow ran empty that always has more to send."""
    shows = (shown[1:] == _BUFFER) & (shown[:-1] == _BUFFER)
    return np.asarray(shows | (np.nan_to_num(buffer) >= RUNS_DRY), dtype=np.bool_)


def _as_emptied(counted: Counted, shown: Values, buffer: Values) -> Values:
    """A sender that goes by its estimate of the path (BBR) is the buffer's where this ran dry again and again."""
    dry = np.nan_to_num(buffer) >= RUNS_DRY
    either = np.concatenate([dry[:1], dry[1:] | dry[:-1], dry[-1:]])
    return np.where(either & (shown == _PATH) & limited_by_send_buffer(counted), float(_BUFFER), shown)


def _evened(counted: Counted) -> Counted:
    clocks = derived.evened(counted.times_ns.astype(float), [counted[name] for name in _SNDLIM])
    return Counted(counted.times_ns, {**counted.columns, **dict(zip(_SNDLIM, clocks, strict=True))})


def _halves(classes: Values, shown: Values) -> tuple[Values, Values]:
    """The first and the second half of an interval, by the samples at its ends, or at one of them.

    Where neither has one, the rest is the congestion window's: the kernel reports that it was busy.
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


def _shown(counted: Counted, control: str, *, is_greedy: bool = False) -> Values:
    """The limit of the flow that each sample shows; NaN where it shows none."""
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
    if not by_rate:
        shown = np.where(limited_by_send_buffer(counted), float(_BUFFER), shown)
    shown = np.where(used, shown, np.where(stopped_by_buffer, float(_BUFFER), float(_APPLICATION)))
    if is_greedy:
        shown = np.where(shown == _APPLICATION, _of_greedy(counted), shown)
    shown = np.where((shown == _BUFFER) & stands_in_queue(counted, flight), float(_PATH), shown)
    shown = np.where(used & ahead & ~full, float(_WINDOW), shown)
    return np.where(np.isfinite(window) & np.isfinite(flight), shown, math.nan)


def _of_greedy(counted: Counted) -> Values:
    """The limit where nothing waits to be sent although there is always more: the buffer, or its refilling.

    Where the buffer is known to be nearly empty its writer is late, for which this host may be too busy: no limit is
    named then.
    """
    with np.errstate(invalid="ignore"):
        late = counted["send_memory_bytes"] < BUFFER_IN_USE * counted["send_buffer_bytes"]
    return np.where(late, math.nan, float(_BUFFER))


def slow_start(counted: Counted) -> Flags:
    """Where the window is below its threshold; a threshold that was never set is null."""
    threshold = counted["slow_start_threshold_packets"]
    return np.asarray(counted["congestion_window_packets"] < np.where(np.isfinite(threshold), threshold, math.inf))


def largest(limits: HeldShares) -> tuple[str, float]:
    """The longest limit of a flow, and its share of the time."""
    name = max(limits.shares, key=lambda one: limits.shares[one])
    share = limits.shares[name]
    return name, share if math.isfinite(share) else 0.0
