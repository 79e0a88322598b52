"""The tables of a store: their columns, types, units and keys.

Every time is ``int64`` nanoseconds since the Unix epoch, UTC. Durations are nanoseconds too (``_ns``), sizes are bytes,
rates bit/s. What a source does not report is null, never zero. All types are shared
by DuckDB, Spark and BigQuery.

All tables have a further column ``day``, written as a folder's name: the UTC day (``2018-02-11``) of the table's time
column, as text.
"""

from __future__ import annotations

import polars as pl

from whydrop.recording.tables import Schema, conform_to
from whydrop.store import capture_tables, recording_tables
from whydrop.store.capture_tables import columns

_I64, _F64, _TEXT = pl.Int64(), pl.Float64(), pl.String()

# How a counter of a switch's port grew between two polls. A sample covers [end_ns - span_ns, end_ns).
# A poll that was missed has no row: the next one's span is longer.
COUNTERS: Schema = {
    "end_ns": _I64,  # when the counter was read (DISCO v1: the end of the window)
    "span_ns": _I64,  # since the sample before; null: unknown (the first of a file without a predecessor)
    "metro": _TEXT,  # group of sites, such as dfw
    "site": _TEXT,  # such as dfw07
    "switch": _TEXT,  # name of the switch; DISCO: s1.dfw07, however the file spells it
    "machine": _TEXT,  # the host behind the port, or the one that polled: mlab2. Null where there is none
    "port": _TEXT,  # uplink, local, or the name that the operator gave it
    # What is counted, and in which direction, seen from the switch: octets.rx, octets.tx, and the same with unicast,
    # multicast, broadcast, discards, errors, pause; queue.<n>.discards.tx for vendors' queues
    "counter": _TEXT,
    "value": _F64,  # growth in the span; null after a reset, and of a counter's first reading
    "total": _I64,  # the counter itself, as read; null where only growth was kept, or beyond 2^63 - 1
    "poll_start_ns": _I64,
    "poll_end_ns": _I64,
    # ok, or why it is not simply that, joined by "+" in this order: gap (polls before it were missed), wrap (the
    # counter's 32 bits were full in between), reset (it restarted: value is null), repaired (the file confused
    # two series, and these numbers show which is which), interpolated (not a whole number: RRD's average)
    "quality": _TEXT,
}

# Every poll of a switch that was due, made or not.
POLLS: Schema = {
    "due_ns": _I64,
    "start_ns": _I64,  # null: never begun
    "end_ns": _I64,
    "switch": _TEXT,
    "status": _TEXT,  # ok, timeout, refused, late (skipped: the one before was still going on), error
    "message": _TEXT,
}

# One test of a client's network with NDT (web100, 5 or 7): who, when, how much. One row for each direction.
NDT: Schema = {
    "time_ns": _I64,  # as the archive names the test: log_time of web100, the start for NDT5 and NDT7
    "start_ns": _I64,  # of the TCP connection's measurement
    "end_ns": _I64,
    "test_id": _TEXT,  # UUID, or the name of the file
    "protocol": _TEXT,  # web100, ndt5, ndt7, throughput1
    "direction": _TEXT,  # download (server to client), upload
    **columns(_TEXT, "metro site machine"),
    "server": _TEXT,  # host name as recorded
    "local_address": _TEXT,  # of the server
    "local_port": _I64,
    "remote_address": _TEXT,  # of the client
    "remote_port": _I64,
    "duration_ns": _I64,  # as the kernel or the test's own clock counted it
    "acked_bytes": _I64,  # payload that the client acknowledged
    "received_bytes": _I64,  # payload that the server received
    "sent_segments": _I64,  # with retransmissions
    "retransmitted_segments": _I64,
    "retransmitted_bytes": _I64,
    "receiver_limited_ns": _I64,  # what kept the server from sending: SndLimTimeRwin
    "congestion_limited_ns": _I64,  # SndLimTimeCwnd
    "sender_limited_ns": _I64,  # SndLimTimeSnd
    "congestion_signals": _I64,  # web100; kernel 2.5.17 counts timeouts among them, 2.5.27 does not
    **columns(_I64, "timeouts min_rtt_ns mean_rtt_ns"),
    "mean_throughput_bps": _F64,  # as the test itself reported it
    "kernel": _TEXT,  # web100's version, such as "2.5.27 201001301335 net100"
}

