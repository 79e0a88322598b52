"""Results of latency (one-way delays), rtt (ping) and trace (traceroute) as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from statistics import median
from typing import Any

import polars as pl

from whydrop.formats.files import number, rounded
from whydrop.formats.pscheduler.run import Object, Run, as_object, objects, seconds
from whydrop.recording.tables import TABLES

_NS = 1_000_000_000
# From the epoch of NTP (RFC 5905), 1900, to that of Unix.
_NTP_EPOCH_S = 2_208_988_800
# The key of a histogram is the delay over this, unless the test names another width.
_BUCKET_S = 0.001
_MOST_PROBES = 1_000_000


def tables(run: Run) -> tuple[dict[str, pl.DataFrame], list[str]]:
    """The tables of a run, and notes."""
    rows, notes = {"latency": _latency, "rtt": _rtt, "trace": _trace}[run.kind](run)
    frames = {
        name: pl.DataFrame(of_table, schema={column: TABLES[name][column] for column in of_table[0]})
        for name, of_table in rows.items()
        if of_table
    }
    return frames, notes


def _flow(run: Run, flow: int, name: str, kind: str, facts: Object, **more: Any) -> Object:
    return {
        "flow": flow,
        "name": name,
        "kind": kind,
        "direction": "up" if run.kind == "latency" else "both",
        "runner": run.tool or "pscheduler",
        "host": run.destination,
        "ip_version": rounded(number(run.spec.get("ip-version"))),
        "units": None,
        "start_ns": run.started_ns,
        "end_ns": run.ended_ns,
        "status": "complete",
        "settings": json.dumps(run.spec, sort_keys=True),
        "facts": json.dumps(facts, sort_keys=True),
        **more,
    }


_Rows = tuple[dict[str, list[Object]], list[str]]


def _latency(run: Run) -> _Rows:
    """One-way delays: of each packet where the result has them, else the numbers of the histogram."""
    result = run.result
    counts = {key: result.get(f"packets-{key}") for key in ("sent", "received", "lost", "duplicated", "reordered")}
    facts: Object = {key: value for key, value in counts.items() if value is not None}
    error_ms = number(result.get("max-clock-error"))
    notes = [] if error_ms is None else [f"the clocks of the two hosts may differ by {error_ms:g} ms"]
    packets = list(_packets(run))
    if packets:
        # As a stream of packets in one direction, which have no round trip.
        return {"flows": [_flow(run, 0, "One-way delay", "burst", facts)], "bursts": packets}, notes
    loss = _loss(result.get("packets-sent"), result.get("packets-lost"))
    return _numbers(run, "One-way delay", result.get("histogram-latency"), facts, loss), [*notes, _HISTOGRAM_ONLY]


_HISTOGRAM_ONLY = "the result has a histogram of the delays and not the delay of each packet"
_Values = dict[str, tuple[float, str]]


def _numbers(run: Run, name: str, counted: Any, facts: Object, loss: _Values) -> dict[str, list[Object]]:
    """A histogram as its numbers, each a flow with one value."""
    histogram = _histogram(run, counted)
    facts["histogram_ms"] = {f"{delay_ms:g}": packets for delay_ms, packets in histogram}
    values = _of_histogram(histogram, name) | loss
    flows, rows = [], []
    for flow, (title, (value, units)) in enumerate(values.items()):
        flows.append(_flow(run, flow, title, "value", facts if not flow else {}, units=units))
        rows.append({"flow": flow, "time_ns": run.ended_ns or run.started_ns or 0, "key": "", "value": value})
    return {"flows": flows, "values": rows}


def _packets(run: Run) -> Iterator[Object]:
    for packet in objects(run.result.get("raw-packets"))[:_MOST_PROBES]:
        sequence = rounded(number(packet.get("seq-num")))
        sent_ns, received_ns = ntp_ns(packet.get("src-ts")), ntp_ns(packet.get("dst-ts"))
        if sequence is None or sent_ns is None:
            continue
        yield {
            "flow": 0,
            "burst": 0,
            "sequence": sequence,
            "sent_ns": sent_ns,
            # A packet that did not arrive has the zero of NTP, or none.
            "received_ns": received_ns,
            "payload_bytes": None,
        }


def ntp_ns(stamp: Any) -> int | None:
    """A timestamp of NTP in 64 bits, in nanoseconds of Unix; ``None`` for none, or 0.

    >>> ntp_ns(0xDC5A_AF16_8000_0000), ntp_ns(0), ntp_ns("x")
    (1487941782500000000, None, None)
    """
    if isinstance(stamp, bool) or not isinstance(stamp, int) or not 0 < stamp < 1 << 64:
        return None
    whole, fraction = stamp >> 32, stamp & 0xFFFFFFFF
    return (whole - _NTP_EPOCH_S) * _NS + (fraction * _NS >> 32)


def _histogram(run: Run, counted: Any) -> list[tuple[float, int]]:
    """Delays in milliseconds, ascending, with the number of packets of each."""
    width = number(run.spec.get("bucket-width"))
    to_ms = 1e3 * (width if width is not None and width > 0 else _BUCKET_S)
    found = []
    for key, packets in as_object(counted).items():
        delay, times = number(key), rounded(number(packets))
        if delay is not None and times is not None and times > 0:
            found.append((delay * to_ms, times))
    return sorted(found)


def _of_histogram(histogram: list[tuple[float, int]], name: str) -> _Values:
    if not histogram:
        return {}
    packets = sum(times for _, times in histogram)
    mean = sum(delay * times for delay, times in histogram) / packets
    return {
        f"{name}, minimum": (histogram[0][0], "ms"),
        f"{name}, median": (_quantile(histogram, 0.5), "ms"),
        f"{name}, mean": (mean, "ms"),
        f"{name}, 95th percentile": (_quantile(histogram, 0.95), "ms"),
        f"{name}, maximum": (histogram[-1][0], "ms"),
    }


def _quantile(histogram: list[tuple[float, int]], share: float) -> float:
    rank, so_far = share * sum(times for _, times in histogram), 0
    for delay, times in histogram:
        so_far += times
        if so_far >= rank:
            return delay
    return histogram[-1][0]


def _loss(sent_packets: Any, lost_packets: Any) -> _Values:
    sent, lost = number(sent_packets), number(lost_packets)
    return {"Loss": (100 * lost / sent, "%")} if sent and lost is not None and 0 <= lost <= sent else {}


def _rtt(run: Run) -> _Rows:
    """Round trips in order of their numbers; those that are missing were lost."""
    if "histogram-rtt" in run.result and "roundtrips" not in run.result:
        loss = _loss(run.result.get("sent"), run.result.get("lost"))
        return _numbers(run, "Round-trip time", run.result["histogram-rtt"], {}, loss), [_HISTOGRAM_ONLY]
    seen: dict[int, Object] = {}
    duplicates = 0
    for place, one in enumerate(objects(run.result.get("roundtrips"))[:_MOST_PROBES], 1):
        sequence = rounded(number(one.get("seq"))) if "seq" in one else place
        if sequence is None or not 0 <= sequence < _MOST_PROBES:
            continue
        duplicates += sequence in seen
        seen.setdefault(sequence, one)
    first = min(seen, default=1)
    sent = rounded(number(run.result.get("sent"))) or rounded(number(run.spec.get("count"))) or 0
    last = max([*seen, min(first + sent - 1, _MOST_PROBES)])
    rows = [_round_trip(run, sequence, sequence - first, seen.get(sequence, {})) for sequence in range(first, last + 1)]
    keys = ("sent", "received", "lost", "loss", "reorders", "duplicates", "min", "max", "mean", "stddev")
    facts = {key: run.result[key] for key in keys if key in run.result}
    notes = [f"times of the probes are by their order, one each {run.interval_s:g} s"] if rows else []
    if duplicates:
        notes.append(f"{duplicates} duplicate answers were left out")
    return {"flows": [_flow(run, 0, "Round-trip time", "icmp", facts)] if rows else [], "probes": rows}, notes


def _round_trip(run: Run, sequence: int, place: int, one: Object) -> Object:
    rtt_s = seconds(one.get("rtt"))
    sent_ns = (run.started_ns or 0) + round(place * run.interval_s * _NS)
    answered = rtt_s is not None and not one.get("error")
    rtt_ns = round(rtt_s * _NS) if rtt_s is not None and answered else None
    return {
        "flow": 0,
        "sequence": sequence,
        "scheduled_ns": sent_ns,
        "sent_ns": sent_ns,
        "received_ns": None if rtt_ns is None else sent_ns + rtt_ns,
        "rtt_ns": rtt_ns,
        "fate": "ok" if answered else "lost",
        "payload_bytes": rounded(number(one.get("length"))),
    }


def _trace(run: Run) -> _Rows:
    """The round trips to each hop: a flow for each hop, a probe for each path that was traced."""
    paths = [objects(path) for path in run.result.get("paths", []) if isinstance(path, list)]
    flows, probes = [], []
    for hop in range(max(map(len, paths), default=0)):
        answers = [path[hop] for path in paths if hop < len(path)]
        addresses = list(dict.fromkeys(str(one["ip"]) for one in answers if one.get("ip")))
        times_s = [seconds(one.get("rtt")) for one in answers]
        facts: Object = {"hop": hop + 1, "answers": answers}
        known = [one for one in times_s if one is not None]
        if known:
            facts["median_s"] = median(known)
        name = f"Hop {hop + 1}" + (f" ({', '.join(addresses)})" if addresses else " (silent)")
        flows.append(_flow(run, hop, name, "icmp", facts, address=addresses[0] if len(addresses) == 1 else None))
        for place, rtt_s in enumerate(times_s):
            sent_ns = run.started_ns or 0
            rtt_ns = None if rtt_s is None else round(rtt_s * _NS)
            probes.append(
                {
                    "flow": hop,
                    "sequence": place,
                    "scheduled_ns": sent_ns,
                    "sent_ns": sent_ns,
                    "received_ns": None if rtt_ns is None else sent_ns + rtt_ns,
                    "rtt_ns": rtt_ns,
                    "fate": "lost" if rtt_ns is None else "ok",
                }
            )
    return {"flows": flows, "probes": probes}, ["a trace has one time of day for all of its packets"] if probes else []
