"""A throughput result as tables: iperf3, iperf2 or nuttcp run by pScheduler, TCP or UDP, one flow for each stream.

The rates of intervals are those of the sender. The summary has the receiver's for newer versions
(``receiver-throughput-bits``); it is then the mean of the whole test.
"""

from __future__ import annotations

import json
from typing import Any

import polars as pl

from whydrop.formats.files import number, rounded
from whydrop.formats.pscheduler.run import Object, Run, as_object, objects
from whydrop.recording.tables import TABLES

_NS = 1_000_000_000
_SENT = "sent_mbit"
# An interval shorter than this share of the usual one is the rest of a test, and has no rate.
_SHORTEST = 0.1


def tables(run: Run) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """The tables of a run, and notes."""
    found: dict[str, list[Object]] = {"flows": [], "intervals": [], "tcp_info": [], "values": []}
    streams, omitted = _streams(run)
    wholes = _wholes(run, list(streams))
    is_udp = _is_udp(run, streams)
    for flow, (stream, rows) in enumerate(streams.items()):
        name = _name(run, is_udp, flow, len(streams))
        _add(found, run, _Stream(flow, name, is_udp, rows, wholes.get(stream, {})))
    frames = {
        name: pl.DataFrame(rows, schema={column: TABLES[name][column] for column in rows[0]})
        for name, rows in found.items()
        if rows
    }
    notes = [f"{omitted} intervals that the tool was asked to omit were left out"] if omitted else []
    if run.is_reverse and run.source:
        notes.append(f"reverse test: data went to {run.source}")
    return frames, notes


class _Stream:
    """One stream: its intervals in order and its summary."""

    def __init__(self, flow: int, name: str, is_udp: bool, rows: list[Object], whole: Object) -> None:
        self.flow, self.name, self.is_udp, self.rows, self.whole = flow, name, is_udp, rows, whole


def _streams(run: Run) -> tuple[dict[str, list[Object]], int]:
    """The intervals of each stream by its name, and how many were to be omitted."""
    found: dict[str, list[Object]] = {}
    omitted = 0
    for interval in objects(run.result.get("intervals")):
        summary = as_object(interval.get("summary"))
        for stream in objects(interval.get("streams")) or [summary]:
            start, end = number(stream.get("start")), number(stream.get("end"))
            if stream.get("omitted") is True or summary.get("omitted") is True:
                # Its times begin at 0 again behind the omitted part.
                omitted += 1
            elif start is not None and end is not None and end > start >= 0:
                found.setdefault(str(stream.get("stream-id", "")), []).append(stream)
    for name, rows in found.items():
        found[name] = _without_rests(sorted(rows, key=lambda row: float(row["start"])))
    if not found and (whole := _of_summary(run)):
        found[""] = [whole]
    return found, omitted


def _of_summary(run: Run) -> Object:
    """The summary as a single interval, of a tool that was run without any."""
    whole = as_object(as_object(run.result.get("summary")).get("summary"))
    end, rate = number(whole.get("end")), number(whole.get("throughput-bits"))
    return {"start": 0.0, **whole} if rate is not None and end is not None and end > 0 else {}


