"""Folders with their indexes as one: kept up to date, searched, and the only files that a page may open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from whydrop.errors import Error
from whydrop.recording.comparing.metadata_difference import Different, differences
from whydrop.web.library.database import Database, Entry, identity
from whydrop.web.library.describing import Description, describe, metadata
from whydrop.web.library.finding import Candidate, candidates
from whydrop.web.library.query import parsed

# Where the index of a folder is; the name hides it from what looks for recordings.
INDEX_FOLDER = ".whydrop-library"
# Entries that are described, and written, at once.
_BATCH = 64


class NotInLibraryError(Error, LookupError):
    """There is no such entry."""


@dataclass(frozen=True)
class Found:
    """The answer to a search: how many entries there are, and those of one page."""

    count: int
    entries: list[Entry]


@dataclass(frozen=True)
class Refreshed:
    """The number of entries that a look at the folders found added, changed and removed."""

    added: int = 0
    changed: int = 0
    removed: int = 0


class Library:
    """Some folders. Its methods may be called from several threads."""

    def __init__(self, roots: Sequence[Path], index_folder: Callable[[Path], Path] | None = None) -> None:
        """Open the indexes of folders, or make them.

        Args:
            roots: the folders.
            index_folder: where the index of a folder is; by default within it.

        Raises:
            OSError: a folder is not there, or its index cannot be written.
        """
        place = index_folder or (lambda root: root / INDEX_FOLDER)
        self._lock = threading.Lock()
        self._databases = []
        for root in dict.fromkeys(root.resolve(strict=True) for root in roots):
            self._databases.append(Database(root, place(root)))

    def close(self) -> None:
        """Close the indexes."""
        with self._lock:
            for database in self._databases:
                database.close()

    @property
    def roots(self) -> list[Path]:
        """The folders."""
        return [database.root for database in self._databases]

    def count(self) -> int:
        """The number of entries."""
        with self._lock:
            return sum(database.count() for database in self._databases)

    # --- searches ---

    def search(
        self,
        search: str = "",
        *,
        order: str = "started",
        descending: bool = True,
        offset: int = 0,
        limit: int = 100,
        columns: Sequence[str] = (),
    ) -> Found:
        """Entries for which a search holds (see :mod:`whydrop.web.library.query`).

        Args:
            search: the terms.
            order: the column, or the key of the metadata, by which they are ordered.
            descending: the greatest first.
            offset: entries before the first one that is wanted.
            limit: entries that are wanted.
            columns: keys of the metadata that are wanted of each entry.

        Raises:
            SearchError: it cannot be understood.
        """
        terms = parsed(search)
        with self._lock:
            answers = [
                database.search(terms, order=order, descending=descending, most=offset + limit, columns=columns)
                for database in self._databases
            ]
        rows = [row for _, found in answers for row in found]
        if len(answers) > 1:
            rows.sort(key=lambda row: row[0][1:], reverse=descending)
            # Entries without a value are last in both orders.
            rows.sort(key=lambda row: row[0][0])
        return Found(sum(count for count, _ in answers), [entry for _, entry in rows[offset : offset + limit]])

    def keys(self) -> dict[str, int]:
        """Keys of the metadata, each with the number of entries that have it."""
        found: dict[str, int] = {}
        with self._lock:
            for database in self._databases:
                for key, count in database.metadata_keys():
                    found[key] = found.get(key, 0) + count
        return dict(sorted(found.items()))

    def entry(self, own: str) -> Entry:
        """The entry with an identifier.

        Raises:
            NotInLibraryError: there is none.
        """
        return self._find(own)[1]

    def path(self, own: str) -> Path:
        """The file or folder of an entry. Only what a look at the folders found has an identifier.

        Raises:
            NotInLibraryError: there is none, or it is no longer there, or it leads out of its folder by a link.
        """
        database, entry = self._find(own)
        path = database.root / entry.path
        if not path.exists() or not path.resolve().is_relative_to(database.root):
            raise NotInLibraryError(f"{entry.path}: no longer in {database.root}")
        return path

    def differences(self, entries: Sequence[str]) -> list[Different]:
        """The keys of the metadata that do not have the same value in all entries.

        Raises:
            NotInLibraryError: there is no such entry.
            Error: one cannot be read.
        """
        found = []
        for own in entries:
            database, entry = self._find(own)
            candidate = Candidate(entry.path, entry.kind, entry.size_bytes, entry.changed_ns)
            found.append(metadata(database.root, candidate))
        return differences(found)

    def identify(self, path: Path) -> str:
        """The identifier of a file or folder below one of the folders.

        Raises:
            NotInLibraryError: it is below none.
        """
        for database in self._databases:
            if path.is_relative_to(database.root):
                return identity(database.root, str(path.relative_to(database.root)))
        raise NotInLibraryError(f"{path}: below none of the folders of the library")

    def mark(self, own: str, tags: Iterable[str], note: str) -> Entry:
        """Set the tags and the note of an entry: they are kept beside it.

        Raises:
            NotInLibraryError: there is none.
        """
        database, entry = self._find(own)
        kept = sorted({" ".join(tag.split()) for tag in tags} - {""})
        with self._lock:
            database.mark(entry.path, kept, note.strip())
        return self.entry(own)

    def _find(self, own: str) -> tuple[Database, Entry]:
        with self._lock:
            for database in self._databases:
                entry = database.find(own)
                if entry is not None:
                    return database, entry
        raise NotInLibraryError(
            f"{own[:40]!r}: not in the library; its file was moved or removed, or the link is wrong"
        )

    # --- changes ---

    def refresh(self, pool: Executor | None = None, progress: Callable[[int, int], None] | None = None) -> Refreshed:
        """Look at all files, and describe those that are new or have changed.

        Args:
            pool: describes files in parallel; by default this thread does.
            progress: called with the number of files described so far, and in all.
        """
        total = Refreshed()
        for database in self._databases:
            found = self._refresh(database, pool, progress or (lambda _done, _all: None))
            total = Refreshed(total.added + found.added, total.changed + found.changed, total.removed + found.removed)
        return total

    def _refresh(self, database: Database, pool: Executor | None, progress: Callable[[int, int], None]) -> Refreshed:
        with self._lock:
            known = database.known()
        present = {candidate.path: candidate for candidate in candidates(database.root, known)}
        gone = known.keys() - present.keys()
        new = [candidate for path, candidate in present.items() if known.get(path) != candidate]
        if gone:
            with self._lock:
                database.remove(gone)
        work = [(database.root, batch) for batch in _batches(new)]
        progress(0, len(new))
        done = 0
        for described in pool.map(_describe_all, work) if pool is not None else map(_describe_all, work):
            with self._lock:
                database.put(described)
            done += len(described)
            progress(done, len(new))
        changed = sum(candidate.path in known for candidate in new)
        return Refreshed(len(new) - changed, changed, len(gone))


def _describe_all(work: tuple[Path, list[Candidate]]) -> list[tuple[Candidate, Description]]:
    root, batch = work
    return [(candidate, describe(root, candidate)) for candidate in batch]


Item = TypeVar("Item")


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, _BATCH)):
        yield batch
