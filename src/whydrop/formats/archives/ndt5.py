"""Results of NDT5 in JSON: upload and download with their speeds, and in later ones the last tcp_info.

https://github.com/m-lab/ndt-server, `ndt5/data`. Of the client's metadata (a list, or an object) nothing is kept: they
hold access tokens.
"""

from __future__ import annotations

import math
from typing import Any

from whydrop.formats.archives.names import Host
from whydrop.formats.archives.ndt7 import Row, common, fields, of_tcp_info
from whydrop.formats.archives.quantities import LARGEST, whole

DIRECTIONS = (("C2S", "upload"), ("S2C", "download"))


def is_ndt5(document: Any) -> bool:
    """True if a JSON document is a result of NDT5: with directions, or with the control connection alone."""
    return isinstance(document, dict) and any(isinstance(document.get(key), dict) for key in ("Control", "C2S", "S2C"))


def ndt_rows(document: dict[str, Any], name: str, of: Host | None) -> tuple[list[Row], int]:
    """The directions that were tested, as rows of ``ndt``; and how many of them ended with an error."""
    rows: list[Row] = []
    failed = 0
    for key, direction in DIRECTIONS:
        part = document.get(key)
        if not isinstance(part, dict):
            continue
        error = bool(part.get("Error"))
        failed += error
        last = fields(part.get("TCPInfo"))
        elapsed = whole(part["TCPInfo"].get("ElapsedTime"), LARGEST // 1000) if last else None
        if elapsed is not None and elapsed > 0:
            last["elapsed_ns"] = elapsed * 1000
        row = common(document, part, direction, name, of) | {"protocol": "ndt5"} | of_tcp_info(last)
        min_rtt = whole(part.get("MinRTT"))  # ns
        if min_rtt is not None and min_rtt > 0:
            row["min_rtt_ns"] = min_rtt
        row["mean_throughput_bps"] = _speed(part.get("MeanThroughputMbps"), error)
        rows.append(row)
    return rows, failed


def _speed(megabits: Any, error: bool) -> float | None:
    """Mb/s as bit/s. A test that failed before it measured says 0, which is no speed."""
    if isinstance(megabits, bool) or not isinstance(megabits, int | float):
        return None
    try:
        speed = float(megabits) * 1e6
    except OverflowError:
        return None
    if not math.isfinite(speed) or speed < 0 or (error and speed == 0):
        return None
    return speed
