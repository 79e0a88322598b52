"""The fields of iperf3's JSON as rows of tables: shared by runs of iperf3 and by files of earlier runs."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any

from whydrop.formats.files import number, rounded
from whydrop.formats.iperf3.ends import as_object

Object = dict[str, Any]

_NS = 1_000_000_000


def started_ns(start: Object) -> int | None:
    """The time of day at which a run began, by its start section; ``None`` where it has none.

    >>> started_ns({"timestamp": {"timesecs": 5, "timemillisecs": 5250}}), started_ns({})
    (5250000000, None)
    """
    stamp = as_object(start.get("timestamp"))
    millis = number(stamp.get("timemillisecs")) or number(stamp.get("timemillis"))
    known = rounded(millis, 1e6) if millis else rounded(number(stamp.get("timesecs")), 1e9)
    if known:
        return known
    try:
        moment = parsedate_to_datetime(str(stamp.get("time") or ""))
    except (TypeError, ValueError):
        return None
    return int(moment.timestamp()) * _NS


def segment_bytes(start: Object) -> float | None:
    """The segment size of a TCP run, by its start section."""
    return number(start.get("tcp_mss") or start.get("tcp_mss_default"))


def interval(flow: int, start_ns: int, end_ns: int, *counted: Object) -> Object:
    """A row of ``intervals`` from one count, or from those of both directions together."""
    sizes = [size for one in counted if (size := number(one.get("bytes"))) is not None]
    rates = [rate for one in counted if (rate := number(one.get("bits_per_second"))) is not None]
    received = counted[0] if len(counted) == 1 else {}
    lost, packets = number(received.get("lost_packets")), number(received.get("packets"))
    # The receiver counts by sequence numbers: lost packets are among them.
    arrived = packets - lost if packets is not None and lost is not None else None
    return {
        "flow": flow,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "payload_bytes": rounded(sum(sizes)) if sizes else None,
        "goodput_bps": sum(rates) if rates else None,
        "packets": rounded(arrived),
        "lost": rounded(lost) if arrived is not None else None,
        "jitter_ns": rounded(number(received.get("jitter_ms")), 1e6),
    }


def tcp_info(flow: int, time_ns: int, stream: Object, mss: float | None, retransmitted: int | None) -> Object:
    """A row of ``tcp_info`` from one stream of the sender; ``retransmitted``: all segments so far."""
    window = number(stream.get("snd_cwnd"))
    return {
        "flow": flow,
        "time_ns": time_ns,
        "congestion_window_packets": rounded(window, 1 / mss) if window is not None and mss else None,
        # 0 means unknown: UDP, or an old version.
        "srtt_ns": rounded(number(stream.get("rtt")) or None, 1e3),
        "rtt_variation_ns": rounded(number(stream.get("rttvar")) or None, 1e3),
        "reordering_packets": rounded(number(stream.get("reorder"))),
        "mss_bytes": rounded(mss),
        "retransmitted_packets": retransmitted,
    }
