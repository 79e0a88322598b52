"""How fast `whydrop study tcp` reads a store: a million synthetic connections, and the study's time over them.

    .venv/bin/python bench/tcp_store.py [--connections 1000000] [--samples 20] [--store FOLDER]

Samples are as those of tcp-info: sorted by test as stores keep them, of 20 sites and 28 days, some connections limited
by their receive window, some by their application, the rest by the path. The store is kept where ``--store`` names it.
Times are of whole processes, the median of five turns. Python's modules are compiled before, as where programs are
installed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from measuring import Series, measure_in_turns

from whydrop.store.store import Store
from whydrop.store.tables import TABLES

TURNS = 5

_DAYS = 28
_SITES = 20
_FIRST = datetime(2019, 5, 1, tzinfo=UTC)
_PATH, _WINDOW, _APPLICATION = range(3)


def main() -> int:
    """Print what was read, and how fast."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=20, help="of each connection")
    parser.add_argument("--store", type=Path, help="keep the store here; used again if it is there")
    parser.add_argument("--read", type=Path, metavar="STORE", help="only make connections of a store's samples")
    wanted = parser.parse_args()
    if wanted.read:
        _read(wanted.read)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        # Python's modules are compiled before, as where programs are installed.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "compiled")
        store = wanted.store or Path(folder) / "store"
        if not store.exists():
            write(store, wanted.connections, wanted.samples)
        rows = wanted.connections * wanted.samples
        measured = [
            Series("connections of samples", [sys.executable, __file__, "--read", str(store)]),
            Series("whole study", [sys.executable, "-m", "whydrop", "study", "tcp", str(store), "--json"]),
        ]
        measure_in_turns(measured, TURNS)
    for one in measured:
        wall, cpu = (rows / seconds / 1e6 for seconds in (one.wall_s(), one.cpu_s()))
        print(f"{one.name}: {one.wall_s():.1f} s, {one.cpu_s():.1f} s of processor:", end=" ")
        print(f"{wall:.1f} million samples/s, {cpu:.1f} for each second of processor")
    return 0


def _read(store: Path) -> None:
    from whydrop.store.engines import open_backend
    from whydrop.studies.tcp import queries

    with open_backend(store) as backend:
        backend.run(queries.connections(backend))


def write(folder: Path, connections: int, samples: int) -> None:
    """A store of so many connections, a part for each day."""
    store = Store.create(folder)
    noise = np.random.default_rng(1)
    for number in range(_DAYS):
        day = _FIRST + timedelta(days=number)
        count = connections // _DAYS + (number < connections % _DAYS)
        store.write_part("tcp", day.strftime("%Y-%m-%d"), "made", of_day(day, number, count, samples, noise))


def of_day(day: datetime, number: int, connections: int, samples: int, noise: np.random.Generator) -> pl.DataFrame:
    """The samples of one day's connections, each of ten seconds."""
    site = noise.integers(0, _SITES, connections)
    limiter = noise.choice(3, connections, p=(0.7, 0.2, 0.1))
    rate = np.exp(noise.normal(np.log(4e6) + site / 20, 1.0, connections))  # bytes a second
    rtt = np.exp(noise.normal(np.log(30e6), 0.6, connections))
    lost = np.where(limiter == _PATH, np.exp(noise.normal(np.log(0.005), 1.0, connections)), 0.0)
    begun = int(day.timestamp()) * 10**9 + np.sort(noise.integers(0, 86_000, connections)) * 10**9
    step = np.tile(np.arange(samples), connections)

    def each(values: np.ndarray) -> np.ndarray:
        return np.repeat(values, samples)

    elapsed = step * (10 * 10**9 // samples)
    acked = (each(rate) * elapsed / 1e9).astype(np.int64)
    segments = acked // 1448
    busy = np.where(each(limiter) == _APPLICATION, elapsed // 4, elapsed)
    client = noise.integers(0, 200_000, connections)
    names = pl.Series(client).cast(pl.UInt32)
    address = pl.select(
        pl.concat_str(
            pl.lit("198."), (18 + names // 65536).cast(pl.String), pl.lit("."), (names // 256 % 256).cast(pl.String),
            pl.lit("."), (names % 256).cast(pl.String),
        )
    ).to_series()  # fmt: skip
    ids = pl.select(pl.format("ndt-x{}_1553815964_{}", pl.lit(number), pl.int_range(connections).cast(pl.String)))
    repeated = np.repeat(np.arange(connections), samples)
    return pl.DataFrame(
        {
            "time_ns": each(begun) + elapsed,
            "test_id": ids.to_series()[repeated],
            "source": ["tcp-info"] * len(step),
            "machine": ["mlab1"] * len(step),
            "site": pl.Series([f"s{place:02d}" for place in site])[repeated],
            "local_address": ["192.0.2.1"] * len(step),
            "local_port": np.full(len(step), 443),
            "remote_address": address[repeated],
            "remote_port": each(noise.integers(1024, 65536, connections)),
            "state": ["ESTABLISHED"] * len(step),
            "acked_bytes": acked,
            "received_bytes": np.full(len(step), 1000),
            "sent_segments": segments,
            "retransmitted_segments": (segments * each(lost)).astype(np.int64),
            "congestion_window_bytes": (each(rate) * each(rtt) / 1e9).astype(np.int64),
            "mss_bytes": np.full(len(step), 1448),
            "srtt_ns": (each(rtt) * noise.uniform(1.0, 1.3, len(step))).astype(np.int64) // 1000 * 1000,
            "min_rtt_ns": each(rtt.astype(np.int64)) // 1000 * 1000,
            "busy_ns": busy,
            "receiver_limited_ns": np.where(each(limiter) == _WINDOW, busy * 9 // 10, 0),
            "send_buffer_limited_ns": np.zeros(len(step), dtype=np.int64),
        }
    ).select(
        pl.col(name).cast(kind) if name in _MADE else pl.lit(None, dtype=kind).alias(name)
        for name, kind in TABLES["tcp"].items()
    )


_MADE = {
    "time_ns", "test_id", "source", "machine", "site", "local_address", "local_port", "remote_address", "remote_port",
    "state", "acked_bytes", "received_bytes", "sent_segments", "retransmitted_segments", "congestion_window_bytes",
    "mss_bytes", "srtt_ns", "min_rtt_ns", "busy_ns", "receiver_limited_ns", "send_buffer_limited_ns",
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
