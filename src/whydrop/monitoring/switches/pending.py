"""The database of a collector: polls that are not in the store yet, and the last reading of each switch.

SQLite in WAL mode. Rows and the state of their counters are written in one transaction, so a crash, a loss of power or
a full disk leaves both as they were after the last transaction. Rows are kept as chunks of a minute (Arrow, zstd): a
row of its own in SQLite for each sample would take ten times the bytes.

Counters go on while no collector runs. A collector that knows the last totals can compute the growth since, as it does
after missed polls, if the clocks of the switch and of this host prove that the counter went on (`elapsed`). Growth must
never be counted twice: a switch of which the store has newer rows, from any collector, is left out.
"""

from __future__ import annotations

import functools
import io
import json
import re
import sqlite3
import time
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.monitoring.switches.disco_files import DiscoFile, DiscoSample
from whydrop.monitoring.switches.elapsed import Moment, moment, same_pace
from whydrop.monitoring.switches.readings import Counter, Port, Reading
from whydrop.store import tables

NAME = "pending.sqlite"
# synchronous=FULL: a committed minute survives a loss of power. SQLite copies the log into the database only at
# `settle`, after most rows went into the store and their pages were dropped: so a row is written once, not twice. The
# cache has room for all pages that are dropped at once, or SQLite would write those to the log first.
_SETUP = """
PRAGMA page_size = 1024;
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA secure_delete = OFF;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA wal_autocheckpoint = 0;
PRAGMA cache_size = -65536;
BEGIN;
CREATE TABLE IF NOT EXISTS chunk (
    id INTEGER PRIMARY KEY, name TEXT, hour INTEGER, part INTEGER, rows INTEGER, content BLOB
);
CREATE TABLE IF NOT EXISTS disco_chunk (id INTEGER PRIMARY KEY, hostname TEXT, began_s INTEGER, content BLOB);
CREATE TABLE IF NOT EXISTS last_reading (
    switch TEXT PRIMARY KEY, asked_at TEXT, boot TEXT, at_ns INTEGER, steady_ns INTEGER, uptime_ns INTEGER,
    poll_ns INTEGER, totals BLOB
);
CREATE TABLE IF NOT EXISTS counters (switch TEXT PRIMARY KEY, content BLOB); -- of which the totals are; seldom change
COMMIT;
"""
_TABLES = ("chunk", "disco_chunk", "last_reading", "counters")
_COMPRESSION_LEVEL = 1
_MOST_LOG_BYTES = 64 * 2**20
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# Older readings are of switches that are no longer polled, or would take long to compare with the store.
MOST_AGE_NS = 24 * 3_600_000_000_000
_HOUR_NS = 3_600_000_000_000
_PART = re.compile(r"\d\d-.+\.parquet")


@dataclass(frozen=True)
class Part:
    """Rows of one table and hour (since the epoch) that make one Parquet file of the store.

    Attributes:
        number: of the file among those of the hour, from 1.
    """

    table: str
    hour: int
    number: int
    rows: int

    @property
    def _key(self) -> tuple[str, int, int]:
        return self.table, self.hour, self.number


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


