"""Columns derived from TCP's counters, row to row: growth that survives a wrap, rates, mean round-trip times.

The definitions are those of the UCL study of TCP with web100 (2003), but for the time over which rates are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

Floats = npt.NDArray[np.float64]

_WRAP = 2.0**32
_NS_PER_S = 1e9


def growth(totals: Floats) -> Floats:
    """Growth of a counter since the value before; NaN for the first value and after a reset.

    A fall by more than half of 2^32 is a counter of 32 bits that was full in between (as sequence numbers are
    compared: RFC 1982). NaN among the values is passed over.

    >>> growth(np.array([1.0, 4.0, np.nan, 5.0, 2.0, 3.0])).tolist()
    [nan, 3.0, nan, 1.0, nan, 1.0]
    >>> growth(np.array([4294967295.0, 4.0])).tolist()
    [nan, 5.0]
    """
    grown = np.full(totals.shape, np.nan)
    known = ~np.isnan(totals)
    told = totals[known]
    if told.size:
        since = np.diff(told, prepend=np.nan)
        wraps = (since < -_WRAP / 2) & (np.concatenate(([np.nan], told[:-1])) < _WRAP)
        since = np.where(wraps, since + _WRAP, since)
        grown[known] = np.where(since >= 0, since, np.nan)
    return grown


def evened(times: Floats, clocks: Sequence[Floats]) -> list[Floats]:
    """web100's clocks of what limits the sender, running evenly between the times at which the kernel set them.

    It sets them only when another limit begins; until then they stand. What limits after they were set last is not
    known (NaN). ``clocks`` are the three of one connection, each with a value or NaN for each of ``times``.

    >>> stands = np.array([0.0, 0.0, 2.0, 2.0])
    >>> evened(np.arange(4.0), [stands, stands * 0, stands * 0])[0].tolist()
    [0.0, 1.0, 2.0, nan]
    """
    known = np.isfinite(clocks).all(axis=0)
    if not known.any():
        return list(clocks)
    total = np.where(known, np.sum(clocks, axis=0), np.nan)
    begins = np.flatnonzero(known)
    set_then = begins[np.concatenate([[True], np.diff(total[begins]) != 0])]
    beyond = times > times[set_then[-1]]
    return [np.where(beyond, np.nan, np.interp(times, times[set_then], clock[set_then])) for clock in clocks]


def rates_per_s(times_s: Floats, totals: Floats, spans_s: Floats) -> Floats:
    """A counter's growth a second, up to each time, over the shortest time since an earlier one that is ``spans_s``.

    Over less than a round-trip time a sender's rate shows in which order its acknowledgments come, and not the rate
    that its window gives. NaN where no time is so much earlier, where the counter was reset in between, or where it
    or the span is not known; a span of 0 is that to the time before.
    """
    grown = growth(totals)
    known = ~np.isnan(totals) & ~np.isnan(spans_s) & ~np.isnan(times_s)
    rates = np.full(totals.shape, np.nan)
    times, spans, grown = times_s[known], spans_s[known], grown[known]
    if times.size < 2:
        return rates
    sums = np.cumsum(np.nan_to_num(grown))
    begun = np.cumsum(np.isnan(grown))
    number = np.arange(times.size)
    # A nanosecond less: times are sums of floats.
    since = np.minimum(np.searchsorted(times, times - spans + 1e-9, side="right") - 1, number - 1)
    first = np.maximum(since, 0)
    elapsed = times - times[first]
    usable = (since >= 0) & (begun == begun[first]) & (elapsed > 0)
    rates[known] = np.where(usable, (sums - sums[first]) / np.where(usable, elapsed, 1.0), np.nan)
    return rates


def _rate_bps(time_ns: Floats, total_bytes: Floats, srtt_ns: Floats) -> Floats:
    return 8.0 * rates_per_s(time_ns / _NS_PER_S, total_bytes, np.nan_to_num(srtt_ns) / _NS_PER_S)


def _throughput_mbit_per_s(time_ns: Floats, total_bytes: Floats, srtt_ns: Floats) -> Floats:
    return _rate_bps(time_ns, total_bytes, srtt_ns) / 1e6


def _window_use_percent(
    time_ns: Floats, acked_bytes: Floats, srtt_ns: Floats, window_packets: Floats, mss_bytes: Floats
) -> Floats:
    window_bits = window_packets * mss_bytes * 8.0
    used = _rate_bps(time_ns, acked_bytes, srtt_ns) * srtt_ns / _NS_PER_S
    return np.where(window_bits > 0, 100.0 * used / np.where(window_bits > 0, window_bits, 1.0), np.nan)


def _mean_rtt_ms(sum_ns: Floats, count: Floats) -> Floats:
    sums, counts = growth(sum_ns), growth(count)
    return np.where(counts > 0, sums / np.where(counts > 0, counts, 1.0) / 1e6, np.nan)


def _idle_ms(time_ns: Floats, busy_ns: Floats) -> Floats:
    known = ~np.isnan(busy_ns)
    idle = np.full(busy_ns.shape, np.nan)
    if known.any():
        elapsed = time_ns[known] - time_ns[known][0]
        # The two clocks have different ticks: what is idle never gets less.
        idle[known] = np.maximum.accumulate(elapsed - (busy_ns[known] - busy_ns[known][0])) / 1e6
    return idle


def _over(function: Callable[..., Floats], *columns: str) -> pl.Expr:
    """A function of whole columns of one flow's rows, in order of time. Times are since the first row."""

    def whole(rows: pl.Series) -> pl.Series:
        fields = [rows.struct.field(column) for column in columns]
        fields = [field - field.min() if field.name == "time_ns" else field for field in fields]
        return pl.Series(function(*(field.cast(pl.Float64).to_numpy() for field in fields)), dtype=pl.Float64())

    return pl.struct(*columns).map_batches(whole, return_dtype=pl.Float64()).fill_nan(None)


# Columns of tcp_info; each needs all of those that it names.
THROUGHPUT_MBIT_PER_S = _over(_throughput_mbit_per_s, "time_ns", "acked_bytes", "srtt_ns")
SEND_RATE_MBIT_PER_S = _over(_throughput_mbit_per_s, "time_ns", "sent_bytes", "srtt_ns")
WINDOW_USE_PERCENT = _over(
    _window_use_percent, "time_ns", "acked_bytes", "srtt_ns", "congestion_window_packets", "mss_bytes"
)
MEAN_RTT_MS = _over(_mean_rtt_ms, "sum_rtt_ns", "count_rtt")
NOT_BUSY_MS = _over(_idle_ms, "time_ns", "busy_ns")
