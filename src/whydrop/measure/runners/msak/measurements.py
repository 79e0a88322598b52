"""Measurements as MSAK's servers write them: bytes, the time since the start, and the kernel's ``tcp_info``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

# Fields of M-Lab's JSON of tcp_info, columns of the table, and factors to their units: microseconds become nanoseconds,
# bytes a second bit/s.
_COLUMNS: dict[str, tuple[str, int]] = {
    "SndCwnd": ("congestion_window_packets", 1),
    "SndSsThresh": ("slow_start_threshold_packets", 1),
    "RTT": ("srtt_ns", 1000),
    "RTTVar": ("rtt_variation_ns", 1000),
    "MinRTT": ("min_rtt_ns", 1000),
    "SndMSS": ("mss_bytes", 1),
    "Unacked": ("unacked_packets", 1),
    "Lost": ("lost_packets", 1),
    "TotalRetrans": ("retransmitted_packets", 1),
    "BytesRetrans": ("retransmitted_bytes", 1),
    "BytesAcked": ("acked_bytes", 1),
    "Delivered": ("delivered_packets", 1),
    "DeliveredCE": ("delivered_ce_packets", 1),
    "DeliveryRate": ("delivery_rate_bps", 8),
    "PacingRate": ("pacing_rate_bps", 8),
    "BusyTime": ("busy_ns", 1000),
    "RWndLimited": ("receive_window_limited_ns", 1000),
    "SndBufLimited": ("send_buffer_limited_ns", 1000),
    "NotsentBytes": ("not_sent_bytes", 1),
    "Reordering": ("reordering_packets", 1),
    "BytesReceived": ("received_bytes", 1),
    "BytesSent": ("sent_bytes", 1),
    "SegsOut": ("sent_packets", 1),
    "SegsIn": ("received_packets", 1),
}
# "Not known yet" of the kernel: of a threshold, and of a smallest round-trip time.
_UNKNOWN = {"SndSsThresh": 0x7FFFFFFF, "MinRTT": 0xFFFFFFFF}
_MOST = 1 << 60


@dataclass(frozen=True)
class Measurement:
    """One measurement of the other end.

    Attributes:
        elapsed_ns: since its start; ``None``: unknown.
        received_bytes: payload of messages that it received.
        tcp_info: columns of the table of that name.
        about: what is said once: congestion control, the connection's identity.
    """

    elapsed_ns: int | None
    received_bytes: int | None
    tcp_info: dict[str, int]
    about: dict[str, str] = field(default_factory=dict)


def measurement(text: bytes) -> Measurement | None:
    """A measurement from its message; ``None`` if it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return of_object(found) if isinstance(found, dict) else None


def of_object(found: dict[str, Any]) -> Measurement:
    """A measurement from its object."""
    elapsed_us = _whole(found.get("ElapsedTime"))
    application = found.get("Application")
    received = _whole(application.get("BytesReceived", 0)) if isinstance(application, dict) else None
    info = found.get("TCPInfo")
    about = {key: str(found[key])[:200] for key in ("CC", "UUID", "LocalAddr", "RemoteAddr") if found.get(key)}
    elapsed_ns = None if elapsed_us is None else elapsed_us * 1000
    return Measurement(elapsed_ns, received, columns(info) if isinstance(info, dict) else {}, about)


def columns(info: dict[str, Any]) -> dict[str, int]:
    """Columns of ``tcp_info``; those that it lacks, or does not know yet, are left out."""
    known: dict[str, int] = {}
    for name, (column, factor) in _COLUMNS.items():
        value = _whole(info.get(name))
        if value is not None and value != _UNKNOWN.get(name):
            known[column] = value * factor
    return known


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        return None
    return value
