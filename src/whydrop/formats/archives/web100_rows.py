"""Web100's variables (Mathis, Heffner, Reddy: Web100, CCR 33(3), 2003; RFC 4898) as rows of the tables tcp and ndt."""

from __future__ import annotations

from typing import Any

import polars as pl

from whydrop.formats.archives.columns import LARGEST, scaled, tcp_rows
from whydrop.formats.archives.companions import Companion
from whydrop.formats.archives.names import Host, host, ndt_file, plain
from whydrop.formats.archives.web100 import COUNTER32, Snaplog
from whydrop.store.tables import NDT

# Columns of ``tcp`` and the variables that they are. Round-trip times are in ms, the SndLimTimes in µs (whatever the
# specification says: their sum is the connection's duration in µs).
_MS, _US = 10**6, 10**3
_COUNTERS = {
    "acked_bytes": "ThruBytesAcked", "received_bytes": "ThruBytesReceived", "sent_bytes": "DataBytesOut",
    "sent_segments": "PktsOut", "sent_data_segments": "DataPktsOut", "received_segments": "PktsIn",
    "retransmitted_segments": "PktsRetrans", "retransmitted_bytes": "BytesRetrans", "sum_rtt_ns": "SumRTT",
    "count_rtt": "CountRTT", "receiver_limited_ns": "SndLimTimeRwin", "congestion_limited_ns": "SndLimTimeCwnd",
    "sender_limited_ns": "SndLimTimeSender", "congestion_signals": "CongestionSignals",
    "congestion_over_count": "CongestionOverCount", "fast_retransmits": "FastRetran", "timeouts": "Timeouts",
    "subsequent_timeouts": "SubsequentTimeouts", "abrupt_timeouts": "AbruptTimeouts",
    "other_reductions": "OtherReductions", "send_stalls": "SendStall", "slow_start_increases": "SlowStart",
    "congestion_avoidance_increases": "CongAvoid", "duplicate_acks": "DupAcksIn", "ece_received": "ECERcvd",
    "quenches_received": "QuenchRcvd", "duplicate_sacks": "DSACKDups",
}  # fmt: skip
_GAUGES = {
    "congestion_window_bytes": "CurCwnd", "slow_start_threshold_bytes": "CurSsthresh",
    "max_congestion_window_bytes": "MaxCwnd", "mss_bytes": "CurMSS", "receive_window_bytes": "CurRwinRcvd",
    "srtt_ns": "SmoothedRTT", "rtt_variation_ns": "RTTVar", "sample_rtt_ns": "SampleRTT", "min_rtt_ns": "MinRTT",
    "max_rtt_ns": "MaxRTT", "retransmission_timeout_ns": "CurRTO", "current_timeout_count": "CurTimeoutCount",
    "not_sent_bytes": "CurAppWQueue", "send_buffer_bytes": "X_Sndbuf",
}  # fmt: skip
_OTHERS = ("State", "Duration", "StartTimeSec", "StartTimeUsec")
VARIABLES = tuple(dict.fromkeys((*_COUNTERS.values(), *_GAUGES.values(), *_OTHERS)))

# Without a sample of the round-trip time, these are no measurements.
_OF_RTT = {"srtt_ns", "rtt_variation_ns", "sample_rtt_ns", "min_rtt_ns", "max_rtt_ns"}
_NO_RTT = 0xFFFFFFFF  # MinRTT before the first sample
# Linux begins with an infinite threshold, 0x7fffffff segments; times the MSS it overflows to 2^32 - MSS. No window can
# be larger than 2^30 bytes (RFC 7323), so what is beyond 2^31 is this.
_NO_THRESHOLD = 1 << 31

# States as the MIB numbers them (RFC 4022), which web100 follows.
STATES = (
    "CLOSED", "LISTEN", "SYN-SENT", "SYN-RECEIVED", "ESTABLISHED", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSE-WAIT",
    "LAST-ACK", "CLOSING", "TIME-WAIT", "CLOSED",
)  # fmt: skip

# M-Lab's tables hold the record of this index as a test's last, where there are more.
MLAB_LAST_INDEX = 2800


def signals_meaning(kernel: str | None) -> str:
    """The meaning of ``congestion_signals`` in a kernel, in words: the two that M-Lab ran differ.

    >>> signals_meaning("2.5.27 201001301335 net100")
    'fast retransmits and other losses, without timeouts'
    """
    if kernel and kernel.startswith("2.5.17"):
        return "fast retransmits, other losses, and timeouts"
    if kernel and kernel.startswith("2.5.27"):
        return "fast retransmits and other losses, without timeouts"
    return "not known for this kernel: it may or may not count timeouts"


