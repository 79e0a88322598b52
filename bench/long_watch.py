"""The cost of a long watch on disk, and how fast it is drawn: eight hours of two connections at 100 ms.

    .venv/bin/python bench/long_watch.py [--hours 8] [--connections 2] [--every 0.1]

Rows are synthetic, in the sampler's form, and written by the writer of `whydrop watch`: busy uploads with counters,
windows and round-trip times that change at every poll, which compresses worst. Plots are drawn by the command itself,
its start included; the page is what `whydrop report` adds to the verdicts.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from whydrop.formats.importing import open_recording
from whydrop.recording.writer import RecordingWriter, folder_for
from whydrop.show import html, recordings
from whydrop.show.document import Document

_START_NS = 1_800_000_000_000_000_000
_BATCH_S = 0.5
_MSS = 1448
PLOTS = ("tcp_cwnd", "tcp_limits", "tcp_cwnd_throughput", "tcp_rtt_kinds")


def main() -> int:
    """Print sizes and times."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--every", type=float, default=0.1, help="seconds between two polls")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        recording = write(Path(folder), wanted.hours * 3600, wanted.every, wanted.connections)
        size = sum(file.stat().st_size for file in recording.rglob("*") if file.is_file())
        print(f"{wanted.hours:g} h of {wanted.connections} connections every {wanted.every:g} s: {size / 1e6:.1f} MB")
        for plot in PLOTS:
            command = [
                sys.executable,
                "-m",
                "whydrop",
                "plot",
                str(recording),
                "-p",
                plot,
                "-o",
                f"{folder}/{plot}.png",
            ]
            taken_s, cpu_s = _timed(command)
            print(f"whydrop plot -p {plot}: {taken_s:.2f} s, {cpu_s:.2f} s of processor")
        begun, begun_cpu = time.perf_counter(), time.process_time()
        plots = recordings.plots(open_recording(recording))
        content = html.page(Document("bench", (plots,)))
        figures = content.count('class="panels"')
        taken_s, cpu_s = time.perf_counter() - begun, time.process_time() - begun_cpu
        size_mb = len(content) / 1e6
        print(f"{figures} plots of a page: {taken_s:.2f} s, {cpu_s:.2f} s of processor, {size_mb:.1f} MB")
    return 0


def _timed(command: list[str]) -> tuple[float, float]:
    """Seconds that a command takes, and its processor time, which other load distorts less."""
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def write(parent: Path, seconds: float, every_s: float, connections: int) -> Path:
    """A recording as a watch leaves it."""
    metadata = {
        "name": "watch",
        "started_ns": _START_NS,
        "test": {"test": "watch", "title": "Connections of this host", "step_s": max(every_s, 0.2)},
    }
    writer = RecordingWriter(folder_for(parent, "watch", _START_NS), metadata)
    count = int(seconds / every_s)
    tables: dict[str, list[pl.DataFrame]] = {"tcp_info": [], "intervals": []}
    for flow in range(connections):
        rows = samples(2 * flow, count, every_s, np.random.default_rng(flow))
        tables["tcp_info"].append(rows)
        tables["intervals"].append(_intervals(rows, max(1, round(0.2 / every_s))))
    flows = [_flow(2 * flow, intervals) for flow, intervals in enumerate(tables["intervals"])]
    writer.append("flows", pl.DataFrame(flows))
    polls = {"start_ns": rows["time_ns"] - 30_000, "end_ns": rows["time_ns"] + 20_000, "cpu_ns": 40_000, "sockets": 2}
    frames = {name: pl.concat(parts).sort(parts[0].columns[1]) for name, parts in tables.items()}
    frames["polls"] = pl.DataFrame(polls).with_columns(missed=0, interrupted=pl.lit(False))
    batch = max(1, round(_BATCH_S / every_s))
    for name, frame in frames.items():
        # What half a second has, 600 times: as the journal has merged it after five minutes.
        for first in range(0, frame.height, batch * connections * 600):
            writer.append(name, frame.slice(first, batch * connections * 600))
            writer.flush()
    return writer.finish("complete")


