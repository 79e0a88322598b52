"""Which series recordings have, kept beside the index of their folder: to find it out, each has to be read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Hashable, Sequence
from pathlib import Path
from types import TracebackType

from whydrop._core import __version__
from whydrop.recording import table_files
from whydrop.recording.recording import Recording
from whydrop.show.plots.choosing import kind_of

_FILE = "series.sqlite"
_TABLE = "CREATE TABLE IF NOT EXISTS kinds (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, kind BLOB NOT NULL)"
# Another process that writes is not waited for any longer: it is quicker to read the recordings.
_BUSY_S = 1.0
_MOST_KEPT = 100_000
# Beyond, something else than a recording has been put into the folder.
_MOST_FILES = 100


class KeptKinds:
    """The kinds of recordings: those that are kept are known without reading the recordings.

    What cannot be read or written here is no problem for the reader: the recordings are read again.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        """Nothing is opened yet.

        Args:
            folders: the first that can be written is used.
        """
        self._folders = folders
        self._connection: sqlite3.Connection | None = None
        self._kept: dict[str, tuple[str, bytes]] = {}
        self._new: dict[str, tuple[str, bytes]] = {}

    def __enter__(self) -> KeptKinds:
        """Read what is kept."""
        for folder in self._folders:
            file = folder / _FILE
            for _ in range(2):
                try:
                    self._open(file)
                except sqlite3.DatabaseError as reason:
                    self._close()
                    # Damaged: it is made again. One that is busy, or in a folder that cannot be written, stays.
                    if isinstance(reason, sqlite3.OperationalError):
                        break
                    with contextlib.suppress(OSError):
                        file.unlink()
                else:
                    return self
        return self

    def _open(self, file: Path) -> None:
        self._connection = sqlite3.connect(file, timeout=_BUSY_S)
        with self._connection as database:
            database.execute(_TABLE)
            rows = database.execute("SELECT path, stamp, kind FROM kinds").fetchall()
        self._kept = {path: (stamp, kind) for path, stamp, kind in rows}

    def __exit__(
        self, kind: type[BaseException] | None, reason: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Keep what is new."""
        if self._connection is not None and self._new:
            rows = [(path, *values) for path, values in self._new.items()]
            with contextlib.suppress(sqlite3.DatabaseError), self._connection as database:
                if len(self._kept) + len(rows) > _MOST_KEPT:
                    database.execute("DELETE FROM kinds")
                database.executemany("INSERT OR REPLACE INTO kinds VALUES (?, ?, ?)", rows)
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def kind_of(self, recording: Recording) -> Hashable:
        """The kind of a recording, which is equal for recordings with the same series."""
        path, before = os.fsdecode(recording.path.resolve()), _stamp(recording)
        if before and (found := self._kept.get(path)) is not None and found[0] == before:
            return found[1]
        if not before:
            return digest(recording)
        # What is read for it does not stay in memory: of a thousand recordings it would be all their series.
        kind = digest(Recording(recording.path, recording.metadata))
        if before == _stamp(recording):
            self._new[path] = before, kind
        return kind


def digest(recording: Recording) -> bytes:
    """The kind of a recording as few bytes."""
    series = kind_of(recording)
    assert isinstance(series, frozenset)
    return hashlib.blake2b("\n".join(sorted(map(repr, series))).encode("utf-8", "replace"), digest_size=16).digest()


def _stamp(recording: Recording) -> str:
    """A text that changes whenever the series of a recording may; empty where nothing says so.

    What is in one file holds several recordings, or takes longer to be parsed than to be looked at.
    """
    try:
        with os.scandir(recording.path) as found:
            files = sorted((one.name, one.stat().st_size, one.stat().st_mtime_ns) for one in found if one.is_file())
    except OSError:
        return ""
    # What is being written, or was when its test was killed, is in a folder within.
    if (recording.path / table_files.FOLDER_NAME).exists() or not 0 < len(files) <= _MOST_FILES:
        return ""
    return hashlib.blake2b(repr((__version__, files)).encode(), digest_size=16).hexdigest()