def columns() -> list[pl.Expr]:
    """Expressions over a frame of `VARIABLES` (all ``Int64``), one for each column of ``tcp`` that web100 reports."""
    elapsed, second = scaled(pl.col("Duration"), _US), pl.col("StartTimeSec")
    moment = second * 10**9 + pl.col("StartTimeUsec").fill_null(0) % 10**6 * _US + elapsed
    # So that the sum stays within 64 bits.
    is_known = second.is_between(1, LARGEST // 2 // 10**9) & (elapsed < LARGEST // 4)
    return [
        *(scaled(pl.col(variable), _factor(column)).alias(column) for column, variable in _COUNTERS.items()),
        *(
            scaled(_measured(column, pl.col(variable)), _factor(column)).alias(column)
            for column, variable in _GAUGES.items()
        ),
        pl.col("State").replace_strict(dict(enumerate(STATES, 1)), default=None, return_dtype=pl.String).alias("state"),
        elapsed.alias("elapsed_ns"),
        pl.when(is_known).then(moment).alias("time_ns"),
    ]


def _factor(column: str) -> int:
    return 1 if not column.endswith("_ns") else _US if column.endswith("limited_ns") else _MS


def _measured(column: str, gauge: pl.Expr) -> pl.Expr:
    """A gauge where it was measured, null elsewhere."""
    if column in _OF_RTT:
        return pl.when((gauge != _NO_RTT) & (pl.col("CountRTT").fill_null(1) > 0)).then(gauge)
    if column == "retransmission_timeout_ns":
        return pl.when(gauge > 0).then(gauge)
    return pl.when(gauge < _NO_THRESHOLD).then(gauge) if column == "slow_start_threshold_bytes" else gauge


def of_snaplog(log: Snaplog, name: str, of: Host | None) -> pl.DataFrame:
    """A snaplog's records as rows of ``tcp``. ``name``: of its file; ``of``: the server, where it is known."""
    numbers = pl.DataFrame({name: _numbers(log, name) for name in (*VARIABLES, "SndNxt", "SndUna")})
    # Sequence numbers of 32 bits. The opposite holds for a moment, while a timeout goes back to the first
    # unacknowledged byte.
    flight = (pl.col("SndNxt") - pl.col("SndUna")) % (1 << 32)
    wrapping = (name for name in _COUNTERS.values() if log.types.get(name) == COUNTER32)
    frame = numbers.with_columns(_unwrapped(pl.col(name)) for name in wrapping).select(
        *columns(), pl.when(flight < 1 << 31).then(flight).alias("flight_bytes")
    )
    return tcp_rows(
        frame, "web100", of, test_id=plain(name), kernel=log.kernel, local_address=log.address("LocalAddress"),
        local_port=log.local_port, remote_address=log.address("RemAddress"), remote_port=log.remote_port,
    )  # fmt: skip


def _numbers(log: Snaplog, variable: str) -> pl.Series:
    """A variable's values; null where the header does not list it, or as something else than a number."""
    values = log.records[variable] if variable in log.types else None
    if values is None or values.ndim != 1 or values.dtype.kind not in "iu":
        return pl.Series([None] * len(log.records), dtype=pl.Int64)
    return pl.Series(values.astype(values.dtype.newbyteorder("="))).cast(pl.Int64, strict=False)


def _unwrapped(counter: pl.Expr) -> pl.Expr:
    """A counter of 32 bits without its wraps, from its first value on.

    A step down of more than half the range is a wrap. A smaller one may be damage, and stays.
    """
    wraps = (counter.diff() < -(1 << 31)).fill_null(value=False)
    return counter + wraps.cast(pl.Int64).cum_sum() * (1 << 32)


def ndt_row(
    log: Snaplog, rows: pl.DataFrame, name: str, companion: Companion | None, of: Host | None, last: int | None = None
) -> dict[str, Any] | None:
    """The test as a row of ``ndt``, made of its last record; None where there is none.

    Args:
        log: the snaplog.
        rows: of `tcp_rows`.
        name: of the file: it has the time and the direction.
        companion: what the test's ``.meta`` says.
        of: the server as the archive is named.
        last: the largest index of a record that may be the last (M-Lab's tables: `MLAB_LAST_INDEX`).
    """
    if rows.is_empty():
        return None
    end = rows.row(min(rows.height - 1, rows.height - 1 if last is None else last), named=True)
    test = ndt_file(name)
    named = host(companion.server) if companion and companion.server else None
    server = named or of
    duration = end["elapsed_ns"]
    # All columns of that name, and further ones.
    return {key: end[key] for key in NDT if key in end} | {
        "time_ns": test.time_ns if test else log.log_time_s * 10**9,
        "start_ns": end["time_ns"] - duration if duration is not None and end["time_ns"] is not None else None,
        "end_ns": end["time_ns"],
        "protocol": "web100",
        "direction": test.direction if test else None,
        "metro": server.metro if server else None,
        "server": companion.server if companion and companion.server else (of.name if of else None),
        "duration_ns": duration,
        "mean_rtt_ns": end["sum_rtt_ns"] // end["count_rtt"] if end["count_rtt"] and end["sum_rtt_ns"] else None,
        "mean_throughput_bps": companion.mean_throughput_bps if companion else None,
    }
