"""The tables of a recording: their columns, types and units.

Every time is ``int64`` nanoseconds since the Unix epoch, UTC, in the local host's clock. A table that a recording has
nothing for is absent. A null is a value that the source does not report.
"""

from __future__ import annotations

import polars as pl

Schema = dict[str, pl.DataType]

_I64, _I32, _F64, _TEXT, _BOOL = pl.Int64(), pl.Int32(), pl.Float64(), pl.String(), pl.Boolean()

# One row for each flow, probe stream, or other series of measurements.
FLOWS: Schema = {
    "flow": _I32,  # number, unique in the recording; the other tables refer to it
    "name": _TEXT,  # unique; what people read, such as "TCP upload CS1"
    # tcp, udp (a one-way stream), probe (isochronous UDP), icmp, http, burst, value (anything else with a unit)
    "kind": _TEXT,
    "direction": _TEXT,  # up (from here), down (to here), both
    "runner": _TEXT,  # engine, or the program that measured: iperf3, ping, irtt, ...
    "host": _TEXT,  # as the user named it
    "address": _TEXT,  # as it was resolved
    "ip_version": _I32,
    "dscp": _I32,  # 0 to 63
    "congestion_control": _TEXT,  # as the kernel of the sender reported it
    "units": _TEXT,  # of kind value: the unit of its values
    "start_ns": _I64,
    "end_ns": _I64,
    "payload_bytes": _I64,  # received, in all
    "status": _TEXT,  # complete, stopped, failed, no-data
    "message": _TEXT,  # of a failed flow: why
    "settings": _TEXT,  # JSON: everything that was asked for
    "facts": _TEXT,  # JSON: everything else that the runner reported once (versions, MSS, command line)
}

# What arrived at the receiver of a tcp or udp flow in one interval.
INTERVALS: Schema = {
    "flow": _I32,
    "start_ns": _I64,
    "end_ns": _I64,
    "payload_bytes": _I64,
    "goodput_bps": _F64,  # payload_bytes * 8 / (end - start), or as the other program said it
    "packets": _I64,  # udp: received in order of counting, duplicates left out
    "lost": _I64,  # udp: missing by sequence number; late arrivals are subtracted in a later interval (negative)
    "reordered": _I64,  # udp: arrived behind a later one
    "delay_ns": _I64,  # udp: mean one-way delay, corrected by the clock offset
    "jitter_ns": _I64,  # udp: mean |difference of successive one-way delays|
}

