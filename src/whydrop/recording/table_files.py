"""The files of a recording's tables: Parquet, or Arrow IPC streams if the test is running or was killed.

While a recording is written, it has one stream a table in the folder ``journal``. A flush appends one record batch and
waits until it is on the disk. After a crash the stream ends with a whole batch or within one; all batches before that
can be read.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from whydrop.recording import ipc_messages, tables
from whydrop.recording.errors import RecordingError
from whydrop.runtime import durable
from whydrop.text.quantities import plural

FOLDER_NAME = "journal"
LOCK_NAME = "writing.lock"

# A batch of few rows takes some 8 kB of the widest table. When such batches make up more than half of a stream, and
# more than this, they are merged into one.
_LEAST_MERGED_BYTES = 1 << 20

# The key of a Parquet file's metadata that has the number of rows, and of nulls in each column.
_NULLS = "whydrop_nulls"


def path_of(folder: Path, table: str) -> Path:
    """The file of a table's stream in the folder of a recording."""
    return folder / FOLDER_NAME / f"{table}.arrows"


class TableStream:
    """The stream of one table, for the one thread that writes it.

    Its file stays open, so that its rows can be read even if another process removes the folder.
    """

    def __init__(self, folder: Path, table: str) -> None:
        """A stream in the folder of a recording; its file is created by the first flush."""
        self._path = path_of(folder, table)
        self._table = table
        self._encoder = _Encoder(table)
        self._file: int | None = None
        self._size = 0  # bytes on the disk
        self._merged_size = len(self._encoder.header)  # of these, bytes of the schema and of merged batches
        self._waiting = b""  # batches that are not on the disk

    def append(self, rows: pl.DataFrame) -> None:
        """Keep rows in memory for the next flush."""
        self._waiting += self._encoder.encode(rows)

    def flush(self) -> None:
        """Bring all rows to the disk.

        Raises:
            OSError: the disk does not take them; they stay in memory.
        """
        if self._file is None or not self._is_in_place():
            self._replace(self._on_disk() + self._waiting)
            self._waiting = b""
        elif self._waiting:
            self._extend()
        if self._size - self._merged_size > max(_LEAST_MERGED_BYTES, self._merged_size):
            # On a full disk merging can wait.
            with contextlib.suppress(OSError):
                self._merge()

    def rows(self) -> tuple[pl.DataFrame, list[str]]:
        """All rows, flushed or not, and one sentence for each loss."""
        try:
            content, losses = self._on_disk(), []
        except OSError as reason:
            content, losses = self._encoder.header, [f"table {self._table}: {reason.strerror or reason}: rows are lost"]
        frame, damages = decode(content + self._waiting, self._table, self._path)
        return frame, losses + damages

    def close(self) -> None:
        """Close the file; it stays where it is."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _is_in_place(self) -> bool:
        assert self._file is not None
        with contextlib.suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._file), self._path.stat())
        return False

    def _on_disk(self) -> bytes:
        if self._file is None:
            return self._encoder.header
        with open(self._file, "rb", closefd=False) as stream:
            stream.seek(0)
            return stream.read(self._size)

    def _extend(self) -> None:
        assert self._file is not None
        written = 0
        try:
            while written < len(self._waiting):
                written += os.pwrite(self._file, self._waiting[written:], self._size + written)
            os.fdatasync(self._file)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._size)
            raise
        self._size += written
        self._waiting = b""

    def _merge(self) -> None:
        content = self._on_disk()
        merged, small = content[: self._merged_size], content[self._merged_size :]
        frame, damages = decode(self._encoder.header + small, self._table, self._path)
        if not damages:
            self._replace(merged + self._encoder.encode(frame))
            self._merged_size = self._size

    def _replace(self, content: bytes) -> None:
        durable.write_bytes(self._path, content)
        file = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self.close()
        self._file, self._size = file, len(content)


class _Encoder:
    """Record batches as bytes; the first one of a stream comes after ``header``."""

    def __init__(self, table: str) -> None:
        content = _as_stream(tables.empty(table))
        self.header = content[: ipc_messages.first_end(content)]

    def encode(self, rows: pl.DataFrame) -> bytes:
        if not rows.height:
            return b""
        # In one piece: a batch for each.
        return _as_stream(rows.rechunk())[len(self.header) :].removesuffix(ipc_messages.END)


def _as_stream(frame: pl.DataFrame) -> bytes:
    content = io.BytesIO()
    frame.write_ipc_stream(content, compression="zstd", compat_level=pl.CompatLevel.oldest())
    return content.getvalue()


def decode(content: bytes, table: str, path: Path) -> tuple[pl.DataFrame, list[str]]:
    """The rows of a stream that may be damaged or end anywhere, and one sentence for each damage.

    Behind damage, reading continues at the next message that can be read.

    Args:
        content: the bytes of the stream.
        table: its table.
        path: its file, for the sentences.
    """
    frames, damages = [tables.empty(table)], []
    header, buffers = _header_of(content)
    done = at = len(header)
    while header and (start := ipc_messages.next_marker(content, at)) is not None:
        frame, end = _batch_at(content, start, header, buffers, table)
        if frame is None:
            at = start + 4
            continue
        frames.append(frame)
        if skipped := max(0, start - done):
            damages.append(f"{path}: byte {done}: {plural(skipped, 'byte')} skipped as damaged: their rows are lost")
        done = max(done, end)
        # Where no message follows, the batch's length may be damaged, and have other batches in it.
        at = end if ipc_messages.begins_at(content, end) else start + 4
    if left := len(content) - done:
        damages.append(
            f"{path}: byte {done}: the stream is damaged or incomplete: the last {plural(left, 'byte')} are lost"
        )
    return pl.concat(frames), damages


def _header_of(content: bytes) -> tuple[bytes, list[int]]:
    """The first message of a stream, its schema, and the buffers of its batches; nothing if it is damaged."""
    if ipc_messages.begins_at(content, 0):
        header = content[: ipc_messages.first_end(content)]
        empty = ipc_messages.frame(header + ipc_messages.END)
        if empty is not None:
            return header, ipc_messages.buffers_of(empty.schema)
    return b"", []


def _batch_at(
    content: bytes, start: int, header: bytes, buffers: list[int], table: str
) -> tuple[pl.DataFrame | None, int]:
    """The rows of the record batch that begins at byte ``start``, and its end; ``None`` if it is none, or damaged."""
    end = ipc_messages.batch_end(content, start, buffers)
    frame = None if end is None else ipc_messages.frame(header + content[start:end] + ipc_messages.END)
    if end is None or frame is None:
        return None, start
    try:
        return tables.conform(table, frame), end
    except (KeyError, pl.exceptions.PolarsError):
        return None, start


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
        # The name of a folder may look like a pattern: "run [1].recording".
        rows = pl.scan_parquet(path, glob=False)
        present = rows.collect_schema().names()
        known = [column for column in present if column in schema]
        # At least one column, for the number of rows.
        chosen = [column for column in known if column in wanted] or known[:1]
        frame = rows.select(chosen).collect()
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


def parquet_of(frame: pl.DataFrame) -> bytes:
    """A whole table as a Parquet file; its metadata say how many nulls each column has."""
    nulls = frame.null_count().row(0, named=True) if frame.columns else {}
    content = io.BytesIO()
    noted = {_NULLS: json.dumps({"rows": frame.height, "nulls": nulls})}
    frame.write_parquet(content, compression="zstd", statistics=True, metadata=noted)
    return content.getvalue()


def nulls_of(folder: Path, name: str) -> dict[str, tuple[int, int]]:
    """The nulls and the rows of each column of a table, by the metadata of its Parquet file.

    Columns of another type are left out. Files of earlier versions have no such metadata. Nothing is known of a file
    that cannot be read: an error of reading its rows says what is wrong with it.
    """
    path = folder / f"{name}.parquet"
    try:
        noted = json.loads(pl.read_parquet_metadata(path)[_NULLS])
        types = pl.read_parquet_schema(path)
        rows, nulls = int(noted["rows"]), {column: int(count) for column, count in noted["nulls"].items()}
    except (OSError, KeyError, TypeError, AttributeError, ValueError, pl.exceptions.PolarsError):
        return {}
    known = tables.TABLES[name]
    return {
        column: (nulls[column], rows) for column, kind in types.items() if known.get(column) == kind and column in nulls
    }


def from_stream(folder: Path, name: str, notes: list[str]) -> pl.DataFrame | None:
    """A table of a recording that was not finished; sentences on damage go to ``notes``.

    Returns ``None`` if the recording was finished after it was opened.

    Raises:
        RecordingError: the file cannot be read.
    """
    # A batch that is being appended at this moment is incomplete, and no damage.
    being_written = is_being_written(folder)
    try:
        path = path_of(folder, name)
        frame, damages = decode(path.read_bytes(), name, path)
    except FileNotFoundError:
        return tables.empty(name) if (folder / FOLDER_NAME).is_dir() else None
    except OSError as reason:
        raise RecordingError(f"{path_of(folder, name)}: {reason.strerror or reason}") from reason
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
