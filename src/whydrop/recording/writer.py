"""Writing a recording while it is measured, so that whatever happens costs no more than the last moment.

While the test runs, everything appended goes to the folder ``journal`` (see there) at each flush. At the end the
tables become one Parquet file each and the journal is removed. A disk that takes no more, or a folder that vanishes,
costs nothing: what could not be written stays in memory, is tried again, and goes to another folder in the end.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.recording import document, journal, tables
from whydrop.recording.errors import RecordingError
from whydrop.recording.journal import Part
from whydrop.runtime import durable

LOCK_NAME = "writing.lock"

# What the journal holds is kept in memory too, up to this size, in case that the folder vanishes. A test of one
# minute with eight flows and probes at 5 ms takes about 10 MB.
_KEPT_BYTES = 128 * 1024 * 1024


class RecordingWriter:
    """One recording that is being written. Its methods may be called from any thread.

    Attributes:
        folder: where it is written; after :meth:`finish`, where it is.
        metadata: what ``recording.json`` will say.
        message: one line about what went wrong with writing; ``None`` while all is well.
    """

    def __init__(self, folder: str | os.PathLike[str], metadata: dict[str, Any], *, fallback: Path | None = None):
        """Make the folder, with its metadata and an empty journal.

        Args:
            folder: made here; must be absent or empty.
            metadata: see ``record.document``; ``status`` becomes ``running``.
            fallback: where the recording goes in the end if ``folder`` does not take it (the default is the system's
                folder for temporary files).

        Raises:
            RecordingError: the folder cannot be made or written.
        """
        self.folder = Path(folder)
        self.metadata = document.check({"schema": document.SCHEMA, **metadata, "status": "running"}, str(folder))
        self.metadata["whydrop"] = self.metadata["whydrop"] or _version()
        self.message: str | None = None
        self._fallback = fallback
        self._appended: dict[str, list[pl.DataFrame]] = {}
        self._kept: dict[str, list[tuple[int, pl.DataFrame]]] = {}
        self._kept_bytes = 0
        self._parts: dict[str, list[Part]] = {}
        self._numbers: dict[str, int] = {}
        self._to_restore: set[str] = set()
        self._told: dict[str, Any] | None = None
        self._finished = False
        self._revised: Callable[[str, pl.DataFrame], pl.DataFrame] = lambda _, frame: frame
        self._lock = threading.Lock()  # of what was appended; never held while something is written
        self._writing = threading.Lock()
        self._lock_file: int | None = None
        self._begin()

    def append(self, table: str, frame: pl.DataFrame) -> None:
        """Add rows to a table; columns as in ``record.tables``, those that are left out are null.

        A row of table ``flows`` takes the place of an earlier one of the same number.

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
        """Make everything durable that was appended; to be called about once a second.

        Returns:
            Whether it is. If not, :attr:`message` says why, and it is tried again at the next call.
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
        """Write the tables for good, and the metadata.

        Args:
            status: ``complete``, ``interrupted`` or ``failed``.
            revised: makes of a whole table, in the order in which it was appended, what is written for good.

        Returns:
            The folder that holds the recording: if its own does not take it, one in the fallback folder
            (:attr:`message` says so).

        Raises:
            RecordingError: neither takes it. Everything is still in memory or in the journal: make room and call this
                again.
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
                    # The journal has it all, and is what is to be read.
                    self.metadata["status"] = "running"
            self._remove_journal()
            self._unlock()
            return self.folder

    def close(self) -> None:
        """Let go of the recording; where it was not finished, it is left as one that was interrupted.

        What was appended goes to the journal, as far as that takes it.
        """
        try:
            if not self._finished:
                self.flush()
        finally:
            with self._writing:
                self._unlock()

    def _begin(self) -> None:
        try:
            if self.folder.exists() and any(self.folder.iterdir()):
                raise RecordingError(f"{self.folder}: not empty; a recording needs a folder of its own")
            (self.folder / journal.FOLDER_NAME).mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._write_metadata()
        except OSError as reason:
            self._unlock()
            raise RecordingError(_in_words(self.folder, reason)) from reason
        except BaseException:
            self._unlock()
            raise

    def _take_lock(self) -> None:
        """Hold a lock, so that a reader can tell a test that runs from one that was killed."""
        self._lock_file = os.open(self.folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        # Some file systems of networks have no locks: then readers take the recording for interrupted.
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(self) -> None:
        if self._lock_file is not None:
            os.close(self._lock_file)
            self._lock_file = None

    def _flush(self) -> None:
        folder = self.folder / journal.FOLDER_NAME
        if not folder.is_dir():
            # Somebody removed it under us: begin again, with what memory still has.
            folder.mkdir(parents=True)
            self._unlock()
            self._take_lock()
            self._told, self._parts, self._to_restore = None, {}, set(self._kept)
        for table in list(self._to_restore):
            self._restore(folder, table)
        with self._lock:
            names = list(self._appended)
        for table in names:
            self._flush_table(folder, table)
        self._write_metadata()

    def _restore(self, folder: Path, table: str) -> None:
        numbers, frames = zip(*self._kept[table], strict=True)
        self._parts[table] = [journal.write_part(folder, table, (numbers[0], numbers[-1]), pl.concat(frames))]
        self._to_restore.discard(table)

    def _flush_table(self, folder: Path, table: str) -> None:
        with self._lock:
            frames = self._appended.get(table, [])
            count = len(frames)
        if not count:
            return
        rows = pl.concat(frames[:count])
        number = self._numbers.get(table, 0)
        self._parts.setdefault(table, []).append(journal.write_part(folder, table, (number, number), rows))
        with self._lock:
            del frames[:count]
        self._numbers[table] = number + 1
        self._keep(table, number, rows)
        # Merging is tidiness: on a full disk it can wait.
        with contextlib.suppress(OSError):
            self._parts[table] = journal.merge(folder, self._parts[table])

    def _write_metadata(self) -> None:
        now = dict(self.metadata)
        if now != self._told:
            document.write(self.folder, now)
            self._told = now

    def _keep(self, table: str, number: int, rows: pl.DataFrame) -> None:
        self._kept_bytes += int(rows.estimated_size())
        # Once there is too much, nothing more is kept: what is kept of a table are its first batches, without gaps.
        if self._kept_bytes <= _KEPT_BYTES:
            self._kept.setdefault(table, []).append((number, rows))

    def _finish_in(self, folder: Path) -> None:
        """Write the tables and the metadata into ``folder``; then the journal is needed no more."""
        folder.mkdir(parents=True, exist_ok=True)
        lost: list[str] = []
        counts: dict[str, int] = {}
        for table in tables.TABLES:
            frame = tables.conform(table, self._revised(table, self._whole(table, lost)))
            if frame.height:
                counts[table] = frame.height
                self._write_table(folder, table, frame)
        metadata = {**self.metadata, "tables": counts}
        if lost:
            metadata["failures"] = [*metadata["failures"], *lost]
        document.write(folder, metadata)
        self.metadata, self._finished = metadata, True

    def _remove_journal(self) -> None:
        for leftover in (self.folder / journal.FOLDER_NAME, self.folder / LOCK_NAME):
            with contextlib.suppress(OSError):
                shutil.rmtree(leftover) if leftover.is_dir() else leftover.unlink()

    @staticmethod
    def _write_table(folder: Path, table: str, frame: pl.DataFrame) -> None:
        if "flow" in frame.columns:
            # A flow's rows beside each other are smaller, and its series are had without a copy.
            frame = frame.sort("flow", maintain_order=True)
        # Not straight into the file: polars calls a full disk a damaged file.
        content = io.BytesIO()
        frame.write_parquet(content, compression="zstd", statistics=True)
        durable.write_bytes(folder / f"{table}.parquet", content.getbuffer())

    def _whole(self, table: str, lost: list[str]) -> pl.DataFrame:
        """Everything that was appended to a table: from the journal or, where that fails, from memory."""
        frames = list(self._from_journal(table, lost))
        with self._lock:
            frames += self._appended.get(table, [])
        return latest_flows(table, pl.concat([tables.empty(table), *frames]))

    def _from_journal(self, table: str, lost: list[str]) -> Iterator[pl.DataFrame]:
        """The batches that were flushed, in order; what the journal no longer has comes from memory."""
        parts = {part.first: part for part in self._parts.get(table, ())}
        kept = dict(self._kept.get(table, ()))
        number = missing = 0
        while number < self._numbers.get(table, 0):
            part = parts.get(number)
            rows = journal.read_or_none(part) if part is not None else None
            if part is not None and rows is not None:
                yield rows
                number = part.last + 1
                continue
            if number in kept:
                yield kept[number]
            else:
                missing += 1
            number += 1
        if missing:
            lost.append(f"table {table}: {missing} batches of rows are lost: the journal was removed or damaged")

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
        self.message = f"{why}. Nothing is lost: the recording is in {folder}"


def latest_flows(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame``; of table ``flows`` only the last row of each flow, at the place of its first."""
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
        errno.ENOSPC: ": make room, or choose another folder",
        errno.EDQUOT: ": your quota is used up",
        errno.EROFS: ": choose a folder that can be written",
        errno.EACCES: ": choose a folder that you may write",
    }.get(reason.errno or 0, "")
    return f"{folder}: cannot be written ({reason.strerror or reason}){advice}"


def _version() -> str:
    from whydrop import _core

    return _core.__version__


def _now_ns() -> int:
    import time

    return time.time_ns()
