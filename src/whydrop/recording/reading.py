"""The tables of a recording's folder: Parquet files, or the journal of a test that runs or was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from whydrop.recording import journal, tables
from whydrop.recording.errors import RecordingError
from whydrop.recording.writer import LOCK_NAME


def has_parquet(folder: Path, name: str) -> bool:
    """True if the file of a table is there."""
    return (folder / f"{name}.parquet").exists()


def from_parquet(folder: Path, name: str, notes: list[str], columns: Sequence[str] = ()) -> pl.DataFrame:
    """A table of a finished recording; empty where it has none. What is odd about it goes to ``notes``.

    Args:
        folder: of the recording.
        name: of the table.
        notes: what a reader should know.
        columns: those that are wanted; none: all.

    Raises:
        RecordingError: its file is damaged.
    """
    path = folder / f"{name}.parquet"
    schema = tables.TABLES[name]
    wanted = list(columns or schema)
    try:
        if not path.exists():
            return tables.empty(name).select(wanted)
        present = list(pl.read_parquet_schema(path))
        known = [column for column in present if column in schema]
        # Without any column the number of rows would be lost.
        frame = pl.read_parquet(path, columns=[column for column in known if column in wanted] or known[:1])
    except (OSError, pl.exceptions.PolarsError) as reason:
        raise RecordingError(f"{path}: damaged, or no Parquet file: {_first_line(reason)}") from reason
    except BaseException as reason:
        # What polars' Rust code did not expect arrives as a panic, which is no Exception.
        if type(reason).__name__ != "PanicException":
            raise
        raise RecordingError(f"{path}: damaged, or no Parquet file") from None
    unknown = [column for column in present if column not in schema]
    note = f"{path.name} has columns that this version does not know: {', '.join(unknown)}"
    if unknown and note not in notes:
        notes.append(note)
    try:
        read = {column: kind for column, kind in schema.items() if column in wanted or column in frame.columns}
        return tables.conform_to(read, name, frame).select(wanted)
    except pl.exceptions.PolarsError as reason:
        raise RecordingError(f"{path}: a column is not of its type: {_first_line(reason)}") from reason


# How often the writer may merge the parts that are being read before that is given up.
_MOST_ATTEMPTS = 10


def from_journal(folder: Path, name: str, notes: list[str]) -> pl.DataFrame | None:
    """A table of a recording that was not finished; damaged parts cost only themselves, and go to ``notes``.

    Returns ``None`` where there is no journal any more: the recording was finished since it was opened.
    """
    place = folder / journal.FOLDER_NAME
    for _ in range(_MOST_ATTEMPTS):
        frames, damaged = [tables.empty(name)], []
        try:
            for part in journal.read_parts(journal.parts(place).get(name, [])):
                if isinstance(part, RecordingError):
                    damaged.append(f"{part}: the rows in it are lost, the rest is here")
                else:
                    frames.append(part)
        except FileNotFoundError:
            continue
        if not place.is_dir():
            return None
        notes += damaged
        return pl.concat(frames)
    raise RecordingError(f"{place}: changes faster than it can be read")


def is_being_written(folder: Path) -> bool:
    """True if a writer holds the recording's lock."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
    return False


def _first_line(reason: BaseException) -> str:
    lines = str(reason).splitlines()
    return lines[0] if lines else type(reason).__name__