# The sender's TCP_INFO (linux/tcp.h), as its kernel reports it for the flow's socket. Counters are since the connection
# began. A value that a kernel or another program does not report is null.
TCP_INFO: Schema = {
    "flow": _I32,
    "time_ns": _I64,
    "congestion_window_packets": _I64,
    "slow_start_threshold_packets": _I64,
    "srtt_ns": _I64,
    "rtt_variation_ns": _I64,
    "min_rtt_ns": _I64,
    "mss_bytes": _I64,
    "unacked_packets": _I64,
    "lost_packets": _I64,
    "retransmitted_packets": _I64,
    "retransmitted_bytes": _I64,
    "acked_bytes": _I64,
    "delivered_packets": _I64,
    "delivered_ce_packets": _I64,
    "delivery_rate_bps": _F64,
    "pacing_rate_bps": _F64,
    "busy_ns": _I64,
    "receive_window_limited_ns": _I64,
    "send_buffer_limited_ns": _I64,
    "not_sent_bytes": _I64,
    "reordering_packets": _I64,
    "state": _TEXT,  # of RFC 9293: established, fin-wait-1, close-wait, closed, ...
    "congestion_state": _TEXT,  # of Linux: open, disorder, reduced (by ECN or locally), recovery, loss (a timeout)
    "sacked_packets": _I64,
    "in_retransmission_packets": _I64,  # retransmitted and not yet acknowledged
    "timeouts_in_a_row": _I64,
    "probes_in_a_row": _I64,  # of a zero window, or keepalive, that were not answered
    "backoff": _I64,  # how often the timeout was doubled
    "timeout_ns": _I64,  # RTO
    "path_mtu_bytes": _I64,
    "receive_mss_bytes": _I64,
    "since_data_sent_ns": _I64,
    "since_data_received_ns": _I64,
    "since_ack_received_ns": _I64,
    "receive_rtt_ns": _I64,  # as the receiving end estimates it
    "receive_space_bytes": _I64,  # what the application took in one round trip, for the kernel's buffer tuning
    "max_pacing_rate_bps": _F64,  # null: none is set
    "delivery_rate_app_limited": _BOOL,  # the delivery rate is what the application sent, and not what the path takes
    "received_bytes": _I64,  # in order, from the other end; its FIN is one
    "sent_bytes": _I64,  # payload, retransmissions counted again
    "sent_packets": _I64,
    "received_packets": _I64,
    "sent_data_packets": _I64,
    "received_data_packets": _I64,
    "duplicate_sacks": _I64,  # D-SACK (RFC 2883): retransmissions that were not needed
    "reordering_seen": _I64,  # events
    "out_of_order_packets": _I64,  # received
    "send_window_bytes": _I64,  # what the other end lets this one send (its receive window)
    "receive_window_bytes": _I64,  # what this end lets the other one send
    "rehashed": _I64,  # how often another path was tried, by another hash of the flow
    "timeouts": _I64,
    "timeout_recoveries": _I64,
    "timeout_recovery_ns": _I64,  # time spent in them
    "received_ce_packets": _I64,  # that came with a congestion mark
    "receive_queue_bytes": _I64,  # that the application has not read
    "send_queue_bytes": _I64,  # that were not acknowledged
    "receive_memory_bytes": _I64,  # kernel memory, with its overhead, and the most that it may be
    "receive_buffer_bytes": _I64,
    "send_memory_bytes": _I64,
    "send_buffer_bytes": _I64,
    "socket_drops": _I64,  # packets that the socket itself dropped
    # Counted by web100 (RFC 4898) and not by Linux: from imported files, or counted from the kernel's events since the
    # watch began (`whydrop watch --events`).
    "congestion_limited_ns": _I64,
    "sender_limited_ns": _I64,  # the application and the send buffer together
    "max_congestion_window_packets": _I64,
    "sample_rtt_ns": _I64,
    "max_rtt_ns": _I64,
    "sum_rtt_ns": _I64,  # of all samples
    "count_rtt": _I64,
    "congestion_signals": _I64,  # reductions of the window; some kernels count timeouts among them, others do not
    "congestion_over_count": _I64,  # signals that were undone
    "fast_retransmits": _I64,
    "subsequent_timeouts": _I64,
    "abrupt_timeouts": _I64,
    "other_reductions": _I64,
    "send_stalls": _I64,  # the host's own queue took no packet
    "slow_start_increases": _I64,
    "congestion_avoidance_increases": _I64,
    "duplicate_acks": _I64,
    "ece_received": _I64,
    "quenches_received": _I64,
}

# One row for each probe that was due (kinds probe and icmp).
PROBES: Schema = {
    "flow": _I32,
    "sequence": _I64,
    "scheduled_ns": _I64,
    "sent_ns": _I64,  # sent - scheduled is the sender's own timer error
    "received_ns": _I64,  # the answer's arrival; null if none came
    "rtt_ns": _I64,  # without the time that the probe spent in the far end
    "up_ns": _I64,  # one-way delays, corrected by the clock offset (table clocks has its uncertainty)
    "down_ns": _I64,
    # ok, late (answered after the timeout), lost-up, lost-down, lost (direction unknown), not-sent,
    # far-end (lost by the far end itself, or left without an answer by its limits: no loss of the path)
    "fate": _TEXT,
    "duplicates": _I32,  # answers beyond the first; of whydrop's own probes: made by the path down
    "reordered": _BOOL,  # answered behind a later one
    "payload_bytes": _I32,
}

