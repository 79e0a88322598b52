"""The journal of a recording that is being written: small Arrow files that are durable one by one.

A part is called ``TABLE.FIRST-LAST.arrow``: it holds what was appended to the table in the flushes of these numbers.
When a table has many parts they are merged into one of the same numbers and removed then. A reader that finds both,
because the writer was killed in between, takes the wider one.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from whydrop.recording import tables
from whydrop.recording.errors import RecordingError
from whydrop.runtime import durable

FOLDER_NAME = "journal"

# So many parts of about the same size become one: every row is written some log_16(flushes) times in all, and a table
# never has more than 16 parts for each of these levels.
MERGE_AT = 16

_NAME = re.compile(r"([a-z_]+)\.(\d{1,18})-(\d{1,18})\.arrow")


@dataclass(frozen=True, order=True)
class Part:
    """One file of the journal."""

    first: int
    last: int
    table: str
    path: Path

    def covers(self, other: Part) -> bool:
        """True if it holds everything that ``other`` holds."""
        return self.table == other.table and self.first <= other.first and other.last <= self.last


def write_part(journal: Path, table: str, numbers: tuple[int, int], frame: pl.DataFrame) -> Part:
    """Make the rows of the flushes from the first to the last of ``numbers`` durable.

    Raises:
        OSError: the disk does not take it; nothing of it is left behind.
    """
    first, last = numbers
    content = io.BytesIO()
    tables.conform(table, frame).write_ipc(content, compression="zstd")
    path = journal / f"{table}.{first:08d}-{last:08d}.arrow"
    durable.write_bytes(path, content.getvalue())
    return Part(first, last, table, path)


def parts(journal: Path) -> dict[str, list[Part]]:
    """The parts of each table in order of their numbers; those that a wider one covers are left out."""
    found: dict[str, list[Part]] = {}
    for path in journal.iterdir() if journal.is_dir() else ():
        match = _NAME.fullmatch(path.name)
        if match and match[1] in tables.TABLES and int(match[2]) <= int(match[3]):
            part = Part(int(match[2]), int(match[3]), match[1], path)
            found.setdefault(part.table, []).append(part)
    return {table: _widest(of_table) for table, of_table in found.items()}


def _widest(of_table: list[Part]) -> list[Part]:
    kept: list[Part] = []
    # The widest of those that begin at a number comes first.
    for part in sorted(of_table, key=lambda part: (part.first, -part.last)):
        if not (kept and kept[-1].covers(part)):
            kept.append(part)
    return kept


def read_part(part: Part) -> pl.DataFrame:
    """The rows of a part.

    Raises:
        FileNotFoundError: the writer has merged it with others since it was listed.
        RecordingError: the file is damaged.
    """
    try:
        return tables.conform(part.table, pl.read_ipc(io.BytesIO(part.path.read_bytes())))
    except FileNotFoundError:
        raise
    except (OSError, pl.exceptions.PolarsError, KeyError, ValueError, TypeError) as reason:
        raise RecordingError(f"{part.path}: damaged part of the journal ({_first_line(reason)})") from reason
    except BaseException as reason:
        # What polars' Rust code did not expect arrives as a panic, which is no Exception.
        if type(reason).__name__ != "PanicException":
            raise
        raise RecordingError(f"{part.path}: damaged part of the journal") from None


def read_or_none(part: Part) -> pl.DataFrame | None:
    """The rows of a part, or ``None`` where it cannot be read."""
    try:
        return read_part(part)
    except (FileNotFoundError, RecordingError):
        return None


def read_parts(of_table: list[Part]) -> Iterator[pl.DataFrame | RecordingError]:
    """The rows of each part, or why there are none.

    Raises:
        FileNotFoundError: a part has been merged with others since it was listed.
    """
    for part in of_table:
        try:
            yield read_part(part)
        except RecordingError as reason:
            yield reason


def merge(journal: Path, of_table: list[Part]) -> list[Part]:
    """Merge the youngest parts where many of about the same size have gathered; return the parts that remain.

    A part that cannot be read is left as it is: whoever reads the journal will say so.
    """
    merged = list(of_table)
    while (run := _mergeable(merged)) is not None:
        good = [frame for part in run if (frame := read_or_none(part)) is not None]
        if len(good) < len(run):
            return merged
        whole = write_part(journal, run[0].table, (run[0].first, run[-1].last), pl.concat(good))
        for part in run:
            with contextlib.suppress(OSError):
                part.path.unlink()
        merged = [*merged[: -len(run)], whole]
    return merged


def _mergeable(of_table: list[Part]) -> list[Part] | None:
    """The youngest ``MERGE_AT`` parts, if they span about as many flushes each."""
    if len(of_table) < MERGE_AT:
        return None
    run = of_table[-MERGE_AT:]
    spans = [part.last - part.first + 1 for part in run]
    return run if spans[0] < MERGE_AT * spans[-1] else None


def _first_line(reason: BaseException) -> str:
    lines = str(reason).splitlines()
    return lines[0] if lines else type(reason).__name__
