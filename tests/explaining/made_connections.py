"""Samples of one connection with a known limit, as a watch has them: 10 ms apart, in the columns of ``tcp_info``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import recordings
from whydrop.recording import tables
from whydrop.recording.recording import Recording

MSS = 1448
EVERY_NS = 10_000_000
BASE_NS = 40_000_000
NAME = "192.0.2.1:50000 > 198.51.100.7:443"


def samples(count: int = 800, **columns: Any) -> pl.DataFrame:
    """Samples of a flow that carries 100 packets each round trip of 40 ms, unless columns say otherwise."""
    seconds = np.arange(count) * EVERY_NS / 1e9
    acked = (seconds * 100 * MSS / (BASE_NS / 1e9)).astype(np.int64)
    plain = {
        "congestion_window_packets": 100,
        "unacked_packets": 100,
        "slow_start_threshold_packets": 80,
        "srtt_ns": BASE_NS,
        "min_rtt_ns": BASE_NS,
        "mss_bytes": MSS,
        "not_sent_bytes": 500_000,
        "send_window_bytes": 4_000_000,
        "send_buffer_bytes": 4_000_000,
        "send_memory_bytes": 1_000_000,
        "pacing_rate_bps": 1.2 * 100 * MSS * 8e9 / BASE_NS,
        "retransmitted_packets": 0,
        "acked_bytes": acked,
        "congestion_state": "open",
    }
    given = {name: value if np.ndim(value) else np.full(count, value) for name, value in (plain | columns).items()}
    times = recordings.START_NS + np.arange(count) * EVERY_NS
    frame = pl.DataFrame({"flow": np.zeros(count, np.int32), "time_ns": times, **given}, strict=False)
    return tables.conform("tcp_info", frame)


def clocks(count: int = 800, *, busy: float = 1.0, window: float = 0.0, buffer: float = 0.0) -> dict[str, Any]:
    """Linux's limited times as shares of all the time."""
    elapsed = np.arange(count) * EVERY_NS
    names = ("busy_ns", "receive_window_limited_ns", "send_buffer_limited_ns")
    return {name: (elapsed * share).astype(np.int64) for name, share in zip(names, (busy, window, buffer), strict=True)}


def connection(rows: pl.DataFrame, control: str = "cubic", **facts: Any) -> Recording:
    """The recording of a watch in which the connection was."""
    first, last = rows["time_ns"][0], rows["time_ns"][-1]
    edges = rows["time_ns"].to_numpy()[::20]
    acked = rows["acked_bytes"].to_numpy()[::20]
    flow = {
        "flow": 0, "name": NAME, "kind": "tcp", "direction": "up", "runner": "kernel", "host": "198.51.100.7",
        "address": "198.51.100.7", "congestion_control": control, "start_ns": first, "end_ns": last,
        "payload_bytes": int(acked[-1] - acked[0]), "status": "complete", "facts": json.dumps({"cookie": 7, **facts}),
    }  # fmt: skip
    intervals = pl.DataFrame(
        {"flow": 0, "start_ns": edges[:-1], "end_ns": edges[1:], "payload_bytes": np.diff(acked)}, strict=False
    )
    metadata = {"name": "watch", "status": "complete", "started_ns": first, "test": {"step_s": 0.2}}
    parts = {"flows": pl.DataFrame([flow]), "tcp_info": rows, "intervals": intervals}
    return Recording(Path("made.recording"), metadata, parts)
