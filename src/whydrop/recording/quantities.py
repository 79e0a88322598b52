"""The meaning of the tables' columns as series: their keys, units, and how a sample is made of a row.

A flow's own series has its name and no key; further quantities of it are the series ``NAME::key``. Keys that Flent has
too are spelled as there.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from whydrop.recording import derived
from whydrop.recording.troubles import NOT_OF_PATH

_NS_PER_MS = 1e6
_BPS_PER_MBIT_PER_S = 1e6


@dataclass(frozen=True)
class Quantity:
    """A series that a table holds for a flow.

    Attributes:
        key: behind ``::`` in the name of the series; empty for the flow's own.
        name: what it is, such as ``goodput``.
        units: of its values.
        table: that it comes from.
        value: of a row.
        time_ns: of a row.
        order: columns that the rows are sorted by before ``value`` is worked out.
        skip_null: rows without a value are no gap when series are put on a grid.
        averaged: on a grid, the mean of the samples in each step, instead of interpolation.
        needs: columns without which no row has a value; empty: only ``value`` itself decides.
    """

    key: str
    name: str
    units: str
    table: str
    value: pl.Expr
    time_ns: pl.Expr
    order: tuple[str, ...] = ()
    skip_null: bool = False
    averaged: bool = False
    needs: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """All columns that its samples are made of."""
        used = (*self.value.meta.root_names(), *self.time_ns.meta.root_names(), *self.order)
        return list(dict.fromkeys(used))


def _divided(values: pl.Expr, by: float) -> pl.Expr:
    """Exact division: by a number polars multiplies by its reciprocal, which makes 14000 ns 0.0139999... ms."""

    def divide(column: pl.Series) -> pl.Series:
        return pl.Series(column.to_numpy() / by, dtype=pl.Float64())

    # In numpy a null is NaN.
    return values.cast(pl.Float64).map_batches(divide, return_dtype=pl.Float64()).fill_nan(None)


def _ms(column: str) -> pl.Expr:
    return _divided(pl.col(column), _NS_PER_MS)


def _mbit_per_s(column: str) -> pl.Expr:
    return _divided(pl.col(column), _BPS_PER_MBIT_PER_S)


def _plain(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Float64)


def _percent_of(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    return pl.when(whole > 0).then(part * 100.0 / whole)


# An interval's figure is known at its end; that is also the time that netperf states and Flent uses.
_INTERVAL_END = pl.coalesce("end_ns", "start_ns")


def _of_interval(key: str, name: str, units: str, value: pl.Expr) -> Quantity:
    return Quantity(key, name, units, "intervals", value, _INTERVAL_END, ("end_ns",))


_RECEIVED_AND_LOST = pl.col("packets").fill_null(0) + pl.col("lost")

INTERVALS = (
    _of_interval("", "goodput", "Mbit/s", _mbit_per_s("goodput_bps")),
    _of_interval(
        "loss",
        "loss",
        "%",
        _percent_of(pl.col("lost").cast(pl.Float64), _RECEIVED_AND_LOST).clip(0.0, 100.0),
    ),
    _of_interval("delay", "one-way-delay", "ms", _ms("delay_ns")),
    _of_interval("jitter", "jitter", "ms", _ms("jitter_ns")),
    _of_interval("reordered", "reordered", "packets", _plain("reordered")),
)


def _of_tcp(key: str, name: str, units: str, value: pl.Expr) -> Quantity:
    needs = tuple(value.meta.root_names())
    return Quantity(key, name, units, "tcp_info", value, pl.col("time_ns"), ("time_ns",), skip_null=True, needs=needs)


# Busy, and limited by neither window nor buffer: by the congestion window, pacing or loss recovery.
_NETWORK_LIMITED_NS = pl.col("busy_ns") - pl.col("receive_window_limited_ns") - pl.col("send_buffer_limited_ns")

# Everything that a packet counter or a time counts is since the connection began, as the kernel gives it.
TCP_INFO = (
    _of_tcp("tcp_cwnd", "congestion-window", "packets", _plain("congestion_window_packets")),
    _of_tcp("tcp_ssthresh", "slow-start-threshold", "packets", _plain("slow_start_threshold_packets")),
    _of_tcp("tcp_rtt", "smoothed-rtt", "ms", _ms("srtt_ns")),
    _of_tcp("tcp_rtt_var", "rtt-variation", "ms", _ms("rtt_variation_ns")),
    _of_tcp("tcp_min_rtt", "min-rtt", "ms", _ms("min_rtt_ns")),
    _of_tcp("tcp_pacing_rate", "pacing-rate", "Mbit/s", _mbit_per_s("pacing_rate_bps")),
    _of_tcp("tcp_delivery_rate", "delivery-rate", "Mbit/s", _mbit_per_s("delivery_rate_bps")),
    _of_tcp("tcp_mss", "maximum-segment-size", "bytes", _plain("mss_bytes")),
    _of_tcp("tcp_unacked", "unacknowledged", "packets", _plain("unacked_packets")),
    _of_tcp("tcp_lost", "presumed-lost", "packets", _plain("lost_packets")),
    _of_tcp("tcp_retransmitted", "retransmitted", "packets", _plain("retransmitted_packets")),
    _of_tcp("tcp_retransmitted_bytes", "retransmitted", "bytes", _plain("retransmitted_bytes")),
    _of_tcp("tcp_acked_bytes", "acknowledged", "bytes", _plain("acked_bytes")),
    _of_tcp("tcp_delivered", "delivered", "packets", _plain("delivered_packets")),
    _of_tcp("tcp_delivered_ce", "congestion-marked", "packets", _plain("delivered_ce_packets")),
    _of_tcp("tcp_busy", "busy-time", "ms", _ms("busy_ns")),
    _of_tcp("tcp_rwnd_limited", "receive-window-limited-time", "ms", _ms("receive_window_limited_ns")),
    _of_tcp("tcp_sndbuf_limited", "send-buffer-limited-time", "ms", _ms("send_buffer_limited_ns")),
    _of_tcp("tcp_not_sent", "not-sent", "bytes", _plain("not_sent_bytes")),
    _of_tcp("tcp_reordering", "reordering", "packets", _plain("reordering_packets")),
    _of_tcp("tcp_sent_bytes", "sent", "bytes", _plain("sent_bytes")),
    _of_tcp("tcp_received_bytes", "received", "bytes", _plain("received_bytes")),
    _of_tcp("tcp_out_of_order", "received-out-of-order", "packets", _plain("out_of_order_packets")),
    _of_tcp("tcp_send_window", "send-window", "bytes", _plain("send_window_bytes")),
    _of_tcp("tcp_receive_window", "receive-window", "bytes", _plain("receive_window_bytes")),
    _of_tcp("tcp_send_queue", "send-queue", "bytes", _plain("send_queue_bytes")),
    _of_tcp("tcp_receive_queue", "receive-queue", "bytes", _plain("receive_queue_bytes")),
    _of_tcp("tcp_timeout", "retransmission-timeout", "ms", _ms("timeout_ns")),
    _of_tcp("tcp_timeouts", "timeouts", "timeouts", _plain("timeouts")),
    _of_tcp("tcp_duplicate_sacks", "duplicate-sacks", "packets", _plain("duplicate_sacks")),
    _of_tcp("tcp_drops", "dropped-by-the-socket", "packets", _plain("socket_drops")),
    _of_tcp("tcp_sent_packets", "sent", "packets", _plain("sent_packets")),
    # From kernels with web100.
    _of_tcp("tcp_sample_rtt", "sample-rtt", "ms", _ms("sample_rtt_ns")),
    _of_tcp("tcp_max_rtt", "max-rtt", "ms", _ms("max_rtt_ns")),
    _of_tcp("tcp_congestion_signals", "congestion-signals", "events", _plain("congestion_signals")),
    _of_tcp("tcp_congestion_over_count", "undone-congestion-signals", "events", _plain("congestion_over_count")),
    _of_tcp("tcp_fast_retransmits", "fast-retransmits", "events", _plain("fast_retransmits")),
    _of_tcp("tcp_subsequent_timeouts", "subsequent-timeouts", "events", _plain("subsequent_timeouts")),
    _of_tcp("tcp_abrupt_timeouts", "abrupt-timeouts", "events", _plain("abrupt_timeouts")),
    _of_tcp("tcp_timeouts_in_a_row", "timeouts-in-a-row", "events", _plain("timeouts_in_a_row")),
    _of_tcp("tcp_other_reductions", "other-reductions", "events", _plain("other_reductions")),
    _of_tcp("tcp_send_stalls", "send-stalls", "events", _plain("send_stalls")),
    _of_tcp("tcp_slow_start", "slow-start-increases", "events", _plain("slow_start_increases")),
    _of_tcp(
        "tcp_congestion_avoidance", "congestion-avoidance-increases", "events",
        _plain("congestion_avoidance_increases"),
    ),
    _of_tcp("tcp_duplicate_acks", "duplicate-acknowledgments", "packets", _plain("duplicate_acks")),
    _of_tcp("tcp_ece_received", "echoed-congestion-marks", "packets", _plain("ece_received")),
    _of_tcp("tcp_quenches", "source-quenches", "events", _plain("quenches_received")),
    _of_tcp("tcp_sender_limited", "sender-limited-time", "ms", _ms("sender_limited_ns")),
    _of_tcp("tcp_congestion_limited", "congestion-limited-time", "ms", _ms("congestion_limited_ns")),
    # Worked out of these (`derived`).
    _of_tcp("tcp_cwnd_bytes", "congestion-window", "bytes", _plain("congestion_window_packets") * pl.col("mss_bytes")),
    _of_tcp("tcp_throughput", "throughput", "Mbit/s", derived.THROUGHPUT_MBIT_PER_S),
    _of_tcp("tcp_send_rate", "send-rate", "Mbit/s", derived.SEND_RATE_MBIT_PER_S),
    _of_tcp("tcp_window_use", "window-use", "%", derived.WINDOW_USE_PERCENT),
    _of_tcp("tcp_mean_rtt", "mean-rtt", "ms", derived.MEAN_RTT_MS),
    _of_tcp("tcp_network_limited", "network-limited-time", "ms", _divided(_NETWORK_LIMITED_NS, _NS_PER_MS)),
    _of_tcp("tcp_not_busy", "not-busy-time", "ms", derived.NOT_BUSY_MS),
)  # fmt: skip

# Other programs report only answered probes.
_PROBE_TIME = pl.coalesce("sent_ns", "scheduled_ns", "received_ns")

_PROBE_ORDER = ("sequence",)


def _of_probe(key: str, name: str, units: str, value: pl.Expr, *, averaged: bool = False) -> Quantity:
    return Quantity(key, name, units, "probes", value, _PROBE_TIME, _PROBE_ORDER, skip_null=True, averaged=averaged)


def _variation(column: str) -> pl.Expr:
    """Difference to the probe before, where both came back (IP packet delay variation, RFC 3393)."""
    follows = pl.col("sequence").diff() == 1
    return pl.when(follows).then(_divided(pl.col(column).diff(), _NS_PER_MS))


_FATE = pl.col("fate")
_LOST = _FATE.is_in(["lost", "lost-up", "lost-down"])


def _loss(lost: pl.Expr, known: pl.Expr) -> pl.Expr:
    """100 for a lost probe, 0 for another, so that the mean over any time is the loss in per cent."""
    return pl.when(known).then(pl.when(lost).then(100.0).otherwise(0.0))


# A probe that was not sent can not be lost; what an end itself lost is none of the path's.
_TELLS_LOSS = _FATE.is_not_null() & ~_FATE.is_in(NOT_OF_PATH)

# A program that reports one-way delays also reports in which direction a probe was lost.
_TELLS_WAY = pl.col("up_ns").is_not_null() | _FATE.is_in(["lost-up", "lost-down"])

PROBES = (
    _of_probe("", "rtt", "ms", _ms("rtt_ns")),
    _of_probe("owd_up", "one-way-delay-up", "ms", _ms("up_ns")),
    _of_probe("owd_down", "one-way-delay-down", "ms", _ms("down_ns")),
    _of_probe("ipdv", "delay-variation", "ms", _variation("rtt_ns")),
    _of_probe("ipdv_up", "delay-variation-up", "ms", _variation("up_ns")),
    _of_probe("ipdv_down", "delay-variation-down", "ms", _variation("down_ns")),
    _of_probe("loss", "loss", "%", _loss(_LOST, _TELLS_LOSS), averaged=True),
    _of_probe("loss_up", "loss-up", "%", _loss(_FATE == "lost-up", _TELLS_WAY), averaged=True),
    _of_probe("loss_down", "loss-down", "%", _loss(_FATE == "lost-down", _TELLS_WAY), averaged=True),
    _of_probe("timer_error", "timer-error", "ms", _divided(pl.col("sent_ns") - pl.col("scheduled_ns"), _NS_PER_MS)),
)


def _of_fetch(key: str, name: str, value: pl.Expr, *, averaged: bool = False) -> Quantity:
    start = pl.col("start_ns")
    units = "%" if averaged else "ms"
    return Quantity(key, name, units, "fetches", value, start, ("start_ns",), not averaged, averaged)


FETCHES = (
    _of_fetch("", "fetch-time", _ms("duration_ns")),
    _of_fetch("first_byte", "time-to-first-byte", _ms("first_byte_ns")),
    _of_fetch("tcp", "tcp-handshake", _ms("tcp_ns")),
    _of_fetch("tls", "tls-handshake", _ms("tls_ns")),
    _of_fetch("failed", "failed-fetches", _loss(pl.col("error").is_not_null(), pl.lit(value=True)), averaged=True),
)

_BURST_TIME = pl.coalesce("sent_ns", "received_ns")
_BURST_ORDER = ("burst", "sequence")
_BURST_DELAY = _divided(pl.col("received_ns") - pl.col("sent_ns"), _NS_PER_MS)
_BURST_LOSS = _loss(pl.col("received_ns").is_null(), pl.lit(value=True))

BURSTS = (
    Quantity("", "one-way-delay", "ms", "bursts", _BURST_DELAY, _BURST_TIME, _BURST_ORDER, skip_null=True),
    Quantity("loss", "loss", "%", "bursts", _BURST_LOSS, _BURST_TIME, _BURST_ORDER, averaged=True),
)

# The quantity that a flow of each kind is there for. It is listed also where nothing was measured.
OWN: dict[str, Quantity] = {
    "tcp": INTERVALS[0],
    "udp": INTERVALS[0],
    "probe": PROBES[0],
    "icmp": PROBES[0],
    "http": FETCHES[0],
    "burst": BURSTS[0],
}

ALL = (*INTERVALS, *TCP_INFO, *PROBES, *FETCHES, *BURSTS)

# Units of the known keys of table values; other keys have the unit that their name ends in, or none.
KNOWN_UNITS = {
    "tcp_cwnd": "packets",
    "sent_mbit": "Mbit/s",
    "tcp_rtt": "ms",
    "tcp_rtt_var": "ms",
    "tcp_pacing_rate": "Mbit/s",
    "tcp_delivery_rate": "Mbit/s",
    "tcp_bbr_bw": "Mbit/s",
    "tcp_bbr_mrtt": "ms",
    "ipdv": "ms",
    "ipdv_up": "ms",
    "ipdv_down": "ms",
    "owd_up": "ms",
    "owd_down": "ms",
    "delay": "ms",
    "jitter": "ms",
    "induced_delay": "ms",
    "dur": "s",
    # Rates of the counters of switches' ports, as the store's table names them.
    **{f"octets.{direction}": "Mbit/s" for direction in ("rx", "tx")},
    **{
        f"{kind}.{direction}": "packets/s"
        for kind in ("unicast", "multicast", "broadcast", "discards", "errors", "pause")
        for direction in ("rx", "tx")
    },
}

_SUFFIXES = {
    "_bytes": "bytes",
    "_pkts": "packets",
    "_packets": "packets",
    "_ms": "ms",
    "_ns": "ns",
    "_us": "µs",
    "_s": "s",
    "_bps": "bit/s",
    "_percent": "%",
}


def units_of_key(key: str) -> str:
    """The unit of a value by its key.

    >>> units_of_key("tcp_cwnd"), units_of_key("backlog_bytes"), units_of_key("load")
    ('packets', 'bytes', '')
    """
    last = key.rpartition("::")[2]
    if last in KNOWN_UNITS:
        return KNOWN_UNITS[last]
    return next((unit for suffix, unit in _SUFFIXES.items() if last.endswith(suffix)), "")
