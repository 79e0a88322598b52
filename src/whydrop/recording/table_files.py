"""The files of a recording's tables: Parquet, or Arrow streams if the test is running or was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from whydrop.recording import streams, tables
from whydrop.recording.errors import RecordingError
from whydrop.recording.writer import LOCK_NAME


def has_parquet(folder: Path, name: str) -> bool:
    """True if a table has a Parquet file."""
    return (folder / f"{name}.parquet").exists()


def from_parquet(folder: Path, name: str, notes: list[str], columns: Sequence[str] = ()) -> pl.DataFrame:
    """A table of a finished recording; empty if it has no file. Sentences on unknown columns go to ``notes``.

    Args:
        folder: the folder of the recording.
        name: the name of the table.
        notes: sentences for the reader of the recording.
        columns: the columns to read; empty: all.

    Raises:
        RecordingError: the file is damaged.
    """
    path = folder / f"{name}.parquet"
    schema = tables.TABLES[name]
    wanted = list(columns or schema)
    try:
        if not path.exists():
            return tables.empty(name).select(wanted)
        present = list(pl.read_parquet_schema(path))
        known = [column for column in present if column in schema]
        # At least one column, for the number of rows.
        frame = pl.read_parquet(path, columns=[column for column in known if column in wanted] or known[:1])
    except (OSError, pl.exceptions.PolarsError) as reason:
        raise RecordingError(f"{path}: damaged, or not a Parquet file: {_first_line(reason)}") from reason
    except BaseException as reason:
        # A panic of polars' Rust code arrives as an exception that is no Exception.
        if type(reason).__name__ != "PanicException":
            raise
        raise RecordingError(f"{path}: damaged, or not a Parquet file") from None
    unknown = [column for column in present if column not in schema]
    note = f"{path.name} has columns that this version does not know: {', '.join(unknown)}"
    if unknown and note not in notes:
        notes.append(note)
    try:
        read = {column: kind for column, kind in schema.items() if column in wanted or column in frame.columns}
        return tables.conform_to(read, name, frame).select(wanted)
    except pl.exceptions.PolarsError as reason:
        raise RecordingError(f"{path}: a column has a wrong type: {_first_line(reason)}") from reason


def from_stream(folder: Path, name: str, notes: list[str]) -> pl.DataFrame | None:
    """A table of a recording that was not finished; sentences on damage go to ``notes``.

    Returns ``None`` if the recording was finished after it was opened.

    Raises:
        RecordingError: the file cannot be read.
    """
    # A batch that is being appended at this moment is incomplete, and no damage.
    being_written = is_being_written(folder)
    try:
        frame, damages = streams.read(folder, name)
    except FileNotFoundError:
        return tables.empty(name) if (folder / streams.FOLDER_NAME).is_dir() else None
    except OSError as reason:
        raise RecordingError(f"{streams.path_of(folder, name)}: {reason.strerror or reason}") from reason
    if not being_written:
        notes += damages
    return frame


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
