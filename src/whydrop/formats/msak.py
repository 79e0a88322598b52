"""Results of MSAK's latency1 as recordings: the archive of its servers, and what they answer to a client.

The file of throughput1 has TCP's statistics, and is read with NDT's (``archives/ndt.py``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.archives.names import rfc3339_ns
from whydrop.formats.files import number, rounded
from whydrop.recording.recording import Recording, RecordingError
from whydrop.recording.tables import TABLES

# A server sends a probe at random intervals of 10 to 40 ms, this long on average.
_MEAN_INTERVAL_NS = 25_000_000
_MOST_ROUND_TRIPS = 1_000_000


def is_latency(content: dict[str, Any]) -> bool:
    """True if a document is a result of latency1."""
    return isinstance(content.get("RoundTrips"), list) and "PacketsSent" in content


def recording(content: dict[str, Any], path: Path) -> Recording:
    """A result of latency1 as a recording.

    Raises:
        RecordingError: the server sent no probe.
    """
    trips = [one for one in content["RoundTrips"][:_MOST_ROUND_TRIPS] if isinstance(one, dict)]
    if not trips:
        raise RecordingError(f"{path}: a latency test of MSAK without a probe")
    started_ns = rfc3339_ns(content.get("StartTime"))
    probes = [_probe(one, place, started_ns or 0) for place, one in enumerate(trips)]
    columns = {name: TABLES["probes"][name] for name in probes[0]}
    tables = {"flows": _flows(content, probes), "probes": pl.DataFrame(probes, schema=columns)}
    notes = ["the server measured the round trips, from it to the client and back",
             "times of the probes are by their order: the server sends one in 25 ms on average"]  # fmt: skip
    if started_ns is None:
        notes.append("the result has no time of day: times are since its start")
    return Recording(path, _metadata(content, path, probes, started_ns), tables, notes)


def _probe(trip: dict[str, Any], place: int, started_ns: int) -> dict[str, Any]:
    sent_ns = started_ns + place * _MEAN_INTERVAL_NS
    rtt_ns = None if trip.get("Lost") is True else rounded(number(trip.get("RTT")), 1e3)
    if rtt_ns is not None and not 0 <= rtt_ns < 10**12:
        rtt_ns = None
    return {
        "flow": 0,
        "sequence": place,
        "scheduled_ns": sent_ns,
        "sent_ns": sent_ns,
        "received_ns": None if rtt_ns is None else sent_ns + rtt_ns,
        "rtt_ns": rtt_ns,
        "fate": "lost" if rtt_ns is None else "ok",
    }


def _flows(content: dict[str, Any], probes: list[dict[str, Any]]) -> pl.DataFrame:
    facts = {
        key: content[key] for key in ("ID", "Client", "Server", "PacketsSent", "PacketsReceived") if key in content
    }
    flow = {
        "flow": 0,
        "name": "Round-trip time",
        "kind": "probe",
        "direction": "both",
        "runner": "msak",
        "host": _address(content.get("Client")),
        "address": _address(content.get("Client")),
        "start_ns": probes[0]["sent_ns"],
        "end_ns": probes[-1]["sent_ns"],
        "status": "complete",
        "facts": json.dumps({**facts, "round_trips_by": "server"}, sort_keys=True),
    }
    return pl.DataFrame([flow], schema={name: TABLES["flows"][name] for name in flow})


def _address(end: Any) -> str | None:
    return str(end).rpartition(":")[0].strip("[]") or None if isinstance(end, str) else None


def _metadata(
    content: dict[str, Any], path: Path, probes: list[dict[str, Any]], started_ns: int | None
) -> dict[str, Any]:
    length_ns = len(probes) * _MEAN_INTERVAL_NS
    client, server = _address(content.get("Client")), _address(content.get("Server"))
    return {
        "name": "msak-latency1",
        "title": path.stem,
        "status": "complete",
        "failures": [],
        "started_ns": started_ns,
        "ended_ns": None if started_ns is None else started_ns + length_ns,
        "test": {
            "test": "msak-latency1",
            "title": "Latency test of MSAK",
            "length_s": 0.0,
            "delay_s": 0.0,
            "step_s": 0.1,
            "hosts": [client] if client else [],
            "flows": [],
            "computed": [],
            "parameters": {},
            "source": "msak",
        },
        "hosts": {"local": {"name": server}} if server else {},
        "imported": {
            "format": "msak",
            "file": path.name,
            "written_by": f"MSAK {content.get('Version') or ''}".strip(),
            "metadata": {key: value for key, value in content.items() if key != "RoundTrips"},
        },
    }