def _without_rests(rows: list[Object]) -> list[Object]:
    """Without the rest of a test behind its last whole interval, which has no rate of its own."""
    spans = sorted(float(row["end"]) - float(row["start"]) for row in rows)
    shortest = _SHORTEST * spans[len(spans) // 2] if spans else 0.0
    return [row for row in rows if float(row["end"]) - float(row["start"]) >= shortest]


def _wholes(run: Run, names: list[str]) -> dict[str, Object]:
    summary = as_object(run.result.get("summary"))
    by_name = {str(one.get("stream-id", "")): one for one in objects(summary.get("streams"))}
    if len(names) == 1:
        # Of a single stream, the summary of all of them has more: the receiver's rate.
        return {names[0]: {**by_name.get(names[0], {}), **as_object(summary.get("summary"))}}
    return by_name


def _is_udp(run: Run, streams: dict[str, list[Object]]) -> bool:
    if isinstance(run.spec.get("udp"), bool):
        return bool(run.spec["udp"])
    rows = [row for of_stream in streams.values() for row in of_stream]
    wholes = objects([as_object(as_object(run.result.get("summary")).get("summary"))])
    return any(row.get(key) is not None for row in [*rows, *wholes] for key in ("lost", "jitter"))


def _name(run: Run, is_udp: bool, flow: int, streams: int) -> str:
    name = f"{'UDP' if is_udp else 'TCP'} {'download' if run.is_reverse else 'upload'}"
    return name if streams == 1 else f"{name} {flow + 1}"


def _add(found: dict[str, list[Object]], run: Run, stream: _Stream) -> None:
    rows = [_interval(run, stream, row) for row in stream.rows]
    arrived = [_arrived(run, stream)] if stream.is_udp else rows
    arrived = [row for row in arrived if row]
    if stream.is_udp:
        found["values"] += [
            {"flow": stream.flow, "time_ns": row["end_ns"], "key": _SENT, "value": row["goodput_bps"] / 1e6}
            for row in rows
            if row["goodput_bps"] is not None
        ]
    found["intervals"] += arrived
    found["tcp_info"] += [] if stream.is_udp else _tcp_info(run, stream)
    found["flows"].append(_flow(run, stream, rows, arrived))


def _at_ns(run: Run, since_start_s: Any) -> int | None:
    since_ns = rounded(number(since_start_s), _NS)
    if since_ns is None or abs(since_ns) >= 1 << 62:
        return None
    return (run.started_ns or 0) + since_ns


def _interval(run: Run, stream: _Stream, row: Object) -> Object:
    return {
        "flow": stream.flow,
        "start_ns": _at_ns(run, row["start"]),
        "end_ns": _at_ns(run, row["end"]),
        "payload_bytes": rounded(number(row.get("throughput-bytes"))),
        "goodput_bps": number(row.get("throughput-bits")),
        "packets": None,
        "lost": None,
        "jitter_ns": None,
    }


def _arrived(run: Run, stream: _Stream) -> Object:
    """The whole of a UDP test as one interval: what arrived is known only at its end."""
    whole = stream.whole
    sent, lost = number(whole.get("sent")), number(whole.get("lost"))
    end = number(whole.get("end")) or number(stream.rows[-1].get("end"))
    rate = number(whole.get("receiver-throughput-bits"))
    if rate is None and sent and lost is not None and 0 <= lost <= sent:
        of_sender = number(whole.get("throughput-bits"))
        rate = None if of_sender is None else of_sender * (1 - lost / sent)
    if rate is None or end is None or end <= 0:
        return {}
    return {
        "flow": stream.flow,
        "start_ns": _at_ns(run, 0.0),
        "end_ns": _at_ns(run, end),
        "payload_bytes": rounded(rate * end / 8),
        "goodput_bps": rate,
        "packets": rounded(sent - lost) if sent is not None and lost is not None else None,
        "lost": rounded(lost),
        "jitter_ns": rounded(number(whole.get("jitter")), 1e6),
    }


def _tcp_info(run: Run, stream: _Stream) -> list[Object]:
    mss = number(run.result.get("mss"))
    so_far, rows = 0, []
    for row in stream.rows:
        again, rtt_us, window = (number(row.get(key)) for key in ("retransmits", "rtt", "tcp-window-size"))
        if (again, rtt_us, window) == (None,) * 3:
            continue
        so_far += max(0, rounded(again) or 0)
        rows.append(
            {
                "flow": stream.flow,
                "time_ns": _at_ns(run, row["end"]),
                "congestion_window_packets": rounded(window, 1 / mss) if window is not None and mss else None,
                # Microseconds, as iperf3 has them; 0: unknown.
                "srtt_ns": rounded(rtt_us or None, 1e3),
                "mss_bytes": rounded(mss),
                "retransmitted_packets": None if again is None else so_far,
            }
        )
    return rows


def _flow(run: Run, stream: _Stream, rows: list[Object], arrived: list[Object]) -> Object:
    whole, far = stream.whole, run.source if run.is_reverse else run.destination
    of_receiver = number(whole.get("receiver-throughput-bits"))
    facts: Object = {
        "counted_at": "sender" if of_receiver is None or not stream.is_udp else "receiver",
        "pscheduler": whole,
    }
    mean = of_receiver if of_receiver is not None else None if stream.is_udp else number(whole.get("throughput-bits"))
    if mean is not None:
        facts["mean_value"] = mean / 1e6
    again = number(whole.get("retransmits"))
    if again is not None and again >= 0:
        facts["TCP_RETRANSMIT"] = again
    dscp = number(run.spec.get("ip-tos"))
    return {
        "flow": stream.flow,
        "name": stream.name,
        "kind": "udp" if stream.is_udp else "tcp",
        "direction": "down" if run.is_reverse else "up",
        "runner": run.tool or "pscheduler",
        "host": far,
        "ip_version": rounded(number(run.spec.get("ip-version"))),
        "dscp": (int(dscp) >> 2) & 63 if dscp is not None else None,
        "congestion_control": str(run.spec["congestion"]) if run.spec.get("congestion") else None,
        "start_ns": rows[0]["start_ns"],
        "end_ns": rows[-1]["end_ns"],
        "payload_bytes": rounded(number(whole.get("throughput-bytes"))) if not stream.is_udp else None,
        "status": "complete" if arrived else "no-data",
        "settings": json.dumps(run.spec, sort_keys=True),
        "facts": json.dumps(facts, sort_keys=True),
    }
