"""Small synthetic recordings, so that readers are tested apart from measurements."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.importing import open_recording
from whydrop.recording.recording import Recording
from whydrop.recording.writer import RecordingWriter

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000
S = 1_000_000_000

# Two flows in each direction for ten seconds, from second 2 on, and two streams of probes for 14 seconds.
UPLOADS = ("TCP upload BE", "TCP upload EF")
DOWNLOADS = ("TCP download BE", "TCP download EF")
PINGS = ("Ping (ms) UDP BE", "Ping (ms) ICMP")
LENGTH_S, DELAY_S, STEP_S = 10.0, 2.0, 0.2

IDLE_RTT_MS, LOADED_RTT_MS = 20.0, 80.0


def metadata(**changes: Any) -> dict[str, Any]:
    """The content of ``recording.json`` of :func:`rrul`."""
    flows = [
        *({"name": name, "kind": "tcp", "direction": "up", **_load()} for name in UPLOADS),
        *({"name": name, "kind": "tcp", "direction": "down", **_load()} for name in DOWNLOADS),
        *(
            {
                "name": name,
                "kind": "icmp" if "ICMP" in name else "probe",
                "start_s": 0.0,
                "duration_s": LENGTH_S + 2 * DELAY_S,
                "interval_s": STEP_S,
            }
            for name in PINGS
        ),
    ]
    computed = [
        {"name": "TCP upload sum", "by": "sum", "of": ["TCP upload*"], "units": "Mbit/s"},
        {"name": "TCP download avg", "by": "mean", "of": ["TCP download*"], "units": "Mbit/s"},
        {"name": "TCP totals", "by": "sum", "of": ["TCP upload*", "TCP download*"], "units": "Mbit/s"},
        {"name": "Upload fairness", "by": "fairness", "of": ["TCP upload*"], "units": ""},
        {"name": "Ping (ms) avg", "by": "mean", "of": ["Ping (ms)*"], "units": "ms"},
    ]
    test = {
        "test": "rrul",
        "title": "Realtime response under load",
        "length_s": LENGTH_S,
        "delay_s": DELAY_S,
        "step_s": STEP_S,
        "hosts": ["server.example"],
        "flows": flows,
        "computed": computed,
        "parameters": {},
        "default_plot": None,
        "plots": [],
        "source": "rrul",
    }
    return {
        "name": "rrul",
        "title": "synthetic",
        "started_ns": START_NS,
        "ended_ns": START_NS + 14 * S,
        "test": test,
        "hosts": {"local": {"host_name": "client.example"}},
        **changes,
    }


def tables(scale: float = 1.0) -> dict[str, pl.DataFrame]:
    """The tables of :func:`rrul`; ``scale`` multiplies goodput and induced delay."""
    names = [*UPLOADS, *DOWNLOADS, *PINGS]
    return {
        "flows": pl.DataFrame([_flow(number, name) for number, name in enumerate(names)]),
        "intervals": pl.concat([_intervals(number, scale) for number in range(4)]),
        "tcp_info": pl.concat([_tcp_info(number) for number in range(2)]),
        "probes": pl.concat([_probes(4, scale, one_way=True), _probes(5, scale, one_way=False)]),
        "counters": _counters(),
    }


def rrul(folder: Path, *, scale: float = 1.0, **changes: Any) -> Recording:
    """A small recording in ``folder`` (which is made): an RRUL over a synthetic path.

    Flow n (0 to 3) has a goodput of (n + 1) * scale Mbit/s in every interval of 0.2 s; the round-trip time is 20 ms,
    and 20 + 60 * scale ms while there is load; every 25th UDP probe is lost upstream.
    """
    return write(folder, tables(scale), **changes)


def write(folder: Path, frames: dict[str, pl.DataFrame], status: str = "complete", **changes: Any) -> Recording:
    """A recording of these tables in ``folder``."""
    writer = RecordingWriter(folder, metadata(**changes))
    for name, frame in frames.items():
        writer.append(name, frame)
    return open_recording(writer.finish(status))


def _load() -> dict[str, Any]:
    return {"host": "server.example", "start_s": DELAY_S, "duration_s": LENGTH_S, "interval_s": STEP_S}


def _flow(number: int, name: str) -> dict[str, Any]:
    loaded = number < 4
    start_ns = START_NS + (int(DELAY_S * S) if loaded else 0)
    return {
        "flow": number,
        "name": name,
        "kind": "tcp" if loaded else "icmp" if "ICMP" in name else "probe",
        "direction": ("up", "up", "down", "down", "both", "both")[number],
        "runner": "engine",
        "host": "server.example",
        "address": "192.0.2.7",
        "ip_version": 4,
        "dscp": 46 if name.endswith("EF") else 0,
        "congestion_control": "cubic" if loaded else None,
        "start_ns": start_ns,
        "end_ns": START_NS + int((DELAY_S + LENGTH_S if loaded else LENGTH_S + 2 * DELAY_S) * S),
        "status": "complete",
    }


def _intervals(flow: int, scale: float) -> pl.DataFrame:
    bps = (flow + 1) * 1e6 * scale
    starts = [START_NS + int(DELAY_S * S) + step * 200 * MS for step in range(50)]
    return pl.DataFrame(
        {
            "flow": flow,
            "start_ns": starts,
            "end_ns": [start + 200 * MS for start in starts],
            "payload_bytes": round(bps * 0.2 / 8),
            "goodput_bps": bps,
        }
    )


def _tcp_info(flow: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "flow": flow,
            "time_ns": [START_NS + int(DELAY_S * S) + step * 200 * MS for step in range(50)],
            "congestion_window_packets": [10 + step for step in range(50)],
            "srtt_ns": 80 * MS,
            "rtt_variation_ns": 2 * MS,
            "mss_bytes": 1448,
            "retransmitted_packets": [step // 10 for step in range(50)],
            "pacing_rate_bps": 1.2e6,
            "delivery_rate_bps": 1.0e6,
        }
    )


def _probes(flow: int, scale: float, *, one_way: bool) -> pl.DataFrame:
    rows = []
    for sequence in range(70):
        at_s = sequence * STEP_S
        load = DELAY_S <= at_s < DELAY_S + LENGTH_S
        wave = math.sin(sequence)  # so that not all samples are the same
        rtt_ms = IDLE_RTT_MS + wave + ((LOADED_RTT_MS - IDLE_RTT_MS) * scale if load else 0.0)
        lost = one_way and sequence % 25 == 24
        scheduled_ns = START_NS + sequence * 200 * MS
        rtt_ns = round(rtt_ms * MS)
        rows.append(
            {
                "flow": flow,
                "sequence": sequence,
                "scheduled_ns": scheduled_ns,
                "sent_ns": scheduled_ns,
                "received_ns": None if lost else scheduled_ns + rtt_ns,
                "rtt_ns": None if lost else rtt_ns,
                "up_ns": None if lost or not one_way else rtt_ns - 10 * MS,
                "down_ns": None if lost or not one_way else 10 * MS,
                "fate": "lost-up" if lost else "ok",
                "duplicates": 0,
                "reordered": False,
                "payload_bytes": 64,
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _counters() -> pl.DataFrame:
    times = [START_NS + step * 1000 * MS for step in range(15)]
    one = {"time_ns": times, "host": "local"}
    return pl.concat(
        [
            pl.DataFrame(
                {
                    **one,
                    "source": "qdisc",
                    "object": "eth0 fq_codel 8001:",
                    "counter": "dropped_packets",
                    "value": [float(step * 3) for step in range(15)],
                    "cumulative": True,
                }
            ),
            pl.DataFrame(
                {
                    **one,
                    "source": "qdisc",
                    "object": "eth0 fq_codel 8001:",
                    "counter": "backlog_bytes",
                    "value": [1500.0 * step for step in range(15)],
                    "cumulative": False,
                }
            ),
        ]
    )
