"""Data as pScheduler's archiver writes them to esmond: a list of points in time, each with values of event types.

Series that esmond itself returns for one event type (``.../throughput/base``) do not name it, and cannot be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from whydrop.formats.files import number
from whydrop.formats.pscheduler.run import KINDS, Object, Run, as_object, instant_ns, kind_of, objects

# Metadata of esmond under the names of a test's specification.
_SPEC = {"source": "source", "destination": "dest", "time-probe-interval": "packet-interval"}


def runs(document: Any) -> Iterator[Run]:
    """The runs in a document; none if it is not of esmond."""
    around = as_object(document)
    points = around.get("data") if around else document
    for point in objects(points):
        values = {str(one["event-type"]): one.get("val") for one in objects(point.get("val")) if one.get("event-type")}
        metadata = {**around, **as_object(around.get("metadata"))}
        found = _result(values) or _failure(values, metadata)
        if found is None:
            continue
        kind, result = found
        spec = {ours: metadata[theirs] for theirs, ours in _SPEC.items() if theirs in metadata}
        if metadata.get("ip-transport-protocol") in ("tcp", "udp"):
            spec["udp"] = metadata["ip-transport-protocol"] == "udp"
        tool = metadata.get("tool-name")
        started_ns = instant_ns(point.get("ts"))
        length_s = number(metadata.get("time-duration"))
        ended_ns = None if started_ns is None or length_s is None else started_ns + round(min(length_s, 1e6) * 1e9)
        yield Run(kind, result, spec, tool if isinstance(tool, str) else None, started_ns, ended_ns)


def _result(values: Object) -> tuple[str, Object] | None:
    """The kind of the test, and its result as the test itself writes it."""
    raw = values.get("pscheduler-raw")
    if isinstance(raw, dict) and (kind := kind_of(raw)) is not None:
        return kind, raw
    if "throughput" in values or "throughput-subintervals" in values:
        return "throughput", _throughput(values)
    if isinstance(values.get("histogram-owdelay"), dict):
        names = {"packet-count-sent": "sent", "packet-count-lost": "lost", "packet-reorders": "reordered",
                 "packet-duplicates": "duplicated"}  # fmt: skip
        counts = {f"packets-{ours}": values[theirs] for theirs, ours in names.items() if theirs in values}
        error = {"max-clock-error": values["time-error-estimates"]} if "time-error-estimates" in values else {}
        return "latency", {"histogram-latency": values["histogram-owdelay"], **counts, **error}
    if isinstance(values.get("histogram-rtt"), dict):
        whole = {"sent": "packet-count-sent", "lost": "packet-count-lost-bidir", "reorders": "packet-reorders-bidir",
                 "duplicates": "packet-duplicates-bidir"}  # fmt: skip
        counts = {ours: values[theirs] for ours, theirs in whole.items() if theirs in values}
        return "rtt", {"histogram-rtt": values["histogram-rtt"], **counts}
    if isinstance(values.get("packet-trace"), list):
        return "trace", {"succeeded": True, "paths": _paths(values["packet-trace"])}
    return None


def _failure(values: Object, metadata: Object) -> tuple[str, Object] | None:
    """A run that failed: esmond gets its error alone."""
    if "failures" not in values:
        return None
    kind = str(metadata.get("pscheduler-test-type"))
    return kind if kind in KINDS else KINDS[0], {
        "succeeded": False,
        "error": as_object(values["failures"]).get("error"),
    }


def _throughput(values: Object) -> Object:
    """Intervals of the sum of all streams: esmond's lists of single streams are without their names."""
    retransmits = {
        number(one.get("start")): one.get("val") for one in _in_order(values.get("packet-retransmits-subintervals"))
    }
    intervals: list[Object] = []
    for one in _in_order(values.get("throughput-subintervals")):
        start, length, rate = (number(one.get(key)) for key in ("start", "duration", "val"))
        if start is None or length is None or rate is None:
            continue
        row: Object = {
            "start": start,
            "end": start + length,
            "throughput-bits": rate,
            "throughput-bytes": rate * length / 8,
        }
        if start in retransmits:
            row["retransmits"] = retransmits[start]
        intervals.append({"summary": row, "streams": []})
    whole: Object = {"throughput-bits": values.get("throughput"), "retransmits": values.get("packet-retransmits"),
                     "sent": values.get("packet-count-sent"), "lost": values.get("packet-count-lost")}  # fmt: skip
    ends = [one["summary"]["end"] for one in intervals]
    if ends:
        whole |= {"start": 0, "end": max(ends)}
    return {"intervals": intervals, "summary": {"summary": whole, "streams": []}}


def _in_order(subintervals: Any) -> list[Object]:
    """Subintervals of the test itself: behind those to be omitted, the times begin at 0 again."""
    found = objects(subintervals)
    last = 0
    for place in range(1, len(found)):
        before, start = number(found[place - 1].get("start")), number(found[place].get("start"))
        if before is not None and start is not None and start < before:
            last = place
    return found[last:]


def _paths(answers: Any) -> list[list[Object]]:
    """Answers by time to live, one path for each query."""
    by_query: dict[int, dict[int, Object]] = {}
    for one in objects(answers):
        hop, query = number(one.get("ttl")), number(one.get("query"))
        if hop is None or not 1 <= hop <= 255:
            continue
        rtt_ms = number(one.get("rtt"))
        found = {"ip": one.get("ip"), "rtt": None if rtt_ms is None else f"PT{rtt_ms / 1e3:.6f}S"}
        by_query.setdefault(int(query or 1), {})[int(hop)] = found if one.get("success") not in (0, False) else {}
    return [[of_query.get(hop, {}) for hop in range(1, max(of_query) + 1)] for of_query in by_query.values()]
