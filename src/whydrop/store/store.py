"""The store itself: rows are added once, however often they come, and read by table and day.

Whatever fails, nothing that was in the store is lost, and nothing is in it twice:

* A part is there whole or not at all (`files`).
* Rows are compared by key (`tables.KEYS`) with those of the same day before they are written (`merging`).
* A source is noted in ``sources`` when all of its rows are in. If the program dies before that, the source is read
  again, and its rows are found to be there.
* One writer at a time changes a table: a lock, which the kernel lets go of when its holder dies.
* A reader needs no lock and no permission to write: the files themselves show which parts count (`snapshot`).
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import polars as pl

from whydrop.store import compacting, contents, merging, parts, snapshot, spans, tables
from whydrop.store.errors import StoreError
from whydrop.store.files import Files
from whydrop.store.part_frames import Reader

DESCRIPTION = "whydrop-store.json"
VERSION = 1
SOURCES = "sources"

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+=@-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass
class Count:
    """Rows of one table that were to be added."""

    rows: int = 0  # that are new
    duplicates: int = 0  # left out: they were there already
    conflicts: int = 0  # left out: their key was there already, with other values

    def __iadd__(self, other: Count) -> Self:
        self.rows += other.rows
        self.duplicates += other.duplicates
        self.conflicts += other.conflicts
        return self


@dataclass
class Added(Count):
    """The outcome of adding the rows of one source."""

    shown: list[merging.Conflict] = field(default_factory=list)  # the first few conflicts


class Store:
    """Tables of many recordings, switches and archives, in one folder or below one prefix of an object store.

    >>> store = Store.create("/srv/telemetry")  # doctest: +SKIP
    >>> store.add("counters", frame)  # doctest: +SKIP
    >>> store.scan("counters", days=["2018-02-11"]).collect()  # doctest: +SKIP
    """

    def __init__(self, files: Files) -> None:
        self.files = files
        self._reader = Reader(files)

    @property
    def notes(self) -> list[str]:
        """Damage found so far: parts that were left out. Sentences."""
        return self._reader.notes

    @classmethod
    def create(cls, where: str | os.PathLike[str] | Files) -> Store:
        """Open a store, or make an empty one where there is none.

        Raises:
            StoreError: it cannot be made, is of a newer version, or the folder holds something else.
        """
        files = where if isinstance(where, Files) else Files.at(where)
        if not files.exists(DESCRIPTION):
            _refuse_foreign(files)
            files.put(DESCRIPTION, json.dumps({"whydrop_store": VERSION}).encode() + b"\n")
        return cls.open(files)

    @classmethod
    def open(cls, where: str | os.PathLike[str] | Files) -> Store:
        """Open a store.

        Raises:
            StoreError: there is none, or it is of a newer version.
        """
        files = where if isinstance(where, Files) else Files.at(where)
        if not files.exists(DESCRIPTION):
            raise StoreError(f"{files.shown}: no store: it has no file {DESCRIPTION}. `whydrop store import` makes one")
        _check_version(files)
        return cls(files)

    def add(self, table: str, frame: pl.DataFrame) -> Added:
        """Add rows; rows with a known key are left out.

        Args:
            table: a name in `tables.TABLES`.
            frame: rows; columns that are missing are null.

        Raises:
            KeyError: there is no such table, or it has no such column.
            StoreError: something cannot be written. What was written before is there, each row once.
        """
        return self.add_all(table, [frame])[0]

    def add_all(self, table: str, frames: Sequence[pl.DataFrame]) -> list[Added]:
        """Add the rows of several sources, as one part for each day; the first row of a key stays, as in :meth:`add`.

        Returns:
            What came of each frame, in their order.
        """
        added = [Added() for _ in frames]
        rows = pl.concat(
            tables.conform(table, frame).with_columns(pl.lit(number, dtype=pl.UInt32).alias(merging.SOURCE))
            for number, frame in enumerate(frames)
        )
        rows = spans.filled(table, rows)
        days = rows.with_columns(parts.day_column(table)).partition_by("day", as_dict=True, include_key=False)
        del rows
        # In order, so that the days that a program that dies has written are the first ones.
        for day, of_day in sorted(days.items(), key=lambda item: str(item[0][0])):
            merged = self._add_day(table, day[0], of_day)
            for (source,), new in merged.new.group_by(merging.SOURCE):
                added[source].rows += new.height
            for source, count in merged.duplicates.items():
                added[source].duplicates += count
            for source, count in merged.conflicts.items():
                added[source].conflicts += count
            for conflict in merged.shown:
                added[conflict.source].shown.append(conflict)
        return added

    def _add_day(self, table: str, day: str | None, rows: pl.DataFrame) -> merging.Merged:
        folder = parts.folder(table, day or parts.NO_DAY)
        with compacting.changing(self._reader, table):
            self.files.sweep(folder)
            there = self._reader.parts(table, day or parts.NO_DAY, to_compare=True)
            merged = merging.merge(table, rows, self._reader.like(table, there, rows))
            if not merged.new.is_empty():
                name = f"{folder}/added-{uuid.uuid4().hex}.parquet"
                self.files.put(name, parts.encoded(table, [merged.new.drop(merging.SOURCE)]))
        return merged

    def write_part(self, table: str, day: str, name: str, frame: pl.DataFrame) -> None:
        """Write rows of one day as the part ``name``, in the place of a part of that name.

        For writers who know that their rows are in no other part, such as a collector of its own switches: rows are
        not compared with other parts', except with those of parts that were made of several (:meth:`compact`), among
        which an older part of this name may be.

        Args:
            table: a name in `tables.TABLES`.
            day: UTC, such as ``2018-02-11``; the rows' own.
            name: of the file, without ``.parquet``.
            frame: rows; columns that are missing are null.

        Raises:
            ValueError: the day or the name would not do as a file's name.
            StoreError: it cannot be written; a part of that name is as it was.
        """
        if not _DAY.fullmatch(day):
            raise ValueError(f"day {day!r}: expected a UTC day such as 2018-02-11")
        if not _NAME.fullmatch(name) or name.startswith(parts.COMPACTED):
            raise ValueError(f"part {name!r}: expected letters, digits and ._+=@- only, and not {parts.COMPACTED}...")
        rows = tables.conform(table, frame)
        folder = parts.folder(table, day)
        with compacting.changing(self._reader, table):
            self.files.sweep(folder)
            there = self._reader.parts(table, day, to_compare=True)
            compacted = [part for part in there if parts.is_compacted(part)]
            if compacted:
                rows = merging.merge(table, rows, self._reader.like(table, compacted, rows)).new
            self.files.put(f"{folder}/{name}.parquet", parts.encoded(table, [rows]))

    def scan(self, table: str, days: Iterable[str] | None = None) -> pl.LazyFrame:
        """Rows of a table, or of some of its UTC days, with the column ``day``; read when they are collected.

        Damaged parts are left out, and named in :attr:`notes`. If the store is compacted between this call and the
        collecting, the latter fails because a file is missing: rows are never missing or there twice.
        """
        _check_table(table)
        return self._reader.lazy(table, snapshot.sound(self._reader, table, days))

    def read(
        self, table: str, query: Callable[[pl.LazyFrame], pl.LazyFrame], days: Iterable[str] | None = None
    ) -> pl.DataFrame:
        """Run a query on a table, or on some of its UTC days, whatever happens to the store meanwhile.

        Parts that are damaged are left out, also where that shows only inside of them, and named in :attr:`notes`.

        Args:
            table: a name in `tables.TABLES`.
            query: chooses rows and columns; it must look at each row by itself.
            days: only these.
        """
        _check_table(table)
        return snapshot.collected(self._reader, table, query, days)

    def contents(self) -> list[contents.Contents]:
        """Contents of the store, table by table."""
        found = (contents.of_table(self._reader, table) for table in tables.TABLES)
        return [of for of in found if of.parts]

    def compact(self, table: str | None = None, before: str | None = None) -> list[compacting.Compacted]:
        """Make one part of the many parts of each day: queries of long times read less.

        Rows are in the old parts or in the new one and never in both; between the two, for as long as it takes to
        remove the old ones, they are in neither for those who read the files without whydrop.

        Args:
            table: only this one.
            before: only days before this UTC day; by default those before today, to which parts are still added.
        """
        done = []
        for name in [table] if table is not None else list(tables.TABLES):
            if compacting.is_unfinished(self.files, name):
                with compacting.changing(self._reader, name):
                    pass
            for day in compacting.days(self.files, name, before):
                with compacting.changing(self._reader, name):
                    of_day = compacting.compact(self._reader, name, day)
                if of_day is not None:
                    done.append(of_day)
        return done

    def source(self, sha256: str) -> dict[str, Any] | None:
        """The note on a file that was read into the store, by the SHA-256 of its bytes; None if it was not."""
        name = f"{SOURCES}/{_checked(sha256)}.json"
        if not self.files.exists(name):
            return None
        try:
            found = json.loads(self.files.read(name))
        except (ValueError, RecursionError):
            found = None
        # One that is damaged is as good as none: the file is read again, which changes nothing.
        return found if isinstance(found, dict) else None

    def note_source(self, sha256: str, facts: Mapping[str, Any]) -> None:
        """Note that all rows of a file are in the store, and what came of it. To be called last."""
        content = json.dumps(facts, indent=1).encode() + b"\n"
        # A note that is lost costs reading the file again, and no more: not worth waiting for the disk each time.
        self.files.put(f"{SOURCES}/{_checked(sha256)}.json", content, lasting=False)


def _check_table(table: str) -> None:
    if table not in tables.TABLES:
        raise KeyError(f"no table {table}; expected one of {', '.join(tables.TABLES)}")


def _checked(sha256: str) -> str:
    if not _SHA256.fullmatch(sha256):
        raise ValueError(f"{sha256!r}: expected a SHA-256 of 64 hexadecimal digits")
    return sha256


def _refuse_foreign(files: Files) -> None:
    """Refuse a folder with other files: a mistyped path would mix them with the store's."""
    # The description may come into being at any time: another process may be making the same store.
    ours = (*tables.TABLES, SOURCES, DESCRIPTION)
    other = next((name for name in files.names("") if name not in ours), None)
    if other is not None:
        raise StoreError(
            f"{files.shown}: no store (it has no {DESCRIPTION}), and not empty (it has {other}). Expected a store, an "
            "empty folder, or one that is not there yet"
        )


def _check_version(files: Files) -> None:
    shown = files.show(DESCRIPTION)
    try:
        version = json.loads(files.read(DESCRIPTION))["whydrop_store"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise StoreError(f'{shown}: damaged: expected JSON such as {{"whydrop_store": {VERSION}}}') from None
    if not isinstance(version, int) or version < 1:
        raise StoreError(f"{shown}: whydrop_store is {version!r}; expected a version such as {VERSION}")
    if version > VERSION:
        raise StoreError(
            f"{shown}: a store of version {version}, and this whydrop knows versions up to {VERSION}: use a newer one"
        )
