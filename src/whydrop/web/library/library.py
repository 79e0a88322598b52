"""Folders with their indexes as one: kept up to date, searched, and the only files that a page may open."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whydrop.errors import Error
from whydrop.recording.comparing.metadata_difference import Different, differences
from whydrop.web.library import marks
from whydrop.web.library.database import Database, Entry, MarksError, Order, identity
from whydrop.web.library.describing import metadata
from whydrop.web.library.describing_pool import Described, DescribingPool, describe_all
from whydrop.web.library.finding import Candidate, Looked, as_shown, candidates
from whydrop.web.library.links import first_out, leads_out
from whydrop.web.library.query import parsed, terms

# Where the index of a folder is; the name hides it from what looks for recordings.
INDEX_FOLDER = ".whydrop-library"
NEWEST = (Order("started", descending=True),)


class NotInLibraryError(Error, LookupError):
    """There is no such entry."""


class UnusableIndexError(Error):
    """An index cannot be used just now; the message says why."""


@dataclass(frozen=True)
class Found:
    """The answer to a search.

    Attributes:
        count: of the entries that there are.
        entries: those of one page.
        unknown_keys: keys of the search that no entry has.
    """

    count: int
    entries: list[Entry]
    unknown_keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refreshed:
    """The number of entries that a look at the folders found added, changed and removed."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True)
class Tagging:
    """A change of the marks of several entries.

    Attributes:
        add: tags that they get.
        remove: tags that they lose.
        note: a line that is added to their notes.
    """

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    note: str = ""


