"""Reading files and archives into a store: each once, however often it is given, and each by itself.

A file is known by the SHA-256 of its bytes. Rows of many files are written together, and then it is noted that they
are there: whatever ends the program in between, a file that is not noted is read again, and its rows are found.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.formats.archives.chunks import Chunk, FileReport, Given, Status
from whydrop.formats.archives.parallel import read_all
from whydrop.runtime import long_calls
from whydrop.store.errors import StoreError
from whydrop.store.store import DESCRIPTION, Count

if TYPE_CHECKING:
    import polars as pl

    from whydrop.store.store import Store

Progress = Callable[[int, int], None]  # bytes done, and in all

# Rows that are written together: enough for parts of a useful size, few enough for memory.
ROWS_OF_A_BATCH = 500_000
FILES_OF_A_BATCH = 500


@dataclass
class Report:
    """The outcome of all files."""

    files: list[FileReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # on the store itself

    def tables(self) -> dict[str, Count]:
        """Rows of all files together, by table."""
        total: dict[str, Count] = {}
        for file in self.files:
            for table, count in file.tables.items():
                of = total.setdefault(table, Count())
                of += count
        return total

    def statuses(self) -> Counter[Status]:
        """How many files are of each status."""
        return Counter(file.status for file in self.files)

    @property
    def complete(self) -> bool:
        """True if everything that was given could be read."""
        return not any(file.status in ("damaged", "unreadable") for file in self.files)


def ingest(
    store: Store,
    paths: Iterable[Path],
    progress: Progress | None = None,
    *,
    again: bool = False,
    processes: int | None = None,
) -> Report:
    """Read files, archives, recordings, and folders of them with all folders below, into a store.

    A file that is damaged gives what is before the damage, and never stops the others. Ctrl-C keeps what was read; a
    second one does not wait for it to be written.

    Args:
        store: where the rows go.
        paths: of files and folders.
        progress: called with the bytes that are read and those in all.
        again: read files even if they are known, as after a part of the store was lost.
        processes: that read at the same time; by default as many as there are processors, where it is worth it.

    Raises:
        StoreError: the store cannot be written.
    """
    given = list(found(paths))
    total = sum(file.bytes for file in given)
    batch = _Batch(store)
    done = 0
    try:
        with closing(read_all(store, given, again=again, processes=processes)) as chunks:
            for file, chunk in chunks:
                if batch.take(chunk):
                    done += file.bytes
                if progress is not None:
                    progress(done, total)
    except StoreError:
        raise
    except BaseException:
        # Such as Ctrl-C: what was read is kept. After a second one the writing still goes on.
        if not batch.being_written:
            batch.write()
        raise
    batch.write()
    return Report(batch.reports, store.notes)


def found(paths: Iterable[Path]) -> Iterator[Given]:
    """The files that are meant, in order, those of folders by name; what is hidden in folders, and stores, are not.

    A recording's folder is meant as a whole.
    """
    from whydrop.recording.document import FILE_NAME

    for path in paths:
        if not path.is_dir():
            yield _given(path, named=True)
            continue
        closed: list[OSError] = []
        for folder, folders, names in os.walk(path, onerror=closed.append):
            if DESCRIPTION in names:
                # A store among the archives, perhaps the one that they are read into.
                folders.clear()
                continue
            if FILE_NAME in names:
                folders.clear()
                yield _given(Path(folder), named=Path(folder) == path, names=names)
                continue
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    yield _given(Path(folder) / name, named=False)
        for reason in closed:
            yield Given(Path(reason.filename), 0, named=True, failure=reason.strerror)


def _given(path: Path, *, named: bool, names: Sequence[str] = ()) -> Given:
    """A file; or the folder of a recording, with the names of the files in it."""
    try:
        if names:
            return Given(path, sum((path / name).stat().st_size for name in names), named)
        status = path.stat()
    except OSError as reason:
        return Given(path, 0, named, reason.strerror or str(reason))
    if not stat.S_ISREG(status.st_mode):
        # Reading a pipe or a device might never end.
        return Given(path, 0, named, "neither a file nor a folder")
    return Given(path, status.st_size, named)


class _Batch:
    """Rows of files that are to be written together."""

    def __init__(self, store: Store) -> None:
        self.reports: list[FileReport] = []
        self._store = store
        self._frames: dict[str, list[tuple[FileReport, pl.DataFrame]]] = {}  # by table
        self._finished: list[FileReport] = []
        self._rows = 0
        self.being_written = False

    def take(self, chunk: Chunk) -> bool:
        """Add what was read of a file; say whether that was all of it."""
        if chunk.piece is None:
            self._finished.append(chunk.report)
        elif chunk.piece.frame.height:
            self._frames.setdefault(chunk.piece.table, []).append((chunk.report, chunk.piece.frame))
            self._rows += chunk.piece.frame.height
        if self._rows >= ROWS_OF_A_BATCH or len(self._finished) >= FILES_OF_A_BATCH:
            self.write()
        return chunk.piece is None

    def write(self) -> None:
        """Write all rows, and then note their files; Ctrl-C takes effect after that."""
        long_calls.completed(self._write)

    def _write(self) -> None:
        self.being_written = True
        try:
            self._write_rows()
            self._note_files()
        finally:
            self.being_written = False

    def _write_rows(self) -> None:
        while self._frames:
            table, frames = next(iter(self._frames.items()))
            added = self._store.add_all(table, [frame for _, frame in frames])
            for (report, _), of in zip(frames, added, strict=True):
                count = report.tables.setdefault(table, Count())
                count += of
                report.shown += of.shown
            del self._frames[table]
        self._rows = 0

    def _note_files(self) -> None:
        while self._finished:
            report = self._finished[0]
            if report.sha256 and report.status in ("new", "damaged"):
                self._store.note_source(report.sha256, _facts(report))
            self.reports.append(report)
            del self._finished[0]


def _facts(report: FileReport) -> dict[str, Any]:
    from whydrop import _core

    return {
        "source": report.path,
        "sha256": report.sha256,
        "bytes": report.bytes,
        "read": datetime.now(UTC).isoformat(timespec="seconds"),
        "whydrop": _core.__version__,
        "status": report.status,
        "tables": {table: vars(count) for table, count in report.tables.items()},
        "damage": report.damage,
        "notes": [str(note) for note in report.notes],
        "conflicts": [str(conflict) for conflict in report.shown],
    }