# TCP's own statistics while a test ran (web100 snaplogs, tcp-info, NDT7). Counters are since the connection began.
TCP: Schema = {
    "time_ns": _I64,  # null where the source has only the time since the start
    "elapsed_ns": _I64,  # since the connection began (web100: Duration; NDT7: ElapsedTime); null for tcp-info
    "test_id": _TEXT,  # as in ndt, where the source says
    "source": _TEXT,  # web100, tcp-info, ndt7, throughput1, sidestream, ss, tcpretrans, tcpdrop, watch
    **columns(_TEXT, "kernel machine site local_address"),
    "local_port": _I64,
    "remote_address": _TEXT,
    "remote_port": _I64,
    "state": _TEXT,  # ESTABLISHED, ...
    "congestion_state": _TEXT,  # of Linux: open, disorder, reduced (by ECN or locally), recovery, loss (a timeout)
    "acked_bytes": _I64,
    "received_bytes": _I64,
    "sent_bytes": _I64,  # payload, with retransmissions; web100: and with TCP's headers
    **columns(_I64, "sent_segments sent_data_segments received_segments retransmitted_segments retransmitted_bytes"),
    "lost_segments": _I64,  # Linux's present estimate, no counter
    "flight_bytes": _I64,  # sent and not acknowledged; Linux counts packets: times the MSS
    "congestion_window_bytes": _I64,  # Linux counts packets: times the MSS
    **columns(_I64, "slow_start_threshold_bytes max_congestion_window_bytes mss_bytes"),
    "receive_window_bytes": _I64,  # as the peer last announced it
    **columns(_I64, "srtt_ns rtt_variation_ns sample_rtt_ns min_rtt_ns max_rtt_ns"),
    "sum_rtt_ns": _I64,  # of all samples; wraps of 32 bits are undone
    **columns(_I64, "count_rtt retransmission_timeout_ns busy_ns"),
    "receiver_limited_ns": _I64,  # SndLimTimeRwin, tcpi_rwnd_limited
    "congestion_limited_ns": _I64,  # SndLimTimeCwnd
    "sender_limited_ns": _I64,  # SndLimTimeSnd
    "send_buffer_limited_ns": _I64,  # tcpi_sndbuf_limited
    **columns(_F64, "pacing_rate_bps delivery_rate_bps bbr_bandwidth_bps"),
    "bbr_min_rtt_ns": _I64,
    "congestion_control": _TEXT,
    "congestion_signals": _I64,  # web100; kernel 2.5.17 counts timeouts among them, 2.5.27 does not
    "congestion_over_count": _I64,  # signals that were undone
    **columns(
        _I64,
        "fast_retransmits timeouts subsequent_timeouts abrupt_timeouts current_timeout_count other_reductions "
        "send_stalls slow_start_increases congestion_avoidance_increases duplicate_acks ece_received "
        "quenches_received delivered_packets delivered_ce_packets reordering_seen not_sent_bytes",
    ),
    "send_buffer_bytes": _I64,  # kernel memory, with its overhead, that what waits to be acknowledged may take
    "max_pacing_rate_bps": _F64,  # null: none is set
    "delivery_rate_app_limited": pl.Boolean(),  # the delivery rate is what the application sent
    "duplicate_sacks": _I64,  # D-SACK (RFC 2883): retransmissions that were not needed
    "socket_drops": _I64,  # received packets that the socket itself dropped
}

TABLES: dict[str, Schema] = {
    "counters": COUNTERS,
    "polls": POLLS,
    "ndt": NDT,
    "tcp": TCP,
    **capture_tables.TABLES,
    **recording_tables.TABLES,
}

# The time column; its UTC day names the folder.
TIME: dict[str, str] = {
    "counters": "end_ns",
    "polls": "due_ns",
    **dict.fromkeys(("ndt", "tcp", *capture_tables.TABLES, *recording_tables.TABLES), "time_ns"),
}

# What makes a row the same row: another with this key is a duplicate, and one that differs elsewhere is in conflict.
KEYS: dict[str, tuple[str, ...]] = {
    "counters": ("site", "switch", "machine", "port", "counter", "end_ns"),
    "polls": ("switch", "due_ns"),
    # without the server's name, which a file outside its archive lacks; its address stands for it
    "ndt": ("time_ns", "direction", "local_address", "local_port", "remote_address", "remote_port"),
    "tcp": ("test_id", "source", "local_port", "remote_address", "remote_port", "time_ns", "elapsed_ns"),
    "captures": ("capture", "whydrop", "status"),  # a failed one may be tried again
    **dict.fromkeys(("flows", "transfers", "verdicts"), ("capture", "whydrop", "number")),
    **recording_tables.KEYS,
}

# Rows of a part are in this order, so that a query for one counter reads little of it.
ORDER: dict[str, tuple[str, ...]] = {
    "counters": ("counter", "port", "machine", "site", "switch", "end_ns"),
    "polls": ("switch", "due_ns"),
    "ndt": ("site", "machine", "time_ns"),
    "tcp": ("test_id", "time_ns", "elapsed_ns"),
    "captures": ("time_ns", "capture"),
    **dict.fromkeys(("flows", "transfers", "verdicts"), ("capture", "number")),
    **recording_tables.ORDER,
}


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with all columns of table ``name``, in order and of their types; those it lacks are null.

    Raises:
        KeyError: the frame has a column that the table has not.
    """
    return conform_to(TABLES[name], name, frame)
