"""From samples of TCP's statistics to connections, as one Ibis expression: written once for every engine.

Counters are since a connection began. What a connection did is their growth from its first sample to its last; of a
connection with one sample alone (SideStream) it is what they say, over the time since it began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

    import ibis.expr.types as ir

    from whydrop.store.engines import Backend

# The identity of a connection. A test's name distinguishes connections of one port.
KEY = ("test_id", "local_port", "remote_address", "remote_port")
# Counters, by the name of their growth.
_GROWN = {
    "acked_bytes": "acked_bytes",
    "received_bytes": "received_bytes",
    "segments": "sent_segments",
    "retransmitted": "retransmitted_segments",
    "receive_window_ns": "receiver_limited_ns",
    "send_buffer_ns": "send_buffer_limited_ns",
    "busy_ns": "busy_ns",
    "congestion_ns": "congestion_limited_ns",
    "sender_ns": "sender_limited_ns",
}


def connections(backend: Backend, first: date | None = None, last: date | None = None) -> ir.Table:
    """One row for each connection of the UTC days ``first`` to ``last``, both included.

    Columns: `KEY`, ``site``, ``start_ns`` (since the epoch; null if only the time since the start is known),
    ``samples``, ``span_ns`` (0: nothing is known of its time), the growth of counters (``acked_bytes``,
    ``received_bytes``, ``segments``, ``retransmitted``) and of clocks (``receive_window_ns``, ``send_buffer_ns``,
    ``busy_ns``, ``congestion_ns``, ``sender_ns``), ``min_rtt_ns``, ``mean_rtt_ns`` (of the smoothed round-trip times),
    ``timeouts``.
    """
    import ibis

    samples = backend.table("tcp", first, last)
    since = samples.elapsed_ns.coalesce(samples.time_ns)
    ends = {f"{name}_{end}": getattr(samples[column], end)() for name, column in _GROWN.items() for end in _ENDS}
    each = samples.group_by(*KEY).agg(
        site=samples.site.arbitrary(),
        # A sample's time is when it was taken: the only one of SideStream at the connection's end.
        start_ns=(samples.time_ns - samples.elapsed_ns.fill_null(0)).min(),
        samples=samples.count(),
        since_min=since.min(),
        since_max=since.max(),
        elapsed_ns=samples.elapsed_ns.max(),
        min_rtt_ns=samples.min_rtt_ns.min(),
        srtt_ns=samples.srtt_ns.sum(),
        rtts=samples.srtt_ns.count(),
        timeouts=samples.timeouts.max(),
        **ends,
    )
    span = each.since_max - each.since_min
    whole = span > 0
    growth = {
        name: whole.ifelse(each[f"{name}_max"] - each[f"{name}_min"], each[f"{name}_max"]).name(name) for name in _GROWN
    }
    mean_rtt = (each.rtts > 0).ifelse(each.srtt_ns / each.rtts.nullif(0).cast("float64"), ibis.null("float64"))
    return each.select(
        *KEY, "site", "start_ns", "samples",
        span_ns=whole.ifelse(span, each.elapsed_ns.fill_null(0)),
        **growth,
        min_rtt_ns=each.min_rtt_ns,
        mean_rtt_ns=mean_rtt,
        timeouts=each.timeouts,
    )  # fmt: skip


_ENDS = ("min", "max")