def _flow(flow: int, intervals: pl.DataFrame) -> dict[str, Any]:
    return {
        "flow": flow,
        "name": f"192.0.2.1:{40000 + flow} > 198.51.100.7:443",
        "kind": "tcp",
        "direction": "up",
        "host": "198.51.100.7",
        "congestion_control": "cubic",
        "start_ns": intervals["start_ns"][0],
        "end_ns": intervals["end_ns"][-1],
        "payload_bytes": intervals["payload_bytes"].sum(),
        "status": "stopped",
        "facts": f'{{"cookie": {flow + 1}}}',
    }


def samples(flow: int, count: int, every_s: float, noise: np.random.Generator) -> pl.DataFrame:
    """CUBIC on a path of 100 Mbit/s and 20 ms with a queue of 20 ms, as the kernel reports it."""
    times = _START_NS + np.arange(count) * round(every_s * 1e9) + noise.integers(0, 200_000, count)
    saw = (np.arange(count) * every_s + noise.normal(0, 0.05, count)) % 7.0 / 7.0
    window = (120 + 160 * saw**3 + noise.integers(0, 3, count)).astype(np.int64)
    srtt = (20e6 + 20e6 * np.clip(saw - 0.5, 0, 1) + noise.normal(0, 3e5, count)).astype(np.int64) // 1000 * 1000
    packets = np.cumsum((window * every_s / (srtt / 1e9) * noise.uniform(0.97, 1.0, count)).astype(np.int64))
    again = np.cumsum((np.diff(saw, prepend=0.0) < -0.5) * noise.integers(1, 30, count))
    busy = np.arange(count) * round(every_s * 1e9) // 1_000_000 * 1_000_000
    return pl.DataFrame(
        {
            "flow": np.full(count, flow, dtype=np.int32),
            "time_ns": times,
            "congestion_window_packets": window,
            "slow_start_threshold_packets": np.repeat(window[:: int(7 / every_s)] // 2 + 60, int(7 / every_s))[:count],
            "srtt_ns": srtt,
            "rtt_variation_ns": noise.integers(100, 3000, count) * 1000,
            "min_rtt_ns": np.full(count, 20_000_000),
            "mss_bytes": np.full(count, _MSS),
            "unacked_packets": np.maximum(0, window - noise.integers(0, 20, count)),
            "lost_packets": np.zeros(count, dtype=np.int64),
            "retransmitted_packets": again,
            "retransmitted_bytes": again * _MSS,
            "acked_bytes": packets * _MSS,
            "sent_bytes": (packets + again) * _MSS + window * _MSS,
            "delivered_packets": packets,
            "sent_packets": packets + again + window,
            "received_packets": packets // 2,
            "sent_data_packets": packets + again + window,
            "delivery_rate_bps": window * _MSS * 8 / (srtt / 1e9),
            "pacing_rate_bps": 1.2 * window * _MSS * 8 / (srtt / 1e9),
            "busy_ns": busy,
            "receive_window_limited_ns": busy // 50 // 1_000_000 * 1_000_000,
            "send_buffer_limited_ns": np.zeros(count, dtype=np.int64),
            "not_sent_bytes": noise.integers(0, 2000, count) * _MSS,
            "reordering_packets": np.full(count, 3),
            "state": ["established"] * count,
            "congestion_state": np.where(noise.random(count) < 0.02, "recovery", "open"),
            "timeout_ns": srtt + 200_000_000,
            "since_data_sent_ns": noise.integers(0, 5, count) * 1_000_000,
            "since_ack_received_ns": noise.integers(0, 5, count) * 1_000_000,
            "send_window_bytes": np.full(count, 3_000_000) - noise.integers(0, 50, count) * _MSS,
            "receive_window_bytes": np.full(count, 65_536),
            "send_queue_bytes": window * _MSS,
            "send_memory_bytes": window * 2304,
            "send_buffer_bytes": np.full(count, 4_194_304),
        }
    )


def _intervals(rows: pl.DataFrame, polls: int) -> pl.DataFrame:
    ends = rows.gather_every(polls)
    start, payload = pl.col("time_ns").shift(), pl.col("acked_bytes").diff()
    spans = ends.select("flow", start_ns=start, end_ns="time_ns", payload_bytes=payload).slice(1)
    return spans.with_columns(goodput_bps=pl.col("payload_bytes") * 8e9 / (pl.col("end_ns") - pl.col("start_ns")))


if __name__ == "__main__":
    sys.exit(main())