class Pending:
    """The database of one collector."""

    def __init__(self, path: Path) -> None:
        """Open the database, or make it.

        Raises:
            sqlite3.DatabaseError: the file is damaged.
            sqlite3.OperationalError: it cannot be opened.
        """
        self.path = path
        self._rescued: dict[str, list[tuple[Any, ...]]] = {}
        self._counters: dict[str, list[tuple[Port, Counter]]] = {}  # the rows of `counters` that were written here
        self._open()
        (state,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
        if state != "ok":
            self._db.close()
            raise sqlite3.DatabaseError(state)

    def _open(self) -> None:
        self._db = sqlite3.connect(self.path, check_same_thread=False)
        try:
            self._db.executescript(_SETUP)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Copy the log into the database, and close it."""
        with suppress(sqlite3.Error):
            self._drop_free_pages()
        self._db.close()

    def add(
        self,
        chunks: Iterable[tuple[Part, pl.DataFrame]],
        readings: Iterable[Reading],
        samples: Mapping[DiscoFile, list[DiscoSample]],
    ) -> None:
        """Make polls durable, all of them or none.

        Args:
            chunks: rows, and the part to which they belong.
            readings: the last one of each switch, to which the rows lead.
            samples: of files of DISCO.

        Raises:
            sqlite3.Error: the disk does not take them.
        """
        rows = [(*part._key, frame.height, _encoded(frame)) for part, frame in chunks]
        states, counters = [], {}
        for reading in readings:
            states.append(_state(reading))
            known = list(reading.values)
            if self._counters.get(reading.switch) != known:
                counters[reading.switch] = known
        disco = [(file.hostname, file.began_s, _packed(of_file)) for file, of_file in samples.items()]
        with self._db:
            self._db.executemany("INSERT INTO chunk (name, hour, part, rows, content) VALUES (?, ?, ?, ?, ?)", rows)
            self._db.executemany("INSERT OR REPLACE INTO last_reading VALUES (?, ?, ?, ?, ?, ?, ?, ?)", states)
            self._db.executemany(
                "INSERT OR REPLACE INTO counters VALUES (?, ?)",
                [
                    (switch, _packed(list(zip(*map(_identity, known), strict=True))))
                    for switch, known in counters.items()
                ],
            )
            self._db.executemany("INSERT INTO disco_chunk (hostname, began_s, content) VALUES (?, ?, ?)", disco)
        self._counters |= counters

    def parts(self) -> list[Part]:
        """The parts of which rows are here, in order."""
        query = "SELECT name, hour, part, SUM(rows) FROM chunk GROUP BY name, hour, part ORDER BY name, hour, part"
        return [Part(*row) for row in self._db.execute(query)]

    def rows(self, part: Part) -> tuple[pl.DataFrame, int]:
        """The rows of a part, and how many are lost because their chunk is damaged."""
        frames, lost = [pl.DataFrame(schema=tables.TABLES[part.table])], 0
        query = "SELECT rows, content FROM chunk WHERE (name, hour, part) = (?, ?, ?) ORDER BY id"
        for count, content in self._db.execute(query, part._key):
            try:
                frames.append(tables.conform(part.table, pl.read_ipc_stream(zlib.decompress(content))))
            except zlib.error:
                lost += count
        return pl.concat(frames), lost

    def forget(self, part: Part) -> None:
        """Remove the rows of a part: the store has them."""
        with self._db:
            self._db.execute("DELETE FROM chunk WHERE (name, hour, part) = (?, ?, ?)", part._key)

    def disco_files(self) -> list[DiscoFile]:
        """The files of DISCO of which samples are here, oldest first."""
        query = "SELECT DISTINCT hostname, began_s FROM disco_chunk ORDER BY began_s, hostname"
        return [DiscoFile(*row) for row in self._db.execute(query)]

    def disco_samples(self, file: DiscoFile) -> Iterator[DiscoSample]:
        """The samples of a file of DISCO, in the order in which they were taken."""
        query = "SELECT content FROM disco_chunk WHERE (hostname, began_s) = (?, ?) ORDER BY id"
        for (content,) in self._db.execute(query, (file.hostname, file.began_s)).fetchall():
            yield from (tuple(sample) for sample in _unpacked(content))

    def forget_disco(self, file: DiscoFile) -> None:
        """Remove the samples of a file of DISCO: it is written."""
        with self._db:
            self._db.execute(
                "DELETE FROM disco_chunk WHERE (hostname, began_s) = (?, ?)", (file.hostname, file.began_s)
            )

    def last_readings(self) -> list[LastReading]:
        """The last reading of each switch."""
        query = "SELECT last_reading.*, content FROM last_reading JOIN counters USING (switch)"
        return [_last_reading(*row) for row in self._db.execute(query)]

    def settle(self) -> None:
        """Copy a log that became large into the database, without the pages of removed rows, and empty it.

        Raises:
            sqlite3.Error: the disk does not take it; nothing is lost.
        """
        log = self.path.with_name(f"{self.path.name}-wal")
        if log.exists() and log.stat().st_size > _MOST_LOG_BYTES:
            self._drop_free_pages()
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _drop_free_pages(self) -> None:
        self._db.executescript("PRAGMA incremental_vacuum")

    def recreate(self) -> None:
        """Write the database again: its files were removed while they were open, which leaves their content readable.

        Raises:
            OSError, sqlite3.Error: it cannot be written; a later call tries again.
        """
        if not self._rescued:
            self._rescued = {name: self._db.execute(f"SELECT * FROM {name}").fetchall() for name in _TABLES}
        self._db.close()
        self._open()
        with self._db:
            for name, rows in self._rescued.items():
                for row in rows:
                    self._db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        self._rescued = {}


def _encoded(frame: pl.DataFrame) -> bytes:
    content = io.BytesIO()
    # Growth is nearly always whole, and whole numbers are compressed better.
    whole = frame.with_columns(pl.col(pl.Float64).cast(pl.Int64, strict=False))
    is_same = whole.cast(frame.schema).equals(frame)
    (whole if is_same else frame).write_ipc_stream(content, compression="zstd")
    # Of a few rows most is the schema, which Arrow does not compress.
    return zlib.compress(content.getvalue(), _COMPRESSION_LEVEL)


def _packed(content: Any) -> bytes:
    return zlib.compress(json.dumps(content, separators=(",", ":")).encode(), _COMPRESSION_LEVEL)


def _unpacked(content: bytes) -> Any:
    return json.loads(zlib.decompress(content))


def _identity(pair: tuple[Port, Counter]) -> tuple[str, str | None, str, int, str]:
    port, counter = pair
    return port.name, port.machine, counter.name, port.index, counter.oid + counter.suffix


def _state(reading: Reading) -> tuple[Any, ...]:
    at = moment(reading, 0)
    assert at is not None
    totals = array("Q", reading.values.values()).tobytes()
    # The first bytes of all totals, then the second ones, and so on: the high ones are nearly all zero.
    planes = b"".join(totals[place::8] for place in range(8))
    times = (at.at_ns, at.steady_ns, at.uptime_ns, at.poll_ns)
    return reading.switch, reading.asked_at, boot(), *times, zlib.compress(planes, _COMPRESSION_LEVEL)


def _last_reading(
    switch: str,
    asked_at: str | None,
    boot: str | None,
    at_ns: int,
    steady_ns: int | None,
    uptime_ns: int | None,
    poll_ns: int,
    planes: bytes,
    counters: bytes,
) -> LastReading:
    at = Moment(0, at_ns, steady_ns, uptime_ns, poll_ns, earlier_run=True)
    of_bytes = zlib.decompress(planes)
    count = len(of_bytes) // 8
    totals = array("Q", b"".join(of_bytes[place::count] for place in range(count)))
    series = {
        (port, machine, name): (index, oid, total)
        for port, machine, name, index, oid, total in zip(*_unpacked(counters), totals, strict=True)
    }
    return LastReading(switch, asked_at, boot, at, series)


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


def rows_in_database(path: Path, table: str, since_ns: int) -> pl.DataFrame:
    """Rows of a table that a collector has not put into the store yet, of hours that end after ``since_ns``.

    Raises:
        sqlite3.Error: the database cannot be read.
    """
    frames = [pl.DataFrame(schema=tables.TABLES[table])]
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)
    try:
        query = "SELECT content FROM chunk WHERE name = ? AND hour >= ? ORDER BY id"
        for (content,) in database.execute(query, (table, since_ns // _HOUR_NS)):
            # A damaged chunk: the collector says so when it writes the part.
            with suppress(zlib.error):
                frames.append(tables.conform(table, pl.read_ipc_stream(zlib.decompress(content))))
    finally:
        database.close()
    return pl.concat(frames)


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
            yield pl.scan_parquet(path, glob=False, hive_partitioning=False).filter(pl.col("end_ns") > since_ns)