# How far the far host's clock is ahead of ours.
CLOCKS: Schema = {
    "host": _TEXT,
    "time_ns": _I64,
    "offset_ns": _I64,
    "uncertainty_ns": _I64,  # what an asymmetric path could hide (half of the smallest round trip), and the drift
    "drift_ppm": _F64,
}

# Packets of bursts as the receiver saw them, with kernel timestamps.
BURSTS: Schema = {
    "flow": _I32,
    "burst": _I32,
    "sequence": _I64,
    "sent_ns": _I64,
    "received_ns": _I64,  # null: lost
    "payload_bytes": _I32,
    "marked": _BOOL,  # it came with Congestion Experienced set (RFC 3168)
}

# When packets of bursts left their sender: its kernel's stamps as it handed them to the interface.
DEPARTURES: Schema = {
    "flow": _I32,
    "sequence": _I64,
    "left_ns": _I64,
}

# HTTP fetches.
FETCHES: Schema = {
    "flow": _I32,
    "start_ns": _I64,
    "url": _TEXT,
    "duration_ns": _I64,
    "first_byte_ns": _I64,  # after the start
    "status": _I32,
    "payload_bytes": _I64,
    "error": _TEXT,
    "round": _I64,  # number of the round, in which each address of a list is fetched once: a page with its objects
    # Of fetches that opened a connection of their own and measured it; they are part of the duration.
    "tcp_ns": _I64,  # TCP handshake
    "tls_ns": _I64,  # TLS handshake
    "tls_round_trips": _I32,  # that the handshake of this version of TLS takes
}

# Counters of the hosts while the test ran, one row for each counter and time.
COUNTERS: Schema = {
    "time_ns": _I64,
    "host": _TEXT,
    "source": _TEXT,  # qdisc, interface, cpu, netstat, wifi, switch
    "object": _TEXT,  # such as "eth0 fq_codel 8001:", "eth0", "cpu0", "TcpExt"
    "counter": _TEXT,  # such as "dropped", "backlog_bytes", "idle_s"
    "value": _F64,
    "cumulative": _BOOL,  # counts up since some start, rather than being a level
}

# Values of flows of kind value, and of whatever else has no column elsewhere.
VALUES: Schema = {
    "flow": _I32,
    "time_ns": _I64,
    "key": _TEXT,  # empty: the flow's own value; else a further one, in the recording's series "NAME::key"
    "value": _F64,
}

# When this host's kernel was asked for its sockets, and what that cost.
POLLS: Schema = {
    "start_ns": _I64,
    "end_ns": _I64,
    "cpu_ns": _I64,  # processor time of the thread that asked
    "sockets": _I64,  # that the kernel reported
    "missed": _I64,  # polls that were due since the one before and were not made
    "interrupted": _BOOL,  # sockets came or went meanwhile: one may be missing
}

# Packets that this host's kernel dropped: one row for each interval (100 ms) and what they have in common.
DROPS: Schema = {
    "start_ns": _I64,
    "end_ns": _I64,
    "reason": _TEXT,  # as this kernel names it: NETFILTER_DROP, QDISC_DROP, ...
    "location": _TEXT,  # the kernel's function that dropped them
    "protocol": _TEXT,  # the innermost that is known: tcp, udp, icmp, ipv4, arp, ...
    "interface": _TEXT,  # that they were at
    "arrived_by": _TEXT,  # the interface by which they came; null: sent by this host, or unknown
    "source": _TEXT,  # address:port; null: unknown, or too many to list
    "destination": _TEXT,
    "packets": _I64,
    "bytes": _I64,
    "here": _BOOL,  # of the network namespace of the watch; null: unknown
}

# TCP segments that this host retransmitted, by interval and connection.
RETRANSMISSIONS: Schema = {
    "start_ns": _I64,
    "end_ns": _I64,
    "source": _TEXT,  # this end
    "destination": _TEXT,
    "packets": _I64,
    "payload_bytes": _I64,
    # Of the drop on this host that made them needed: before them, of the same connection, direction and bytes. Null:
    # not known, which is not to say that they were lost elsewhere.
    "reason": _TEXT,
    "location": _TEXT,
}

