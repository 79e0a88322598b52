"""How throughput follows the congestion window: a line through the origin, and from the kink on a plateau.

While the pipe is not full, a window leaves in each round trip: throughput is the window over the base round trip. Once
it is full, a larger window stands in the queue. So throughput is s min(W, K): the slope s is one over the round trip,
the kink K the bandwidth-delay product, s K the plateau. (Segmented regression: V. M. R. Muggeo, "Estimating regression
models with unknown break-points", 2003. With two parameters the least squares are found exactly, by looking at each
interval between two windows.)

The window of a moment is acknowledged in the round trip after it. Neighbouring samples are autocorrelated:
intervals are of the stationary bootstrap, and the kink must be worth its parameters to as many samples as are
independent (Schwarz). What waits for retransmissions, or for data, is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whydrop.explaining.recordings.findings import Quantity
from whydrop.explaining.recordings.likelihood import dependence
from whydrop.explaining.recordings.measures.limits import Flags
from whydrop.explaining.recordings.measures.series import STATE, STATES, Counted, Flow, Values
from whydrop.explaining.recordings.thresholds import FEWEST_ON_A_SIDE, MOST_WINDOWS, VALIDATED, WORTH_A_KINK
from whydrop.recording.end_limits import BY_RATE, in_flight
from whydrop.recording.statistics import resampling

_RESAMPLES = 400


@dataclass(frozen=True)
class WindowFit:
    """The relation of one flow.

    Attributes:
        rtt_s: one over the slope.
        kink_bytes: bandwidth-delay product, payload.
        plateau_bps: payload.
        below, above: windows on each side of the kink.
        of: ``path``, or ``receive-window`` where the plateau is that of the window that the receiver offers.
        receive_window_bytes: the median that was offered on the plateau, where it is known.
    """

    flow: Flow
    rtt_s: Quantity
    kink_bytes: Quantity
    plateau_bps: Quantity
    below: int
    above: int
    of: str
    receive_window_bytes: float | None


def measure(flows: Sequence[Flow]) -> list[WindowFit]:
    """Of each TCP flow with windows on both sides of a kink.

    A control that sends by a rate keeps a window of twice what it uses: throughput does not follow that.
    """
    found = (_of(flow) for flow in flows if flow.kind == "tcp" and flow.makes_load and flow.control not in BY_RATE)
    return [one for one in found if one is not None]


def pairs(counted: Counted, mss_bytes: float) -> tuple[Values, Values, Values]:
    """Window (bytes), throughput of it (bit/s) and the window offered (bytes; NaN), one for each round trip.

    Empty where the samples do not show one.
    """
    times = counted.times_ns.astype(float)
    window = counted["congestion_window_packets"] * np.where(counted["mss_bytes"] > 0, counted["mss_bytes"], mss_bytes)
    acked, rtt = counted["acked_bytes"], counted["srtt_ns"]
    known = np.isfinite(acked)
    if known.sum() < 4 or not np.isfinite(rtt).any():
        return np.empty(0), np.empty(0), np.empty(0)
    starts = _each_round_trip(times, rtt, np.isfinite(window) & np.isfinite(rtt) & _in_use(counted))
    span = np.maximum(rtt[starts], float(np.median(np.diff(times))))
    ends = times[starts] + span
    inside = ends <= times[known][-1]
    starts, ends, span = starts[inside], ends[inside], span[inside]
    until = np.interp(ends, times[known], acked[known])
    bps = (until - np.interp(times[starts], times[known], acked[known])) * 8e9 / span
    again = counted["retransmitted_packets"]
    last = np.searchsorted(times, ends, side="left").clip(max=len(times) - 1)
    clean = ~(again[last] > again[starts]) & (bps > 0)
    return window[starts][clean], bps[clean], counted["send_window_bytes"][starts][clean]


def _in_use(counted: Counted) -> Flags:
    """Samples with a full window that repair no loss, as far as they show it."""
    flight, window = in_flight(counted), counted["congestion_window_packets"]
    state = counted[STATE]
    mends = (state == STATES["recovery"]) | (state == STATES["loss"])
    return np.asarray(~mends & ~((flight < VALIDATED * window) & (counted["not_sent_bytes"] < counted["mss_bytes"])))


def _each_round_trip(times: Values, rtt: Values, usable: Flags) -> NDArray[np.int64]:
    """Samples at least a round trip apart."""
    found, due = [], -math.inf
    for number in np.flatnonzero(usable):
        if times[number] >= due:
            found.append(number)
            due = times[number] + rtt[number]
    return np.array(found, dtype=np.int64)


def _of(flow: Flow) -> WindowFit | None:
    window, bps, offered = pairs(flow.counted, flow.mss_bytes)
    if len(window) > MOST_WINDOWS:
        kept = np.linspace(0, len(window) - 1, MOST_WINDOWS).astype(int)
        window, bps, offered = window[kept], bps[kept], offered[kept]
    if len(window) < 2 * FEWEST_ON_A_SIDE or np.ptp(window) == 0:
        return None
    slope, kink = fit(window, bps, np.ones((1, len(window))))[0]
    below, above = int((window < kink).sum()), int((window > kink).sum())
    if min(below, above) < FEWEST_ON_A_SIDE or not _is_worth_it(window, bps, slope, kink):
        return None
    random = np.random.default_rng(resampling.SEED)
    residuals = bps - slope * np.minimum(window, kink)
    length = resampling.block_length(residuals)
    drawn = [fit(window, bps, times) for times in resampling.multiplicities(len(window), length, _RESAMPLES, random)]
    slopes, kinks = np.concatenate(drawn).T
    on_it = offered[window > kink]
    on_it = on_it[np.isfinite(on_it) & (on_it > 0)]
    known = float(np.median(on_it)) if len(on_it) else None
    ends = _ends(kinks, kink)
    # The window that is offered, less what does not fill a segment, stops the sender at the kink.
    beyond = float(np.median(window[window > kink]))
    stops = known is not None and known - flow.mss_bytes <= (ends.high or kink) and known <= beyond
    return WindowFit(
        flow,
        _ends(8 / slopes, 8 / slope),
        ends,
        _ends(slopes * kinks, slope * kink),
        below,
        above,
        "receive-window" if stops else "path",
        known,
    )


def _ends(drawn: Values, value: float) -> Quantity:
    low, high = np.quantile(drawn[np.isfinite(drawn)], (0.025, 0.975))
    return Quantity(float(value), float(min(value, low)), float(max(value, high)))


def fit(window: Values, bps: Values, weights: Values) -> Values:
    """Slope and kink of least squares for each row of weights, exactly: one row each.

    Between two neighbouring windows the fit is a line through the origin below, a constant above; where these do not
    meet there, the kink is at one of the two windows.
    """
    order = np.argsort(window, kind="stable")
    x, y, w = window[order], bps[order], weights[:, order]
    xx, xy, yy = (np.cumsum(w * one, axis=1) for one in (x * x, x * y, y * y))
    ones, ys = np.cumsum(w, axis=1), np.cumsum(w * y, axis=1)
    n_above, y_above, yy_above = ones[:, -1:] - ones, ys[:, -1:] - ys, yy[:, -1:] - yy
    with np.errstate(invalid="ignore", divide="ignore"):
        slope, level = xy / xx, y_above / n_above
        kink = level / slope
    meets = (n_above > 0) & (kink >= x) & (kink <= np.append(x[1:], math.inf))
    apart = yy - xy**2 / np.maximum(xx, 1e-300) + yy_above - y_above**2 / np.maximum(n_above, 1e-300)
    # With the kink at a window: one line through the origin, of min(W, K).
    at_xx, at_xy = xx + x**2 * n_above, xy + x * y_above
    tied = yy[:, -1:] - at_xy**2 / np.maximum(at_xx, 1e-300)
    error = np.where(meets, apart, tied)
    best = np.argmin(np.where(np.isfinite(error), error, math.inf), axis=1)
    rows = np.arange(len(w))
    free = meets[rows, best]
    return np.column_stack(
        [
            np.where(free, slope[rows, best], (at_xy / np.maximum(at_xx, 1e-300))[rows, best]),
            np.where(free, kink[rows, best], x[best]),
        ]
    )


def _is_worth_it(window: Values, bps: Values, slope: float, kink: float) -> bool:
    """True if the kink fits independent samples better than a line alone and than a plateau alone."""
    bent = bps - slope * np.minimum(window, kink)
    samples = len(window) / dependence(bent)
    line = bps - (window @ bps) / (window @ window) * window
    flat = bps - bps.mean()
    rival = min(float(line @ line), float(flat @ flat))
    least = max(float(bent @ bent), 1e-12 * float(bps @ bps))
    return 0.5 * samples * math.log(rival / least) - 0.5 * math.log(max(samples, 1.0)) > WORTH_A_KINK
