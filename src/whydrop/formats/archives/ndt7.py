"""Results of NDT7 in JSON: the test, and tcp_info and BBR's state as the server read them, some four times a second.

https://github.com/m-lab/ndt-server, `data/result.go` and `ndt7/model`. Of the client's metadata nothing is kept: they
hold access tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from whydrop.formats.archives import linux_tcp
from whydrop.formats.archives.json_text import text
from whydrop.formats.archives.names import Host, rfc3339_ns
from whydrop.formats.archives.quantities import LARGEST, whole
from whydrop.store.tables import conform

DIRECTIONS = (("Download", "download"), ("Upload", "upload"))
_US = 10**3

Row = dict[str, Any]


def is_ndt7(document: Any) -> bool:
    """True if a JSON document is a result of NDT7."""
    return isinstance(document, dict) and any(isinstance(document.get(key), dict) for key, _ in DIRECTIONS)


def ndt_rows(document: dict[str, Any], name: str, of: Host | None) -> list[Row]:
    """The directions that were tested, as rows of ``ndt``; the totals are of the last measurement with tcp_info."""
    rows = []
    for key, direction in DIRECTIONS:
        part = document.get(key)
        if not isinstance(part, dict):
            continue
        last = next((taken for taken in reversed(_measurements(part)) if taken["has_tcp_info"]), {})
        row = common(document, part, direction, name, of) | {"protocol": "ndt7"} | of_tcp_info(last)
        carried = row["acked_bytes"] if direction == "download" else row["received_bytes"]
        # As M-Lab's tables compute it (MeanThroughputMbps): the server does not write it.
        if carried is not None and row["duration_ns"]:
            row["mean_throughput_bps"] = 8e9 * carried / row["duration_ns"]
        rows.append(row)
    return rows


def tcp_measurements(document: dict[str, Any], name: str, of: Host | None) -> list[Row]:
    """The server's measurements, field by field of `linux_tcp.FIELDS`, for `tcp_rows`."""
    rows = []
    for key, direction in DIRECTIONS:
        part = document.get(key)
        if not isinstance(part, dict):
            continue
        ends = common(document, part, direction, name, of)
        kept = {column: ends[column] for column in _SHARED}
        for taken in _measurements(part):
            elapsed, start = taken["elapsed_ns"], ends["start_ns"]
            moment = start + elapsed if start is not None and elapsed is not None else None
            rows.append(taken | kept | {"time_ns": moment if moment is None or moment <= LARGEST else None})
    return rows


def tcp_rows(measurements: Sequence[Row]) -> pl.DataFrame:
    """Measurements of `tcp_measurements`, of many tests, as rows of ``tcp``."""
    columns = {name: pl.Int64() for name in linux_tcp.FIELDS} | _KEPT
    frame = pl.DataFrame({name: [row.get(name) for row in measurements] for name in columns}, schema=columns)
    frame = frame.select(*linux_tcp.columns(), *_KEPT)
    return conform("tcp", frame.with_columns(source=pl.lit("ndt7")))


_SHARED = ("test_id", "machine", "site", "local_address", "local_port", "remote_address", "remote_port")
_KEPT: dict[str, pl.DataType] = {
    **{column: pl.Int64() if column.endswith("port") else pl.String() for column in _SHARED},
    "time_ns": pl.Int64(),
    "elapsed_ns": pl.Int64(),
    "bbr_bandwidth_bps": pl.Float64(),
    "bbr_min_rtt_ns": pl.Int64(),
}


def common(document: dict[str, Any], part: dict[str, Any], direction: str, name: str, of: Host | None) -> Row:
    """The fields that NDT5 and NDT7 share for a direction: who, when. ``name``: of the file, where there is no UUID."""
    start, end = rfc3339_ns(part.get("StartTime")), rfc3339_ns(part.get("EndTime"))
    identity = text(part.get("UUID"))
    return {
        "time_ns": rfc3339_ns(document.get("StartTime")) or start,
        "start_ns": start,
        "end_ns": end,
        # The server writes a sentence in capitals where it could not learn the UUID.
        "test_id": identity if identity and not identity.startswith("ERROR_") else name,
        "direction": direction,
        "metro": of.metro if of else None,
        "site": of.site if of else None,
        "machine": of.machine if of else None,
        "server": of.name if of else None,
        "local_address": text(part.get("ServerIP")) or text(document.get("ServerIP")),
        "local_port": whole(part.get("ServerPort", document.get("ServerPort")), 65535),
        "remote_address": text(part.get("ClientIP")) or text(document.get("ClientIP")),
        "remote_port": whole(part.get("ClientPort", document.get("ClientPort")), 65535),
        "duration_ns": end - start if start is not None and end is not None and end >= start else None,
    }


def of_tcp_info(last: Row) -> Row:
    """Columns of ``ndt`` from the last tcp_info of a test; all null but those that it has.

    The connection's time limited by its own window is no field of Linux's, so that column is null.
    """

    def positive(field: str, factor: int = 1) -> int | None:
        value = last.get(field)
        return value * factor if value is not None and 0 <= value <= LARGEST // factor else None

    row: Row = {
        "acked_bytes": positive("BytesAcked"),
        "received_bytes": positive("BytesReceived"),
        "sent_segments": positive("SegsOut"),
        "retransmitted_segments": positive("TotalRetrans"),
        "retransmitted_bytes": positive("BytesRetrans"),
        "receiver_limited_ns": positive("RWndLimited", _US),
        "min_rtt_ns": positive("MinRTT", _US) if last.get("MinRTT") not in (0, 0xFFFFFFFF) else None,
    }
    if last.get("elapsed_ns"):
        row["duration_ns"] = last["elapsed_ns"]
    return row


def fields(tcp_info: Any) -> Row:
    """M-Lab's JSON of tcp_info: the fields that the table needs, whole numbers only."""
    if not isinstance(tcp_info, dict):
        return {}
    return {name: whole(tcp_info.get(name)) for name in linux_tcp.FIELDS}


def _measurements(part: dict[str, Any]) -> list[Row]:
    taken = part.get("ServerMeasurements")
    return [_measurement(one) for one in taken if isinstance(one, dict)] if isinstance(taken, list) else []


def _measurement(one: dict[str, Any]) -> Row:
    info, bbr = one.get("TCPInfo"), one.get("BBRInfo")
    row = fields(info)
    row["has_tcp_info"] = isinstance(info, dict)
    bbr = bbr if isinstance(bbr, dict) else {}
    elapsed = info.get("ElapsedTime") if isinstance(info, dict) else bbr.get("ElapsedTime")
    microseconds = whole(elapsed, LARGEST // _US)
    row["elapsed_ns"] = microseconds * _US if microseconds is not None and microseconds >= 0 else None
    bandwidth = whole(bbr.get("MaxBandwidth", bbr.get("BW")))  # bytes a second, in both generations
    row["bbr_bandwidth_bps"] = 8.0 * bandwidth if bandwidth and bandwidth > 0 else None
    min_rtt = whole(bbr.get("MinRTT"), LARGEST // _US)
    row["bbr_min_rtt_ns"] = min_rtt * _US if min_rtt and 0 < min_rtt != 0xFFFFFFFF else None
    return row