def cache_folder(root: Path) -> Path:
    """Where the index of a folder is that cannot be written."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "whydrop" / "library" / identity(root, "")


class Library:
    """Some folders. Its methods may be called from several threads."""

    def __init__(self, roots: Sequence[Path], elsewhere: Callable[[Path], Path] = cache_folder) -> None:
        """Open the indexes of folders, or make them.

        Args:
            roots: the folders.
            elsewhere: where the index of a folder is that cannot be written.

        Raises:
            OSError: a folder is not there.
        """
        # One thread at a time uses an index; one at a time looks at the folders.
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._problems: dict[Path, str] = {}
        self._databases = []
        self._looked: dict[Path, Looked] = {}
        resolved = dict.fromkeys(root.resolve(strict=True) for root in roots)
        # What is below another folder is listed there.
        for root in (one for one in resolved if not any(other in one.parents for other in resolved)):
            self._databases.append(self._opened(root, elsewhere))
            self._looked[root] = Looked()

    def _opened(self, root: Path, elsewhere: Callable[[Path], Path]) -> Database:
        """The index of a folder: within it, else elsewhere, else in memory."""
        kept = root / INDEX_FOLDER
        try:
            return Database(root, kept, kept)
        except (OSError, sqlite3.OperationalError) as reason:
            why = getattr(reason, "strerror", None) or str(reason)
            self._problems[root] = (
                f"{kept}: {why}. Its entries can be searched and opened; tags, notes and views cannot be kept"
            )
        try:
            return Database(root, elsewhere(root), kept)
        except (OSError, sqlite3.OperationalError):
            return Database(root, None, kept)

    def close(self) -> None:
        """Close the indexes."""
        with self._lock:
            for database in self._databases:
                database.close()

    @property
    def roots(self) -> list[Path]:
        """The folders."""
        return [database.root for database in self._databases]

    def index_folders(self) -> list[Path]:
        """The folders of the indexes, without those that are in memory."""
        return [found for database in self._databases if (found := database.folder) is not None]

    def problems(self) -> list[str]:
        """Sentences for the user about the folders: not readable, not writable, damaged and renewed."""
        found = [*self._problems.values()]
        for database in self._databases:
            found += [*database.notes, *self._looked[database.root].problems[:20]]
        return found

    def others(self) -> int:
        """The number of files that are not listed, as they are of no known kind."""
        return sum(len(looked.others) for looked in self._looked.values())

    def count(self) -> int:
        """The number of entries."""
        return sum(self._each(Database.count))

    @contextmanager
    def _using(self, database: Database) -> Iterator[Database]:
        """Use an index alone; a damaged one is replaced, and the next look at its folder fills it.

        Raises:
            UnusableIndexError: it cannot be used just now.
        """
        with self._lock:
            try:
                yield database
            except sqlite3.DatabaseError as reason:
                if marks.is_damage(reason):
                    database.renew()
                    raise UnusableIndexError(
                        f"the index of {database.root} was damaged ({reason}); it is made again, which takes a moment"
                    ) from reason
                locked = "another program uses it; try again" if marks.is_busy(reason) else str(reason)
                raise UnusableIndexError(f"the index of {database.root} cannot be used: {locked}") from reason

    def _each(self, call: Callable[[Database], Any]) -> list[Any]:
        answers = []
        for database in self._databases:
            with self._using(database):
                answers.append(call(database))
        return answers

    # --- searches ---

    def search(
        self,
        search: str = "",
        *,
        order: Sequence[Order] = NEWEST,
        offset: int = 0,
        limit: int = 100,
        columns: Sequence[str] = (),
    ) -> Found:
        """Entries for which a search holds (see :mod:`whydrop.web.library.query`).

        Args:
            search: the terms.
            order: the columns, or the keys of the metadata, by which they are ordered.
            offset: entries before the first one that is wanted.
            limit: entries that are wanted.
            columns: keys of the metadata that are wanted of each entry.

        Raises:
            SearchError: it cannot be understood.
        """
        node = parsed(search)
        answers = self._each(lambda one: one.search(node, order=order, most=offset + limit, columns=columns))
        rows = [row for _, found in answers for row in found]
        if len(answers) > 1:
            # From the last key to the first, as sorting keeps the order of equals.
            for at, one in reversed(list(enumerate(order))):
                rows.sort(key=lambda row, at=at: row[0][at][1:], reverse=one.descending)  # type: ignore[misc]
                rows.sort(key=lambda row, at=at: row[0][at][0])  # type: ignore[misc]
        keys = dict.fromkeys(term.key for term in terms(node) if term.key)
        unknown = [key for key in keys if not any(self._each(lambda one, key=key: one.has_key(key)))]  # type: ignore[misc]
        entries = [entry for _, entry in rows[offset : offset + limit]]
        return Found(sum(count for count, _ in answers), entries, tuple(unknown))

    def identifiers(self, search: str, most: int) -> list[str]:
        """The identifiers of all entries for which a search holds, up to a number of them.

        Raises:
            SearchError: it cannot be understood.
        """
        node = parsed(search)
        return [own for found in self._each(lambda one: one.identifiers(node, most)) for own in found][:most]

    def keys(self) -> dict[str, int]:
        """Keys of the metadata, each with the number of entries that have it."""
        return _summed(found.items() for found in self._each(Database.metadata_keys))

    def values(self, key: str, text: str = "", most: int = 20) -> dict[str, int]:
        """Values of a key that contain a text, the most frequent first, each with the number of its entries."""
        found = _summed(self._each(lambda one: one.values(key, as_shown(text), most)))
        return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:most])

    def entry(self, own: str, columns: Sequence[str] = ()) -> Entry:
        """The entry with an identifier.

        Raises:
            NotInLibraryError: there is none.
        """
        return self._find(own, columns)[1]

    def path(self, own: str) -> Path:
        """The file or folder of an entry. Only what a look at the folders found has an identifier.

        Raises:
            NotInLibraryError: there is none, or it is no longer there, or it leads out of its folder by a link.
        """
        database, entry = self._find(own)
        path = database.root / entry.path
        if leads_out(database.root, path):
            raise NotInLibraryError(f"{entry.path}: no longer in {database.root}")
        if path.is_dir() and (link := first_out(database.root, path)):
            raise NotInLibraryError(f"{entry.path}: {link.name} is a link out of {database.root}")
        return path

    def located(self, entries: Sequence[str]) -> list[tuple[Path, Candidate]]:
        """Entries as :func:`whydrop.web.library.describing.metadata` takes them, in a process of its own.

        Raises:
            NotInLibraryError: there is no such entry.
        """
        found = []
        for own in entries:
            self.path(own)
            database, entry = self._find(own)
            found.append((database.root, Candidate(entry.path, entry.kind, entry.size_bytes, entry.changed_ns)))
        return found

    def identify(self, path: Path) -> str:
        """The identifier of a file or folder below one of the folders.

        Raises:
            NotInLibraryError: it is below none.
        """
        database = self._database_of(path)
        return identity(database.root, as_shown(str(path.relative_to(database.root))))

    def root_of(self, path: Path) -> Path:
        """The folder of the library that a file is in.

        Raises:
            NotInLibraryError: it is in none.
        """
        return self._database_of(path).root

    def _database_of(self, path: Path) -> Database:
        for database in self._databases:
            if path.is_relative_to(database.root):
                return database
        raise NotInLibraryError(f"{path}: below none of the folders of the library")

    def _find(self, own: str, columns: Sequence[str] = ()) -> tuple[Database, Entry]:
        for database in self._databases:
            with self._using(database):
                entry = database.find(own, columns)
            if entry is not None:
                return database, entry
        raise NotInLibraryError(
            f"{own[:40]!r}: not in the library; its file was moved or removed, or the link is wrong"
        )

    # --- tags, notes and views ---

    def mark(self, own: str, tags: Iterable[str], note: str, revision: int | None = None) -> Entry:
        """Set the tags and the note of an entry: they are kept beside it.

        Args:
            own: the identifier of the entry.
            tags: all of them.
            note: its text.
            revision: of the marks that were read; by default whatever is there is replaced.

        Raises:
            NotInLibraryError: there is no such entry.
            ChangedMeanwhileError: somebody else changed them since.
            MarksError: they cannot be kept.
        """
        database, entry = self._find(own)
        with self._using(database):
            database.mark(entry.path, _tags(tags), as_shown(note.strip()), revision)
        return self.entry(own)

    def tag(self, entries: Iterable[str], tagging: Tagging) -> int:
        """Change the tags and notes of entries; the answer is the number of those that had to be changed.

        Raises:
            NotInLibraryError: there is no such entry.
            MarksError: they cannot be kept.
        """
        changed = 0
        added, removed = set(_tags(tagging.add)), set(_tags(tagging.remove))
        for own in entries:
            database, _ = self._find(own)
            with self._using(database):
                # Read and written within one turn: what another page adds stays.
                entry = database.find(own)
                if entry is None:
                    continue
                tags = sorted((set(entry.tags) | added) - removed)
                note = "\n".join(filter(None, (entry.note, as_shown(tagging.note.strip()))))
                if (tuple(tags), note) != (entry.tags, entry.note):
                    database.mark(entry.path, tags, note, entry.revision)
                    changed += 1
        return changed

    def views(self) -> dict[str, dict[str, Any]]:
        """Saved views by name."""
        found: dict[str, dict[str, Any]] = {}
        for views in self._each(Database.views):
            found = {**views, **found}
        return dict(sorted(found.items()))

    def keep_view(self, name: str, state: Mapping[str, Any] | None) -> None:
        """Save a view in the first folder that can be written, or remove it from all where there is no state.

        Raises:
            MarksError: no folder can be written.
            NotInLibraryError: there is no view to remove.
        """
        keeping = [database for database in self._databases if database.is_keeping]
        if not keeping:
            raise MarksError("no folder of the library can be written: the view cannot be kept")
        if state is None and name not in self.views():
            raise NotInLibraryError(f"{name[:40]!r}: there is no view of this name")
        for database in keeping:
            with self._using(database):
                database.keep_view(as_shown(name), state if database is keeping[0] else None)

    # --- changes ---

    def refresh(
        self, pool: DescribingPool | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Refreshed:
        """Look at all files, and describe those that are new or have changed.

        Args:
            pool: describes files in parallel; by default this thread does.
            progress: called with the number of files described so far, and in all.
        """
        total = Refreshed()
        with self._looking:
            for database in self._databases:
                found = self._refresh(database, pool, progress or (lambda _done, _all: None))
                total = Refreshed(
                    total.added + found.added, total.changed + found.changed, total.removed + found.removed
                )
        return total

    def _refresh(
        self, database: Database, pool: DescribingPool | None, progress: Callable[[int, int], None]
    ) -> Refreshed:
        with self._using(database):
            known = database.known()
        looked = self._looked[database.root]
        present = {one.path: one for one in candidates(database.root, known, looked)}
        gone = known.keys() - present.keys()
        new = [one for path, one in present.items() if known.get(path) != one]
        if gone:
            with self._using(database):
                database.move_marks(
                    _moved([known[path] for path in gone], [one for one in new if one.path not in known])
                )
                database.remove(gone)
        added = changed = 0
        if new:
            progress(0, len(new))
        batches = pool.described(database.root, new) if pool else (describe_all(database.root, [one]) for one in new)
        done = 0
        for described in batches:
            listed = [(one, words) for one, words in described if words is not None]
            left_out = [one for one, words in described if words is None]
            with self._using(database):
                database.put(listed)
                database.remove(one.path for one in left_out)
            looked.others |= {one.path: _other(one) for one in left_out}
            added += sum(one.path not in known for one, _ in listed)
            changed += sum(one.path in known for one, _ in listed)
            done += len(described)
            progress(done, len(new))
        return Refreshed(added, changed, len(gone))

    def enter(self, path: Path, described: Described) -> Entry:
        """List one new file or recording at once.

        Args:
            path: of it.
            described: of :func:`whydrop.web.library.describing_pool.describe_one`.

        Raises:
            NotInLibraryError: it is below none of the folders, or of no kind that is listed.
        """
        listed = [(one, words) for one, words in described if words]
        if not listed:
            raise NotInLibraryError(
                "no capture and no recording of a test. Expected pcap or pcapng, NAME.recording, a file of "
                "Flent, or the output of iperf3 --json"
            )
        database = self._database_of(path)
        with self._using(database):
            database.put(listed)
        return self.entry(self.identify(path))

    def enter_all(self, folder: Path, described: Described) -> None:
        """List what is in a new folder at once.

        Args:
            folder: of the files.
            described: their paths are below the folder.
        """
        database = self._database_of(folder)
        below = as_shown(str(folder.relative_to(database.root)))
        listed = [
            (Candidate(f"{below}/{one.path}", one.kind, one.size_bytes, one.changed_ns), words)
            for one, words in described
            if words
        ]
        with self._using(database):
            database.put(listed)

    def leave(self, path: Path) -> None:
        """List a file no longer; its tags and notes stay."""
        database = self._database_of(path)
        with self._using(database):
            database.remove([as_shown(str(path.relative_to(database.root)))])


def _tags(given: Iterable[str]) -> list[str]:
    return sorted({" ".join(as_shown(tag).split()) for tag in given} - {""})


def _other(one: Candidate) -> Candidate:
    return Candidate(one.path, "other", one.size_bytes, one.changed_ns)


def _moved(gone: Sequence[Candidate], new: Sequence[Candidate]) -> dict[str, str]:
    """Files that were moved or renamed: the same kind, size and time, which only one has at each place."""
    places: dict[tuple[object, ...], tuple[list[str], list[str]]] = {}
    for at, listed in enumerate((gone, new)):
        for one in listed:
            places.setdefault((one.kind, one.size_bytes, one.changed_ns), ([], []))[at].append(one.path)
    return {old[0]: new_paths[0] for old, new_paths in places.values() if len(old) == len(new_paths) == 1}


def _summed(pairs: Iterable[Iterable[tuple[str, int]]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in pairs:
        for key, count in one:
            found[key] = found.get(key, 0) + count
    return dict(sorted(found.items()))


def differences_of(located: Sequence[tuple[Path, Candidate]]) -> list[Different]:
    """The keys of the metadata that do not have the same value in all entries.

    Raises:
        Error: one cannot be read.
    """
    return differences([metadata(root, one) for root, one in located])
