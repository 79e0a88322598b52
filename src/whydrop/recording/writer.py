"""The writer of a recording: a crash costs no more than the rows since the last flush.

While the test runs, each flush appends to one Arrow stream a table (`table_files`). At the end each table becomes one
Parquet file and the streams are removed. A full disk or a removed folder costs no rows: they stay in memory, each flush
tries again, and in the end they go to another folder.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.recording import document, tables
from whydrop.recording.errors import RecordingError
from whydrop.recording.table_files import FOLDER_NAME, LOCK_NAME, TableStream, parquet_of
from whydrop.runtime import durable

# Of folders of recordings.
SUFFIX = ".recording"

# Most file systems take names of 255 bytes; a number may have to be added to make a name unique.
_LONGEST_NAME = 240


class RecordingWriter:
    """One recording that is being written. Its methods may be called from any thread.

    Attributes:
        folder: the folder of the recording; :meth:`finish` may change it.
        metadata: the contents of ``recording.json``.
        message: one line on why writing failed; ``None`` while it works.
    """

    def __init__(self, folder: str | os.PathLike[str], metadata: dict[str, Any], *, fallback: Path | None = None):
        """Create the folder, with its metadata and an empty folder for the streams.

        Args:
            folder: created here; must be absent or empty.
            metadata: see ``recording.document``; ``status`` becomes ``running``.
            fallback: the folder that takes the finished recording if ``folder`` does not (default: the system's folder
                for temporary files).

        Raises:
            RecordingError: the folder cannot be made or written.
        """
        self.folder = Path(folder)
        self.metadata = document.check({"schema": document.SCHEMA, **metadata, "status": "running"}, str(folder))
        self.metadata["whydrop"] = self.metadata["whydrop"] or _version()
        self.message: str | None = None
        self._fallback = fallback
        self._appended: dict[str, list[pl.DataFrame]] = {}
        self._streams: dict[str, TableStream] = {}
        self._written_metadata: dict[str, Any] | None = None
        self._finished = False
        self._revised: Callable[[str, pl.DataFrame], pl.DataFrame] = lambda _, frame: frame
        self._lock = threading.Lock()  # of the appended rows; free while rows are written
        self._writing = threading.Lock()
        self._lock_file: int | None = None
        self._begin()

    def append(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows to a table with the columns of ``recording.tables``; missing columns are null.

        A row of table ``flows`` replaces an earlier one of the same number.

        Raises:
            KeyError: there is no such table or column.
        """
        rows = tables.conform(table, frame)
        if rows.height:
            with self._lock:
                self._appended.setdefault(table, []).append(rows)

    def update(self, metadata: dict[str, Any]) -> None:
        """Change keys of the metadata; written at the next flush."""
        changed = {**self.metadata, **metadata}
        document.check(changed, "metadata")
        self.metadata = changed

    def flush(self) -> bool:
        """Bring all appended rows to the disk; to be called about once a second.

        Returns:
            True on success. Otherwise :attr:`message` says why, and the next call tries again.
        """
        with self._writing:
            try:
                self._flush()
            except OSError as reason:
                self.message = _in_words(self.folder, reason)
                return False
            self.message = None
            return True

    def finish(self, status: str, revised: Callable[[str, pl.DataFrame], pl.DataFrame] | None = None) -> Path:
        """Write the final tables and the metadata.

        Args:
            status: ``complete``, ``interrupted`` or ``failed``.
            revised: changes a whole table, in the order of its rows' arrival, before it is written.

        Returns:
            The folder that holds the recording: its own, or else one in the fallback folder (:attr:`message` says so).

        Raises:
            RecordingError: neither takes it. All rows are still in memory or in the streams: free some space and call
                this again.
        """
        with self._writing:
            if self._finished:
                return self.folder
            self._revised = revised or self._revised
            self.metadata["status"] = status
            if self.metadata["ended_ns"] is None:
                self.metadata["ended_ns"] = _now_ns()
            try:
                self._finish_in(self.folder)
                self.message = None
            except OSError as reason:
                self._finish_elsewhere(reason)
            finally:
                if not self._finished:
                    # All rows are in the streams, which readers of a running recording read.
                    self.metadata["status"] = "running"
            self._remove_streams()
            self._unlock()
            return self.folder

    def close(self) -> None:
        """Flush and close an unfinished recording, which readers then report as interrupted."""
        try:
            if not self._finished:
                self.flush()
        finally:
            with self._writing:
                self._close_streams()
                self._unlock()

    def _begin(self) -> None:
        try:
            if self.folder.exists() and any(self.folder.iterdir()):
                raise RecordingError(f"{self.folder}: not empty; a recording needs a folder of its own")
            (self.folder / FOLDER_NAME).mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._write_metadata()
        except OSError as reason:
            self._unlock()
            raise RecordingError(_in_words(self.folder, reason)) from reason
        except BaseException:
            self._unlock()
            raise

    def _take_lock(self) -> None:
        """Take a lock, by which a reader distinguishes a running test from a killed one."""
        self._lock_file = os.open(self.folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        # Some network file systems have no locks; readers then report the recording as interrupted.
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _flush(self) -> None:
        folder = self.folder / FOLDER_NAME
        if not folder.is_dir():
            # Another process removed it.
            folder.mkdir(parents=True)
            self._unlock()
            self._take_lock()
            self._written_metadata = None
        with self._lock:
            names = list(self._appended)
        for table in names:
            self._pass_to_stream(table)
        for stream in self._streams.values():
            stream.flush()
        self._write_metadata()

    def _pass_to_stream(self, table: str) -> None:
        with self._lock:
            frames = self._appended[table]
            count = len(frames)
        if count:
            if table not in self._streams:
                self._streams[table] = TableStream(self.folder, table)
            self._streams[table].append(pl.concat(frames[:count]))
            with self._lock:
                del frames[:count]

    def _write_metadata(self) -> None:
        now = dict(self.metadata)
        if now != self._written_metadata:
            document.write(self.folder, now)
            self._written_metadata = now

    def _finish_in(self, folder: Path) -> None:
        """Write the tables and the metadata into ``folder``; after that the streams are not needed."""
        folder.mkdir(parents=True, exist_ok=True)
        losses: list[str] = []
        counts: dict[str, int] = {}
        for table in tables.TABLES:
            frame = tables.conform(table, self._revised(table, self._whole(table, losses)))
            if frame.height:
                counts[table] = frame.height
                self._write_table(folder, table, frame)
        metadata = {**self.metadata, "tables": counts}
        metadata["failures"] = [*metadata["failures"], *losses]
        document.write(folder, metadata)
        self.metadata, self._finished = metadata, True

    def _remove_streams(self) -> None:
        self._close_streams()
        for leftover in (self.folder / FOLDER_NAME, self.folder / LOCK_NAME):
            with contextlib.suppress(OSError):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    def _close_streams(self) -> None:
        for stream in self._streams.values():
            stream.close()

    @staticmethod
    def _write_table(folder: Path, table: str, frame: pl.DataFrame) -> None:
        if "flow" in frame.columns:
            # Sorted by flow, the file is smaller, and the series of a flow needs no copy.
            frame = frame.sort("flow", maintain_order=True)
        # Through memory: on a full disk polars reports a damaged file.
        durable.write_bytes(folder / f"{table}.parquet", parquet_of(frame))

    def _whole(self, table: str, losses: list[str]) -> pl.DataFrame:
        """All rows that were appended to a table; sentences on lost rows go to ``losses``."""
        frames = [tables.empty(table)]
        if table in self._streams:
            rows, damages = self._streams[table].rows()
            frames.append(rows)
            losses += damages
        with self._lock:
            frames += self._appended.get(table, [])
        return latest_flows(table, pl.concat(frames))

    def _finish_elsewhere(self, reason: OSError) -> None:
        why = _in_words(self.folder, reason)
        parent = self._fallback or Path(tempfile.gettempdir())
        folder = _unused(parent / self.folder.name)
        self.metadata["failures"] = [*self.metadata["failures"], f"{why}; written to {folder} instead"]
        try:
            self._finish_in(folder)
        except OSError as second:
            self.metadata["failures"].pop()
            self.message = f"{why}; and {_in_words(folder, second)}"
            raise RecordingError(self.message) from second
        self.folder = folder
        self.message = f"{why}. No rows are lost: the recording is in {folder}"


def folder_for(parent: Path, test: str, started_ns: int, title: str = "") -> Path:
    """A folder that is not there yet: ``<test>-<time>[.<title>].recording``, the time in UTC.

    >>> folder_for(Path("/nowhere"), "rrul", 1_700_000_000_500_000_000, "fq_codel, 10 Mbit/s").name
    'rrul-2023-11-14T221320.500Z.fq_codel_10_Mbit_s.recording'
    """
    name = f"{_clean(Path(test).stem) or 'test'}-{_time(started_ns)}"
    if title:
        name += f".{_clean(title)}"
    # What is left of the name are ASCII letters, one byte each.
    name = name[: _LONGEST_NAME - len(SUFFIX)]
    folder = parent / f"{name}{SUFFIX}"
    number = 2
    while folder.exists():
        folder = parent / f"{name}-{number}{SUFFIX}"
        number += 1
    return folder


def _time(instant_ns: int) -> str:
    try:
        moment = datetime.fromtimestamp(instant_ns // 1_000_000_000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(instant_ns)
    return f"{moment:%Y-%m-%dT%H%M%S}.{instant_ns // 1_000_000 % 1000:03d}Z"


def _clean(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_")


def latest_flows(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame``; of table ``flows`` only the last row of each flow, in order of the flows."""
    if table != "flows" or not frame.height:
        return frame
    return frame.unique("flow", keep="last", maintain_order=True).sort("flow", maintain_order=True)


def _unused(folder: Path) -> Path:
    number, found = 2, folder
    while found.exists():
        found = folder.with_name(f"{folder.stem}-{number}{folder.suffix}")
        number += 1
    return found


def _in_words(folder: Path, reason: OSError) -> str:
    advice = {
        errno.ENOSPC: ": free some space, or choose another folder",
        errno.EDQUOT: ": your quota is used up",
        errno.EROFS: ": choose a folder on a writable file system",
        errno.EACCES: ": choose a folder that you may write to",
    }.get(reason.errno or 0, "")
    return f"{folder}: cannot be written ({reason.strerror or reason}){advice}"


def _version() -> str:
    from whydrop import _core

    return _core.__version__


def _now_ns() -> int:
    import time

    return time.time_ns()