# Events of TCP in this host's kernel (`whydrop watch --events`): one row for each. "Before" is as of the last
# acknowledgment before the event, other values are those at the event.
TCP_EVENTS: Schema = {
    "flow": _I32,  # null: a connection that ended before it was listed
    "time_ns": _I64,
    "source": _TEXT,  # address:port of this end
    "destination": _TEXT,
    "cookie": _I64,  # the kernel's number of the socket; null: it had none yet
    # reduction (of the congestion window), undone (a reduction was reverted, because nothing had been lost), state
    # (the congestion state changed without a reduction), slow-start-end (HyStart, RFC 9406), retransmission,
    # local-drop (this host's own queue refused a segment)
    "event": _TEXT,
    # Of a reduction: fast-retransmit, timeout, ecn, local-queue, tail-loss-probe, path-mtu, application-limited (the
    # window was not used, or idle: RFC 2861, 7661), congestion-control (it sets its window by a model), unexplained
    "cause": _TEXT,
    "congestion_state_before": _TEXT,  # as in table tcp_info
    "congestion_state": _TEXT,
    "window_before_packets": _I64,
    # As reduction begins, it is often not reduced yet: a recovery approaches the threshold (RFC 6937).
    "window_packets": _I64,
    "threshold_before_packets": _I64,  # of slow start; null: there is none
    "threshold_packets": _I64,
    "unacked_packets": _I64,
    "sacked_packets": _I64,
    "lost_packets": _I64,  # presumed lost, and not acknowledged yet
    "retransmitted_packets": _I64,  # in all
    "srtt_ns": _I64,
    "mss_bytes": _I64,
    "timeouts_in_a_row": _I64,
    "sequence": _I64,  # of a retransmission: the sequence number of its first byte
    "payload_bytes": _I64,  # of a retransmission
    # Counts; those that the kernel itself does not keep begin with the watch.
    "duplicate_acks": _I64,
    "duplicate_acks_of_reordering": _I64,  # those in a disorder that ended without a retransmission
    "reordering_seen": _I64,
    "duplicate_sacks": _I64,
    "delivered_ce_packets": _I64,
}

# Series that another tool had put on a grid itself, kept beside the samples that it made them of.
GRIDS: Schema = {
    "name": _TEXT,  # of the series
    "time_s": _F64,  # since the start of the recording
    "value": _F64,  # in the units of the series; null in gaps
}

TABLES: dict[str, Schema] = {
    "flows": FLOWS,
    "intervals": INTERVALS,
    "tcp_info": TCP_INFO,
    "probes": PROBES,
    "clocks": CLOCKS,
    "bursts": BURSTS,
    "departures": DEPARTURES,
    "fetches": FETCHES,
    "counters": COUNTERS,
    "values": VALUES,
    "polls": POLLS,
    "drops": DROPS,
    "retransmissions": RETRANSMISSIONS,
    "tcp_events": TCP_EVENTS,
    "grids": GRIDS,
}


def empty(name: str) -> pl.DataFrame:
    """A table of this name without rows.

    >>> empty("clocks").columns[:2]
    ['host', 'time_ns']
    """
    return pl.DataFrame(schema=TABLES[name])


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with all columns of table ``name``, in order and of their types; those it lacks are null.

    Raises:
        KeyError: the frame has a column that the table has not.
    """
    return conform_to(TABLES[name], name, frame)


def conform_to(schema: Schema, name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """As `conform`, to the ``schema`` of a table that another module defines."""
    unknown = [column for column in frame.columns if column not in schema]
    if unknown:
        raise KeyError(f"table {name} has no column {', '.join(unknown)}")
    if not frame.columns:
        # Nulls alone, which have no length of their own, would make a row.
        return pl.DataFrame(schema=schema)
    return frame.select(
        pl.col(column).cast(kind) if column in frame.columns else pl.lit(None, dtype=kind).alias(column)
        for column, kind in schema.items()
    )
