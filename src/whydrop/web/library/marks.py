"""Tags, notes and saved views of a folder: a file of their own, since nothing else could make them again.

A damaged file is kept under another name; what can be read of it, and of the copy made at the last start, goes into a
new one.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

FILE_NAME = "marks.sqlite"
_COPY = "marks.copy.sqlite"
BUSY_S = 10.0

# Further columns since the first version: added to older files.
_TABLES = """
CREATE TABLE IF NOT EXISTS {0}marks (path TEXT PRIMARY KEY, tags TEXT NOT NULL, note TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS {0}views (name TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
"""
_REVISION = "ALTER TABLE {0}marks ADD COLUMN revision INTEGER NOT NULL DEFAULT 0"


def is_busy(reason: sqlite3.Error) -> bool:
    """True if another program holds a lock, which passes."""
    return getattr(reason, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_damage(reason: sqlite3.Error) -> bool:
    """True if a file is not what SQLite wrote."""
    return getattr(reason, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def make_tables(database: sqlite3.Connection, schema: str = "") -> None:
    """Make the tables where they are missing."""
    for statement in filter(None, map(str.strip, _TABLES.format(schema).split(";"))):
        database.execute(statement)
    columns = {row[1] for row in database.execute(f"PRAGMA {schema}table_info(marks)")}
    if "revision" not in columns:
        database.execute(_REVISION.format(schema))


def prepare(folder: Path) -> str:
    """Make the file of a folder, or check it; where it was damaged, the answer says what became of it.

    Raises:
        OSError: it cannot be written.
        sqlite3.OperationalError: another program holds it.
    """
    file = folder / FILE_NAME
    try:
        _check(file)
    except sqlite3.DatabaseError as reason:
        if not is_damage(reason):
            raise
        return _renewed(folder)
    _copy(file, folder / _COPY)
    return ""


def _check(file: Path) -> None:
    with contextlib.closing(sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)) as database:
        found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            damage = sqlite3.DatabaseError(found)
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage
        make_tables(database)


def _copy(file: Path, copy: Path) -> None:
    """Keep a copy of a whole file, for the day when it is not."""
    partial = copy.with_suffix(".part")
    partial.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(file)) as source, contextlib.closing(sqlite3.connect(partial)) as target:
        source.backup(target)
    partial.replace(copy)


def _renewed(folder: Path) -> str:
    file, copy = folder / FILE_NAME, folder / _COPY
    damaged = folder / f"marks.damaged-{int(time.time())}.sqlite"
    file.replace(damaged)
    for suffix in ("-journal", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            Path(f"{file}{suffix}").replace(f"{damaged}{suffix}")
    # What the damaged file says is newer than the copy.
    marks = {row[0]: row for source in (copy, damaged) for row in _readable(source, "marks", "path, tags, note")}
    views = {row[0]: row for source in (copy, damaged) for row in _readable(source, "views", "name, state")}
    _check(file)
    with contextlib.closing(sqlite3.connect(file, timeout=BUSY_S)) as database, database:
        database.executemany("INSERT OR REPLACE INTO marks (path, tags, note) VALUES (?, ?, ?)", marks.values())
        database.executemany("INSERT OR REPLACE INTO views (name, state) VALUES (?, ?)", views.values())
    return (
        f"{file} was damaged and is kept as {damaged.name}. Tags and notes of {len(marks)} entries and {len(views)} "
        "saved views could be read from it and from the copy of the last start."
    )


def _readable(file: Path, table: str, columns: str) -> list[tuple[str, ...]]:
    """Rows that can be read from both ends of a table, up to the damage."""
    found: dict[str, tuple[str, ...]] = {}
    for direction in ("ASC", "DESC"):
        with contextlib.suppress(sqlite3.Error):
            for row in _rows(file, f"SELECT {columns} FROM {table} ORDER BY 1 {direction}"):
                if all(isinstance(value, str) for value in row):
                    found[row[0]] = row
    return list(found.values())


def _rows(file: Path, select: str) -> Iterator[tuple[str, ...]]:
    if not file.exists():
        return
    with contextlib.closing(sqlite3.connect(f"{file.absolute().as_uri()}?immutable=1", uri=True)) as database:
        yield from database.execute(select)


def read_only(folder: Path) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The tags and notes, and the saved views, of a folder that cannot be written."""
    file = folder / FILE_NAME
    return _readable(file, "marks", "path, tags, note"), _readable(file, "views", "name, state")
