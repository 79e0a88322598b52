"""Stores of a few rows, for tests of what is computed over them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.store.store import Store
from whydrop.store.tables import TABLES, TIME

SECOND = 1_000_000_000
BIN = 10 * SECOND
DAY = 86_400 * SECOND
#: 2018-02-11, the first day of the report's comparison.
START = int(datetime(2018, 2, 11, tzinfo=UTC).timestamp()) * SECOND

Row = dict[str, Any]


def sample(counter: str = "octets.tx", end: int = BIN, value: float | None = 0.0, **more: Any) -> Row:
    """A row of ``counters``; ``end`` in ns after `START`."""
    row: Row = {
        "end_ns": START + end, "span_ns": BIN, "metro": "dfw", "site": "dfw01", "switch": "s1.dfw01",
        "machine": "mlab1", "port": "uplink", "counter": counter, "value": value, "quality": "ok",
    }  # fmt: skip
    return row | more


def series(counter: str, values: Iterable[float | None], start: int = 0, **more: Any) -> list[Row]:
    """Samples of a counter, bin after bin from ``start`` on, ns after `START`."""
    return [sample(counter, start + (number + 1) * BIN, value, **more) for number, value in enumerate(values)]


def download(start: int = 0, seconds: float = 10.0, client: str | None = "192.0.2.1", **more: Any) -> Row:
    """A row of ``ndt``: a download of 10 MB; ``start`` in ns after `START`."""
    elapsed = round(seconds * SECOND)
    row: Row = {
        "time_ns": START + start, "start_ns": START + start, "end_ns": START + start + elapsed,
        "test_id": f"{start}-{client}", "protocol": "web100", "direction": "download", "metro": "dfw",
        "site": "dfw01", "machine": "mlab1", "server": "ndt.iupui.mlab1.dfw01.measurement-lab.org",
        "local_address": "192.0.2.200", "local_port": 3001, "remote_address": client, "remote_port": 40_000,
        "duration_ns": elapsed + SECOND, "acked_bytes": 10_000_000, "sent_segments": 7000,
        "retransmitted_segments": 7, "receiver_limited_ns": 0, "congestion_limited_ns": elapsed,
        "sender_limited_ns": 0,
    }  # fmt: skip
    return row | more


def write(
    folder: Path,
    counters: Iterable[Row] = (),
    ndt: Iterable[Row] = (),
    tcp: Iterable[Row] = (),
    **others: Iterable[Row],
) -> Path:
    """A store of these rows; ``others`` are of further tables, by name."""
    store = Store.create(folder)
    for table, given in {"counters": counters, "ndt": ndt, "tcp": tcp, **others}.items():
        rows = list(given)
        frame = pl.DataFrame(rows, schema=TABLES[table]) if rows else pl.DataFrame(schema=TABLES[table])
        day = pl.from_epoch(TIME[table], time_unit="ns").dt.strftime("%Y-%m-%d").alias("day")
        for (name,), part in frame.with_columns(day).group_by("day"):
            store.write_part(table, str(name), "made", part.drop("day"))
    return folder
