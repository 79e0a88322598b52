"""Making one part of the many parts of a day, so that rows are never there twice, even if the program dies in between.

1. The new part is put into ``compacting/``, which readers skip; it lists the parts that it replaces.
2. The old parts are removed.
3. The new one is moved into the day's folder.

The next writer of the table, which has the lock, finds the part in ``compacting/``
and does steps 2 and 3 again. Who only reads takes it for the parts that it replaces, wherever it is (`snapshot`). To
those who read the files without this module the rows of the day are missing until then: the lesser evil, as nothing
would show them duplicate rows.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from whydrop.store import merging, parts, tables
from whydrop.store.errors import DamagedPartError
from whydrop.store.files import Files
from whydrop.store.part_frames import Reader, first_line

STAGING = "compacting"
UNREADABLE = "it was to replace other parts, and cannot be read"
_REPLACES = "whydrop.replaces"
# More values of a table's first column of order, and its rows are put in order all at once.
_MOST_SLICES = 256


@dataclass(frozen=True)
class Compacted:
    """The outcome of compacting one day."""

    table: str
    day: str
    parts: int  # that there were before
    rows: int
    left_out: int  # rows that were in several parts
    bytes_before: int
    bytes_after: int


@contextmanager
def changing(reader: Reader, table: str) -> Iterator[None]:
    """Hold the lock of a table, to change it, with whatever a compaction has left undone done first."""
    with reader.files.locked(table):
        for name in reader.files.sizes(f"{STAGING}/{table}", ".parquet"):
            _finish(reader, name)
        yield


def is_unfinished(files: Files, table: str) -> bool:
    """True if a compaction is going on, or was cut short."""
    return bool(files.sizes(f"{STAGING}/{table}", ".parquet"))


def days(files: Files, table: str, before: str | None) -> list[str]:
    """Days of several parts, in order."""
    limit = before if before is not None else datetime.now(UTC).strftime("%Y-%m-%d")
    found = Counter(parts.day_of(name) for name in files.sizes(table, ".parquet"))
    return sorted(day for day, count in found.items() if count > 1 and (day < limit or day == parts.NO_DAY))


def compact(reader: Reader, table: str, day: str) -> Compacted | None:
    """Make one part of a day's; None where there is only one, or one is damaged. The caller holds the lock.

    Raises:
        StoreError: a part could not be written. Nothing has changed then, or it is finished next time.
    """
    old = reader.parts(table, day)
    if len(old) < 2:
        return None
    # What is in several parts stays as the oldest has it: parts that were compacted come first, then by name.
    names = sorted(old, key=lambda name: (not parts.is_compacted(name), name))
    rows = kept = 0

    def slices() -> Iterator[pl.DataFrame]:
        nonlocal kept
        for frame in _slices(reader, table, names):
            kept += frame.height
            yield frame

    try:
        rows = sum(reader.footer(name).num_rows for name in names)
        content = parts.encoded(table, slices(), {_REPLACES: json.dumps(names)})
    except (pl.exceptions.PolarsError, OSError, DamagedPartError) as reason:
        _name_damaged(reader, table, names, reason)
        return None
    staged = f"{STAGING}/{parts.folder(table, day)}/{parts.COMPACTED}{uuid.uuid4().hex}.parquet"
    reader.files.put(staged, content)
    _finish(reader, staged)
    return Compacted(table, day, len(names), kept, rows - kept, sum(old.values()), content.size)


def _slices(reader: Reader, table: str, names: list[str]) -> Iterator[pl.DataFrame]:
    """All rows in the table's order, so many at a time as have one value in its first column."""
    first = tables.ORDER[table][0]
    every = pl.concat([reader.lazy(table, [name]) for name in names]).drop("day")
    values = every.select(pl.col(first).unique()).collect().to_series().sort()
    if values.len() > _MOST_SLICES:
        yield _once(table, every.collect())
        return
    for value in values:
        yield _once(table, every.filter(pl.col(first).eq_missing(pl.lit(value, dtype=values.dtype))).collect())


def _once(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    return merging.merge(table, rows, rows.clear()).new


def _name_damaged(reader: Reader, table: str, names: list[str], reason: Exception) -> None:
    """Find out which part it is that cannot be read."""
    for name in names:
        try:
            reader.lazy(table, [name]).collect()
        except (pl.exceptions.PolarsError, OSError) as found:
            reader.damaged(name, f"damaged: {first_line(found)}")
            return
    reader.damaged(names[0].rpartition("/")[0], f"a part is damaged: {first_line(reason)}")


def _finish(reader: Reader, staged: str) -> None:
    """Put a new part in the place of those that it replaces."""
    files = reader.files
    try:
        replaced = replaced_by(reader, staged)
    except DamagedPartError as reason:
        # Parts are put there whole: something else has damaged it, or its store does not answer right now. Some of
        # those that it replaces may be gone already, so it stays where it is, for another try.
        reader.damaged(staged, f"{UNREADABLE}: {reason.damage}")
        return
    for name in replaced:
        files.remove(name)
    files.move(staged, place_of(staged))


def place_of(staged: str) -> str:
    """Where a staged part is to be.

    >>> place_of("compacting/counters/day=2018-02-11/compacted-1.parquet")
    'counters/day=2018-02-11/compacted-1.parquet'
    """
    return staged.removeprefix(f"{STAGING}/")


def replaced_by(reader: Reader, staged: str) -> list[str]:
    """The parts that a staged one replaces, as it says itself.

    Raises:
        PartGoneError: it is not there any more.
        DamagedPartError: it cannot be read.
    """
    try:
        replaced = json.loads((reader.footer(staged).metadata or {})[_REPLACES.encode()])
    except (KeyError, ValueError):
        raise DamagedPartError(reader.files.show(staged), f"its footer has no list {_REPLACES}") from None
    if not isinstance(replaced, list) or not all(isinstance(name, str) for name in replaced):
        raise DamagedPartError(reader.files.show(staged), f"{_REPLACES} in its footer is no list of parts")
    return replaced
