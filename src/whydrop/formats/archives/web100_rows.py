"""Web100's variables (Mathis, Heffner, Reddy: Web100, CCR 33(3), 2003; RFC 4898) as rows of the tables tcp and ndt."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from whydrop.formats.archives.companions import Companion
from whydrop.formats.archives.names import Host, host, ndt_file, plain
from whydrop.formats.archives.quantities import LARGEST, column, unwrapped
from whydrop.formats.archives.web100 import COUNTER32, Snaplog
from whydrop.store.tables import conform

# Column, web100's variable, factor to the column's unit. Round-trip times are in ms, the SndLimTimes in µs (whatever
# the specification says: their sum is the connection's duration in µs).
_MS, _US = 10**6, 10**3
COUNTERS: tuple[tuple[str, str, int], ...] = (
    ("acked_bytes", "ThruBytesAcked", 1),
    ("received_bytes", "ThruBytesReceived", 1),
    ("sent_bytes", "DataBytesOut", 1),
    ("sent_segments", "PktsOut", 1),
    ("sent_data_segments", "DataPktsOut", 1),
    ("received_segments", "PktsIn", 1),
    ("retransmitted_segments", "PktsRetrans", 1),
    ("retransmitted_bytes", "BytesRetrans", 1),
    ("sum_rtt_ns", "SumRTT", _MS),
    ("count_rtt", "CountRTT", 1),
    ("receiver_limited_ns", "SndLimTimeRwin", _US),
    ("congestion_limited_ns", "SndLimTimeCwnd", _US),
    ("sender_limited_ns", "SndLimTimeSender", _US),
    ("congestion_signals", "CongestionSignals", 1),
    ("congestion_over_count", "CongestionOverCount", 1),
    ("fast_retransmits", "FastRetran", 1),
    ("timeouts", "Timeouts", 1),
    ("subsequent_timeouts", "SubsequentTimeouts", 1),
    ("abrupt_timeouts", "AbruptTimeouts", 1),
    ("other_reductions", "OtherReductions", 1),
    ("send_stalls", "SendStall", 1),
    ("slow_start_increases", "SlowStart", 1),
    ("congestion_avoidance_increases", "CongAvoid", 1),
    ("duplicate_acks", "DupAcksIn", 1),
    ("ece_received", "ECERcvd", 1),
    ("quenches_received", "QuenchRcvd", 1),
    ("duplicate_sacks", "DSACKDups", 1),
)
GAUGES: tuple[tuple[str, str, int], ...] = (
    ("congestion_window_bytes", "CurCwnd", 1),
    ("slow_start_threshold_bytes", "CurSsthresh", 1),
    ("max_congestion_window_bytes", "MaxCwnd", 1),
    ("mss_bytes", "CurMSS", 1),
    ("receive_window_bytes", "CurRwinRcvd", 1),
    ("srtt_ns", "SmoothedRTT", _MS),
    ("rtt_variation_ns", "RTTVar", _MS),
    ("sample_rtt_ns", "SampleRTT", _MS),
    ("min_rtt_ns", "MinRTT", _MS),
    ("max_rtt_ns", "MaxRTT", _MS),
    ("retransmission_timeout_ns", "CurRTO", _MS),
    ("current_timeout_count", "CurTimeoutCount", 1),
    ("not_sent_bytes", "CurAppWQueue", 1),
    ("send_buffer_bytes", "X_Sndbuf", 1),
)
# Without a sample of the round-trip time, these are no measurements.
OF_RTT = {"srtt_ns", "rtt_variation_ns", "sample_rtt_ns", "min_rtt_ns", "max_rtt_ns"}
NO_RTT = 0xFFFFFFFF  # MinRTT before the first sample
# Linux begins with an infinite threshold, 0x7fffffff segments; times the MSS it overflows to 2^32 - MSS. No window can
# be larger than 2^30 bytes (RFC 7323), so what is beyond 2^31 is this.
NO_THRESHOLD = 1 << 31

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


def tcp_rows(log: Snaplog, name: str, of: Host | None) -> pl.DataFrame:
    """A snaplog's records as rows of ``tcp``. ``name``: of its file; ``of``: the server, where it is known."""
    columns = _times(log) | _counters(log) | _gauges(log) | _flight(log)
    if (states := _numbers(log, "State")) is not None:
        columns["state"] = pl.Series([state(int(each)) for each in states], dtype=pl.String)
    constants = {
        "test_id": plain(name),
        "source": "web100",
        "kernel": log.kernel,
        "machine": of.machine if of else None,
        "site": of.site if of else None,
        "local_address": log.address("LocalAddress"),
        "local_port": log.local_port,
        "remote_address": log.address("RemAddress"),
        "remote_port": log.remote_port,
    }
    frame = pl.DataFrame(columns)
    return conform("tcp", frame.with_columns(pl.lit(value).alias(key) for key, value in constants.items()))


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
    same = (
        "test_id", "machine", "site", "kernel", "local_address", "local_port", "remote_address", "remote_port",
        "acked_bytes", "received_bytes", "sent_segments", "retransmitted_segments", "retransmitted_bytes",
        "receiver_limited_ns", "congestion_limited_ns", "sender_limited_ns", "congestion_signals", "timeouts",
        "min_rtt_ns",
    )  # fmt: skip
    return {key: end[key] for key in same} | {
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


def _counters(log: Snaplog) -> dict[str, pl.Series]:
    columns = {}
    for target, variable, factor in COUNTERS:
        if (values := _numbers(log, variable)) is not None:
            if log.types[variable] == COUNTER32:
                values = unwrapped(values)
            columns[target] = column(values, factor, values >= 0)
    return columns


def _gauges(log: Snaplog) -> dict[str, pl.Series]:
    count = _numbers(log, "CountRTT")
    columns = {}
    for target, variable, factor in GAUGES:
        if (values := _numbers(log, variable)) is None:
            continue
        valid = values >= 0
        if target in OF_RTT:
            valid = valid & (values != NO_RTT) & (True if count is None else count > 0)
        elif target == "retransmission_timeout_ns":
            valid = values > 0
        elif target == "slow_start_threshold_bytes":
            valid = valid & (values < NO_THRESHOLD)
        columns[target] = column(values, factor, valid)
    return columns


def _flight(log: Snaplog) -> dict[str, pl.Series]:
    """The bytes sent and not acknowledged, by sequence numbers of 32 bits."""
    sent, acknowledged = _numbers(log, "SndNxt"), _numbers(log, "SndUna")
    if sent is None or acknowledged is None:
        return {}
    flight = (sent.astype(np.int64) - acknowledged.astype(np.int64)) % (1 << 32)
    # The opposite holds for a moment, while a timeout goes back to the first unacknowledged byte.
    return {"flight_bytes": column(flight, 1, flight < 1 << 31)}


def _times(log: Snaplog) -> dict[str, pl.Series]:
    """Duration since the connection began, and with it the time of each record."""
    duration, seconds = _numbers(log, "Duration"), _numbers(log, "StartTimeSec")
    if duration is None:
        return {"elapsed_ns": pl.Series([None] * len(log.records), dtype=pl.Int64)}
    columns = {"elapsed_ns": column(duration, _US)}
    if seconds is None:
        return columns
    micro = _numbers(log, "StartTimeUsec")
    start = seconds.astype(np.int64) * 10**9 + (0 if micro is None else micro.astype(np.int64) * _US)
    known = (seconds > 0) & (duration < (LARGEST - 2**62) // _US)
    columns["time_ns"] = column(start + np.where(known, duration, 0).astype(np.int64) * _US, 1, known)
    return columns


def _numbers(log: Snaplog, variable: str) -> Any:
    """A variable's values; None where the header does not list it, or as something else than a number."""
    if variable not in log.types:
        return None
    values = log.records[variable]
    return values if values.ndim == 1 and values.dtype.kind in "iu" else None


def state(number: int) -> str | None:
    """The name of a connection's state; None where web100 knows none of that number."""
    return STATES[number - 1] if 1 <= number <= len(STATES) else None
