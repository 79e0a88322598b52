"""Results of NDT in JSON (https://github.com/m-lab/ndt-server): who tested, when, and what came of it.

NDT7 (`data/result.go`, `ndt7/model`) has tcp_info and BBR's state as the server read them, some four times a second;
NDT5 (`ndt5/data`) has the speeds and, in later files, the last tcp_info. MSAK's throughput1 (https://github.com/m-lab/msak,
`pkg/throughput1/model`) writes a file for each stream, with measurements as NDT7's. Of the client's metadata nothing is
kept: they hold access tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from whydrop.formats.archives import Found, json_text, linux_tcp
from whydrop.formats.archives.columns import LARGEST, whole
from whydrop.formats.archives.json_text import text
from whydrop.formats.archives.names import Host, plain, rfc3339_ns
from whydrop.formats.files import number
from whydrop.store.tables import TCP, conform

_NDT7 = {"Download": "download", "Upload": "upload"}
_NDT5 = {"C2S": "upload", "S2C": "download"}
_US = 10**3
_MOST_MBPS = 1e300

NDT5_WITHOUT = "Results of NDT5 without a test"
NDT5_FAILED = "Tests of NDT5 that ended with an error"

Row = dict[str, Any]

# Columns of ``ndt``, the fields of the last tcp_info of a test that they are, and the factor to the columns' units. The
# connection's time limited by its own window is no field of Linux's, so that column is null.
_TOTALS = {
    "acked_bytes": ("BytesAcked", 1),
    "received_bytes": ("BytesReceived", 1),
    "sent_segments": ("SegsOut", 1),
    "retransmitted_segments": ("TotalRetrans", 1),
    "retransmitted_bytes": ("BytesRetrans", 1),
    "receiver_limited_ns": ("RWndLimited", _US),
    "min_rtt_ns": ("MinRTT", _US),
}
_ENDS = ("test_id", "machine", "site", "local_address", "local_port", "remote_address", "remote_port")
_KEPT = {
    name: TCP[name]
    for name in (
        *_ENDS, "time_ns", "elapsed_ns", "bbr_bandwidth_bps", "bbr_min_rtt_ns", "congestion_control", "source",
    )
}  # fmt: skip


def read(content: bytes, name: str, of: Host | None) -> Found | None:
    """The tests as rows of ``ndt``, and measurements for `tcp_rows`; None where whole JSON is no result of NDT."""
    document, damage = json_text.load(content)
    found = Found(as_rows=tcp_rows, damage=damage)
    objects = document if isinstance(document, dict) else {}
    protocol = "ndt7"
    if (of_stream := _of_throughput1(objects)) is not None:
        objects, protocol = of_stream, "throughput1"
    if any(isinstance(objects.get(key), dict) for key in _NDT7):
        for part, row in _directions(objects, _NDT7, plain(name), of):
            measurements = _measurements(part)
            found.tests.append(_ndt7_test(row | {"protocol": protocol}, measurements))
            about = {"source": protocol, "congestion_control": text(part.get("CCAlgorithm"))}
            found.objects += [_at_its_time(one, row) | about for one in measurements]
    elif any(isinstance(objects.get(key), dict) for key in ("Control", *_NDT5)):
        for part, row in _directions(objects, _NDT5, plain(name), of):
            found.tests.append(_ndt5_test(row, part))
            found.counts[NDT5_FAILED] += bool(part.get("Error"))
        # There may be the control connection alone.
        found.counts[NDT5_WITHOUT] += not found.tests
    elif damage is None:
        return None
    return found


def _of_throughput1(document: Row) -> Row | None:
    """A stream of MSAK in the form of a test of NDT7; None of anything else."""
    key = {"download": "Download", "upload": "Upload"}.get(str(document.get("Direction")))
    if key is None or not isinstance(document.get("ServerMeasurements"), list):
        return None
    part = dict(document)
    for end in ("Server", "Client"):
        address, _, port = (text(document.get(end)) or "").rpartition(":")
        part[f"{end}IP"] = address.strip("[]") or None
        part[f"{end}Port"] = int(port) if port.isdecimal() and len(port) <= 5 else None
    return {"StartTime": document.get("StartTime"), key: part}


def _directions(
    document: Row, kinds: dict[str, str], name: str, of: Host | None
) -> Iterator[tuple[dict[str, Any], Row]]:
    """The directions that were tested: their parts of the document, and who and when, which both protocols have."""
    for key, direction in kinds.items():
        part = document.get(key)
        if not isinstance(part, dict):
            continue
        start, end = rfc3339_ns(part.get("StartTime")), rfc3339_ns(part.get("EndTime"))
        identity = text(part.get("UUID"))
        row: Row = {
            "time_ns": rfc3339_ns(document.get("StartTime")) or start,
            "start_ns": start,
            "end_ns": end,
            # The server writes a sentence in capitals where it could not learn the UUID.
            "test_id": identity if identity and not identity.startswith("ERROR_") else name,
            "protocol": "ndt7" if kinds is _NDT7 else "ndt5",
            "direction": direction,
            **({"metro": of.metro, "site": of.site, "machine": of.machine, "server": of.name} if of else {}),
            "duration_ns": end - start if start is not None and end is not None and end >= start else None,
        }
        for side, end_name in (("local", "Server"), ("remote", "Client")):
            ip, port = f"{end_name}IP", f"{end_name}Port"
            row[f"{side}_address"] = text(part.get(ip)) or text(document.get(ip))
            row[f"{side}_port"] = whole(part.get(port, document.get(port)), 65535)
        yield part, row


def _ndt7_test(row: Row, measurements: Sequence[Row]) -> Row:
    """The totals are of the last measurement with tcp_info."""
    last = next((taken for taken in reversed(measurements) if taken["has_tcp_info"]), {})
    row = row | _totals(last, last.get("elapsed_ns"))
    carried = row["acked_bytes"] if row["direction"] == "download" else row["received_bytes"]
    # As M-Lab's tables compute it (MeanThroughputMbps): the server does not write it.
    if carried is not None and row["duration_ns"]:
        row["mean_throughput_bps"] = 8e9 * carried / row["duration_ns"]
    return row


def _ndt5_test(row: Row, part: dict[str, Any]) -> Row:
    info = part.get("TCPInfo")
    info = info if isinstance(info, dict) else {}
    row = row | _totals(_fields(info), _nanoseconds(info.get("ElapsedTime")))
    min_rtt = whole(part.get("MinRTT"))  # ns
    if min_rtt is not None and min_rtt > 0:
        row["min_rtt_ns"] = min_rtt
    mean = part.get("MeanThroughputMbps")
    speed = None if isinstance(mean, str) else number(mean)
    # A test that failed before it measured says 0, which is no speed.
    if speed is not None and 0 <= speed <= _MOST_MBPS and (speed or not part.get("Error")):
        row["mean_throughput_bps"] = speed * 1e6
    return row


def _totals(last: Row, elapsed_ns: int | None) -> Row:
    """Columns of ``ndt`` from the last tcp_info of a test; null those that it lacks."""
    row: Row = {}
    for column, (field, factor) in _TOTALS.items():
        value = last.get(field)
        row[column] = value * factor if value is not None and 0 <= value <= LARGEST // factor else None
    if last.get("MinRTT") in (0, linux_tcp.NO_RTT):
        row["min_rtt_ns"] = None
    return row | ({"duration_ns": elapsed_ns} if elapsed_ns else {})


def _measurements(part: dict[str, Any]) -> list[Row]:
    taken = part.get("ServerMeasurements")
    return [_measurement(one) for one in taken if isinstance(one, dict)] if isinstance(taken, list) else []


def _measurement(one: dict[str, Any]) -> Row:
    info, bbr = one.get("TCPInfo"), one.get("BBRInfo")
    bbr = bbr if isinstance(bbr, dict) else {}
    bandwidth = whole(bbr.get("MaxBandwidth", bbr.get("BW")))  # bytes a second, in both generations
    min_rtt = bbr.get("MinRTT")
    # MSAK has a time since the beginning of the measurement, and in tcp_info that since the connection's.
    clock = one if "ElapsedTime" in one else info if isinstance(info, dict) else bbr
    return _fields(info) | {
        "has_tcp_info": isinstance(info, dict),
        "elapsed_ns": _nanoseconds(clock.get("ElapsedTime")),
        "bbr_bandwidth_bps": 8.0 * bandwidth if bandwidth and bandwidth > 0 else None,
        "bbr_min_rtt_ns": (_nanoseconds(min_rtt) or None) if min_rtt != linux_tcp.NO_RTT else None,
    }


def _fields(tcp_info: Any) -> Row:
    """M-Lab's JSON of tcp_info: the fields that the table needs, whole numbers only."""
    if not isinstance(tcp_info, dict):
        return {}
    return {name: whole(tcp_info.get(name)) for name in linux_tcp.FIELDS}


def _nanoseconds(microseconds: Any) -> int | None:
    found = whole(microseconds, LARGEST // _US)
    return found * _US if found is not None and found >= 0 else None


def _at_its_time(measurement: Row, test: Row) -> Row:
    elapsed, start = measurement["elapsed_ns"], test["start_ns"]
    moment = start + elapsed if start is not None and elapsed is not None else None
    ends = {name: test.get(name) for name in _ENDS}
    return measurement | ends | {"time_ns": moment if moment is None or moment <= LARGEST else None}


def tcp_rows(measurements: Sequence[Row]) -> pl.DataFrame:
    """Measurements of many tests as rows of ``tcp``."""
    columns = {name: pl.Int64() for name in linux_tcp.FIELDS} | _KEPT
    frame = pl.DataFrame({name: [row.get(name) for row in measurements] for name in columns}, schema=columns)
    frame = frame.select(*linux_tcp.columns(), *_KEPT)
    return conform("tcp", frame)
