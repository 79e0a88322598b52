"""The last reading of each switch, from which the next collector continues.

Counters go on while no collector runs. A collector that knows the last totals can compute the growth since, as it does
after missed polls, if the clocks of the switch and of this host prove that the counter went on (`moments`).

Growth must never be counted twice: a switch of which the store has newer rows, from any collector, is left out.
"""

from __future__ import annotations

import functools
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from whydrop.monitoring.switches.elapsed import Moment, same_pace

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Older readings are of switches that are no longer polled, or would take long to compare with the store.
MOST_AGE_NS = 24 * 3_600_000_000_000
_PART = re.compile(r"\d\d-.+\.parquet")


@dataclass(frozen=True)
class LastReading:
    """The counters of one switch as they were last stored.

    Attributes:
        asked_at: address and port of the switch.
        boot: identifier of this host's boot; None: not known.
        at: when the counters were read.
        counters: by port, machine and name: the index, the object's identifier, and the total.
    """

    switch: str
    asked_at: str | None
    boot: str | None
    at: Moment
    counters: dict[tuple[str, str | None, str], tuple[int, str, int]]


def recent(readings: Iterable[LastReading], wall_ns: int, steady_ns: int) -> dict[str, LastReading]:
    """The readings of the last day, by switch; those of another boot of this host without their steady clock.

    Args:
        readings: as they were stored.
        wall_ns: the wall clock now.
        steady_ns: CLOCK_BOOTTIME now.
    """
    found = {}
    for one in readings:
        if wall_ns - one.at.at_ns <= MOST_AGE_NS:
            same = _same_boot(one, wall_ns, steady_ns)
            found[one.switch] = one if same else replace(one, at=replace(one.at, steady_ns=None))
    return found


def newest_in_parts(store: Path, since_ns: int) -> dict[str, int]:
    """When each switch was last read according to the store's Parquet files, of those read after ``since_ns``."""
    newest: dict[str, int] = {}
    for rows in _rows_since(store, since_ns):
        for switch, end_ns in rows.group_by("switch").agg(pl.col("end_ns").max()).collect().iter_rows():
            newest[switch] = max(newest.get(switch, end_ns), end_ns)
    return newest


def newest_in_database(path: Path) -> dict[str, int]:
    """When each switch was last read according to a collector's database; the collector may be running.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
    try:
        return dict(database.execute("SELECT switch, at_ns FROM last_reading"))
    finally:
        database.close()


@functools.cache
def boot() -> str | None:
    """The identifier of this boot of the machine; ``None`` where it has none."""
    with suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return None


def _same_boot(before: LastReading, wall_ns: int, steady_ns: int) -> bool:
    """True if CLOCK_BOOTTIME has been going on since."""
    now = boot()
    if before.boot is not None and now is not None:
        return before.boot == now
    at = before.at
    # Two clocks over which the same time passed were not restarted.
    return at.steady_ns is not None and same_pace(wall_ns - at.at_ns, steady_ns - at.steady_ns)


def _rows_since(store: Path, since_ns: int) -> Iterator[pl.LazyFrame]:
    since = time.strftime("day=%Y-%m-%d %H", time.gmtime(since_ns // 1_000_000_000))
    for path in (store / "counters").glob("day=*/*.parquet"):
        # The name of a collector's part begins with its hour; that of a compacted part does not.
        hour = path.name[:2] if _PART.fullmatch(path.name) else "24"
        if f"{path.parent.name} {hour}" >= since:
            yield pl.scan_parquet(path, hive_partitioning=False).filter(pl.col("end_ns") > since_ns)
