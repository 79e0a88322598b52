"""The setting of a prediction that no capture has: a path as a user describes it, and one sender over it."""

from __future__ import annotations

from typing import Any

from whydrop.emulating.setting import PathError, Setting

Json = dict[str, Any]

# IPv4, and TCP with timestamps.
_HEADER_BYTES = 52
_DURATION_NS = 10_000_000_000


def setting_of(described: Setting, control: str = "cubic") -> Json:
    """One download of 10 s over a path.

    Raises:
        PathError: the description has no round trip.
    """
    if described.rtt_s is None:
        raise PathError(f'{described.place}rtt: expected the round trip of the path, such as rtt = "40ms"')
    flow = {
        "start_ns": 0,
        "extra_rtt_ns": 0,
        "control": control,
        "mss_bytes": (described.mtu_bytes or 1500) - _HEADER_BYTES,
        "header_bytes": _HEADER_BYTES,
        "receive_window_bytes": None,
        "send_buffer_bytes": None,
        "segments_per_ack": 2,
        "pace_bps": None,
        "ecn": False,
        "sack": True,
        "load": "full",
    }
    round_trip_ns = round(described.rtt_s * 1e9)
    return {
        "path": described.path,
        "line_bps": None,
        "round_trip_ns": round_trip_ns,
        "duration_ns": _DURATION_NS,
        "flows": [flow],
    }
