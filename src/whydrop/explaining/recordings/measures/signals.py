"""Congestion signals of a flow, and what each was: by web100's counters, or by what Linux's samples show.

Web100 counts signals (RFC 4898, CongSignals). Each is attributed to the counts of the same interval: fast retransmits,
marks that came back, timeouts, packets that the host's own queue did not take (SendStall); what is left is unexplained.
Kernel 2.5.27 does not count timeouts among them: there they explain none. OtherReductions are no signals by definition.

Linux does not count them. Whenever it reduces the window it sets the slow start threshold below what the window was
(RFC 5681, section 3.1), which two samples show; the end of slow start by delay (HyStart, RFC 9406) sets it to the
window, and is none. Two signals between two samples are taken for one.

Where the kernel's events were recorded (`whydrop watch --events`), they show every reduction with its cause.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whydrop.explaining.recordings.measures import reductions
from whydrop.explaining.recordings.measures.reductions import Reductions
from whydrop.explaining.recordings.measures.series import STATE, STATES, Counted, Flow, Values
from whydrop.recording.end_limits import BY_RATE

KINDS = ("fast-retransmit", "timeout", "ecn", "local-stall", "unexplained")


@dataclass(frozen=True)
class Signals:
    """Of one flow, in all of its time.

    Attributes:
        count: signals.
        kinds: how many of them were what; the values add up to ``count``.
        undone: reductions that were reverted, because nothing had been lost.
        timeouts_apart: timeouts that this kernel does not count among signals; ``None`` where it does.
        by: ``counters`` of web100, ``samples``, or the kernel's ``events``.
        reductions: all reductions, where the kernel's events were recorded.
    """

    flow: Flow
    count: int
    kinds: dict[str, int]
    undone: int
    timeouts_apart: int | None
    by: str
    reductions: Reductions | None = None


def measure(flows: Sequence[Flow]) -> list[Signals]:
    """Of each TCP flow with signals."""
    found = (_of(flow) for flow in flows if flow.kind == "tcp" and flow.makes_load)
    return [one for one in found if one is not None]


def _of(flow: Flow) -> Signals | None:
    counted = flow.counted
    seen = reductions.measure(flow)
    if seen is not None:
        return _recorded(flow, seen)
    if len(counted.times_ns) < 2:
        return None
    if np.isfinite(counted["congestion_signals"]).any():
        return _counted(flow, counted)
    window = np.isfinite(counted["congestion_window_packets"])
    # A rate-based control keeps no threshold that would show it.
    return _seen(flow, counted.only(window)) if window.sum() > 1 and flow.control not in BY_RATE else None


def _recorded(flow: Flow, seen: Reductions) -> Signals:
    kinds = {"local-stall" if cause == "local-queue" else cause: seen.causes[cause] for cause in reductions.SIGNALS}
    kinds[reductions.UNEXPLAINED] = seen.causes[reductions.UNEXPLAINED]
    return Signals(flow, sum(kinds.values()), kinds, seen.undone, None, "events", seen)


def _counted(flow: Flow, counted: Counted) -> Signals:
    def grown(name: str) -> Values:
        return np.nan_to_num(counted.grown(name))

    apart = str(flow.runner_facts.get("kernel", "")).startswith("2.5.27")
    left = grown("congestion_signals")
    count, kinds = int(left.sum()), {}
    causes = {"fast-retransmit": "fast_retransmits", "ecn": "ece_received", "timeout": "timeouts"}
    for kind, counter in {**causes, "local-stall": "send_stalls"}.items():
        taken = np.zeros_like(left) if apart and kind == "timeout" else np.minimum(left, grown(counter))
        kinds[kind] = int(taken.sum())
        left = left - taken
    timeouts = int(grown("timeouts").sum()) if apart else None
    undone = int(grown("congestion_over_count").sum())
    return Signals(flow, count, _in_order(kinds, count), undone, timeouts, "counters")


def _seen(flow: Flow, counted: Counted) -> Signals:
    window = counted["congestion_window_packets"]
    told = counted["slow_start_threshold_packets"]
    threshold = np.where(np.isfinite(told), told, math.inf)
    signal = (threshold[1:] != threshold[:-1]) & (threshold[1:] < window[:-1])
    state = counted[STATE][1:]
    timeouts = np.nan_to_num(counted.grown("timeouts")) + (np.nan_to_num(counted["backoff"][1:]) > 0)
    again = np.nan_to_num(counted.grown("retransmitted_packets")) > 0
    marked = np.nan_to_num(counted.grown("delivered_ce_packets")) > 0
    # The first that fits: a timeout retransmits too, and a retransmission is not the effect of a mark.
    rules = {
        "timeout": (state == STATES["loss"]) | (timeouts > 0),
        "fast-retransmit": again | (state == STATES["recovery"]),
        "ecn": marked,
        # Linux calls the window reduced without a mark when its own queue takes no packet (tcp_enter_cwr).
        "local-stall": state == STATES["reduced"],
    }
    left, kinds = signal, {}
    for kind, holds in rules.items():
        kinds[kind] = int((left & holds).sum())
        left = left & ~holds
    count = int(signal.sum())
    return Signals(flow, count, _in_order(kinds, count), int(_undone(counted, window).sum()), None, "samples")


def _undone(counted: Counted, window: Values) -> Values:
    """Where the window grew by more than was acknowledged, which no control does but to take a reduction back."""
    delivered = counted.grown("delivered_packets")
    with np.errstate(invalid="ignore", divide="ignore"):
        acknowledged = np.ceil(counted.grown("acked_bytes") / counted["mss_bytes"][1:])
    most = np.fmax(delivered, acknowledged)
    # Two packets of rounding, at both ends of the interval.
    return np.asarray(np.isfinite(most) & (np.diff(window) > most + 2))


def _in_order(kinds: dict[str, int], count: int) -> dict[str, int]:
    return {kind: kinds.get(kind, count - sum(kinds.values())) for kind in KINDS}
