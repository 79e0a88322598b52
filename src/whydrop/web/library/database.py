"""The index of one folder in SQLite; notes, tags and saved views are in a file of their own (marks.py).

The index can be rebuilt at any time, notes and tags cannot: a damaged or older index is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whydrop.errors import Error
from whydrop.web.library import marks
from whydrop.web.library.conditions import OWN, condition
from whydrop.web.library.conditions import marks as question_marks
from whydrop.web.library.describing import Description, number
from whydrop.web.library.finding import Candidate, Kind
from whydrop.web.library.query import ALIASES, Node

# Of the tables below: an index of another version is rebuilt.
_VERSION = 2
_INDEX = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL, kind TEXT NOT NULL,
    size_bytes INTEGER NOT NULL, changed_ns INTEGER NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL,
    started_ns INTEGER, duration_s REAL, status TEXT NOT NULL, problem TEXT NOT NULL, words TEXT NOT NULL
);
CREATE INDEX entries_by_start ON entries (started_ns);
CREATE TABLE keys (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE facts (
    key INTEGER NOT NULL, entry INTEGER NOT NULL, value TEXT NOT NULL, number REAL, PRIMARY KEY (key, entry)
) WITHOUT ROWID;
CREATE INDEX facts_by_entry ON facts (entry);
"""


class MarksError(Error):
    """Tags and notes cannot be kept; the message says why."""


class ChangedMeanwhileError(Error):
    """Tags and a note were changed by somebody else since they were read: nothing was written."""


@dataclass(frozen=True)
class Order:
    """A key by which entries are ordered; those without a value are last in any case."""

    key: str
    descending: bool = False

    @classmethod
    def of(cls, written: str) -> Order:
        """From its text: ``-`` before a key is the descending order.

        >>> Order.of("-started")
        Order(key='started', descending=True)
        """
        return cls(written.removeprefix("-"), written.startswith("-"))


@dataclass(frozen=True)
class Entry:
    """An entry of the library as it is shown.

    Attributes:
        id: the same as long as its path is.
        path: below the folder of the library.
        kind: ``recording``, ``capture``, ``store``, or ``file`` of another tool.
        revision: of the tags and the note; each change counts one further.
        values: those of the keys that were asked for, by key.
    """

    id: str
    path: str
    kind: Kind
    size_bytes: int
    changed_ns: int
    name: str
    title: str
    started_ns: int | None
    duration_s: float | None
    status: str
    problem: str
    tags: tuple[str, ...]
    note: str
    revision: int
    values: Mapping[str, str]


# What an entry is ordered by: for each key, whether there is no value, its number, and its text.
Place = tuple[tuple[bool, float, str], ...]


def identity(root: Path, path: str) -> str:
    """The identifier of an entry: short, the same at every start, and nothing that names a file by itself."""
    return hashlib.blake2s(f"{root}\0{path}".encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


class Database:
    """The index of one folder. One thread at a time may use it."""

    def __init__(self, root: Path, folder: Path | None, kept: Path) -> None:
        """Open, or make, the index of a folder.

        Args:
            root: the folder.
            folder: where the index is; without one it is in memory.
            kept: where tags, notes and views are kept.

        Raises:
            OSError: ``folder`` cannot be written.
            sqlite3.OperationalError: another program holds the index.
        """
        self.root = root
        self.folder = folder
        self._kept = kept
        self.notes: list[str] = []
        self.is_keeping = folder == kept
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        self._open()

    def _open(self) -> None:
        try:
            self._connect()
        except sqlite3.DatabaseError as reason:
            if not marks.is_damage(reason):
                raise
            self._remove()
            self._connect()
        self._keys: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._keys_as_of = self._counts_as_of = -1

    def _connect(self) -> None:
        file = ":memory:" if self.folder is None else str(self.folder / "index.sqlite")
        self._database = sqlite3.connect(
            file, check_same_thread=False, isolation_level=None, timeout=marks.BUSY_S, cached_statements=512
        )
        run = self._database.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        # In KiB: the index of ten thousand recordings is about as large.
        run("PRAGMA cache_size = -65536")
        version = run("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            damage = sqlite3.DatabaseError("of another version")
            damage.sqlite_errorcode = sqlite3.SQLITE_NOTADB
            raise damage
        if version == 0:
            self._database.executescript(f"BEGIN IMMEDIATE; {_INDEX} PRAGMA user_version = {_VERSION}; COMMIT;")
        self._attach()

    def _attach(self) -> None:
        run = self._database.execute
        if self.is_keeping:
            note = marks.prepare(self._kept)
            self.notes += [note] if note else []
            run("ATTACH ? AS marks", [str(self._kept / marks.FILE_NAME)])
            return
        run("ATTACH ':memory:' AS marks")
        marks.make_tables(self._database, "marks.")
        known, views = marks.read_only(self._kept)
        self._database.executemany("INSERT INTO marks.marks (path, tags, note) VALUES (?, ?, ?)", known)
        self._database.executemany("INSERT INTO marks.views VALUES (?, ?)", views)

    def renew(self) -> None:
        """Replace a damaged index by an empty one; tags and notes stay."""
        self._remove()
        self._open()

    def _remove(self) -> None:
        with contextlib.suppress(AttributeError, sqlite3.Error):
            self._database.close()
        if self.folder is not None:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self.folder / 'index.sqlite'}{suffix}").unlink(missing_ok=True)

    def close(self) -> None:
        """Close the files."""
        self._database.close()

    # --- what is there ---

    def known(self) -> dict[str, Candidate]:
        """All entries by path, as they were when they were described."""
        rows = self._database.execute("SELECT path, kind, size_bytes, changed_ns FROM entries")
        return {row[0]: Candidate(*row) for row in rows}

    def count(self) -> int:
        """The number of entries."""
        return int(self._database.execute("SELECT count(*) FROM entries").fetchone()[0])

    def metadata_keys(self) -> dict[str, int]:
        """Keys of metadata, each with the number of entries that have it."""
        if self._counts_as_of != self._database.total_changes:
            rows = self._database.execute(
                "SELECT name, count FROM (SELECT key, count(*) AS count FROM facts GROUP BY key) "
                "JOIN keys ON key = keys.number ORDER BY name"
            )
            self._counts, self._counts_as_of = dict(rows), self._database.total_changes
        return self._counts

    def values(self, key: str, text: str, most: int) -> list[tuple[str, int]]:
        """Values of a key that contain a text, the most frequent first, each with the number of its entries."""
        like, limit = f"%{text}%", [most]
        if key in ("tag", "tags"):
            found: dict[str, int] = {}
            for (tags,) in self._database.execute("SELECT tags FROM entries JOIN marks.marks USING (path)"):
                for tag in filter(None, tags.split("\n")):
                    found[tag] = found.get(tag, 0) + (text in tag.lower())
            return sorted(((tag, count) for tag, count in found.items() if count), key=lambda one: -one[1])[:most]
        if key in ("kind", "status", "name", "title"):
            rows = self._database.execute(
                f"SELECT {key}, count(*) FROM entries WHERE {key} LIKE ? AND {key} <> '' GROUP BY 1 ORDER BY 2 DESC, 1 "
                "LIMIT ?",
                [like, *limit],
            )
            return list(rows)
        keys = self._keys_of(key)
        return list(
            self._database.execute(
                f"SELECT value, count(*) FROM facts WHERE key IN ({question_marks(keys)}) AND value LIKE ? "
                "GROUP BY value ORDER BY 2 DESC, 1 LIMIT ?",
                [*keys, like, *limit],
            )
        )

    # --- changes ---

    def put(self, described: Iterable[tuple[Candidate, Description]]) -> None:
        """Add entries, or replace them, in one transaction."""
        with self._transaction():
            facts: list[tuple[int, int, str, float | None]] = []
            for candidate, description in described:
                added = self._put(candidate, description)
                for key, value in description.facts.items():
                    facts.append((self._number_of(_stored(key)), added, _stored(value), number(value)))
            # In the order of the table: thousands of entries are added twice as fast.
            facts.sort(key=lambda fact: fact[:2])
            self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)", facts)

    def _put(self, candidate: Candidate, description: Description) -> int:
        own = identity(self.root, candidate.path)
        self._remove_entry(own)
        words = "\n".join((candidate.path, description.name, description.title, description.problem)).lower()
        added = self._database.execute(
            "INSERT INTO entries (id, path, kind, size_bytes, changed_ns, name, title, started_ns, duration_s, status, "
            "problem, words) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [own, _stored(candidate.path), candidate.kind, candidate.size_bytes, candidate.changed_ns,
             _stored(description.name), _stored(description.title), description.started_ns, description.duration_s,
             _stored(description.status), _stored(description.problem), _stored(words)],
        )  # fmt: skip
        return added.lastrowid or 0

    def _number_of(self, key: str) -> int:
        """The number of a key, which is given to it if it is new."""
        found = self._numbers.get(key)
        if found is None:
            self._database.execute("INSERT OR IGNORE INTO keys (name) VALUES (?)", [key])
            found = int(self._database.execute("SELECT number FROM keys WHERE name = ?", [key]).fetchone()[0])
            self._numbers[key] = found
        return found

    def _remove_entry(self, own: str) -> None:
        row = self._database.execute("SELECT number FROM entries WHERE id = ?", [own]).fetchone()
        if row:
            self._database.execute("DELETE FROM facts WHERE entry = ?", row)
            self._database.execute("DELETE FROM entries WHERE number = ?", row)

    def remove(self, paths: Iterable[str]) -> None:
        """Remove entries; their notes and tags stay, as the files may come back."""
        removed = list(paths)
        if not removed:
            return
        with self._transaction():
            for path in removed:
                self._remove_entry(identity(self.root, path))

    def move_marks(self, moved: Mapping[str, str]) -> None:
        """Give the tags and notes of files to those that they were moved to, unless these have their own."""
        with self._transaction():
            for old, new in moved.items():
                self._database.execute(
                    "INSERT OR IGNORE INTO marks.marks (path, tags, note, revision) "
                    "SELECT ?, tags, note, revision FROM marks.marks WHERE path = ?",
                    [_stored(new), _stored(old)],
                )

    def mark(self, path: str, tags: Sequence[str], note: str, revision: int | None = None) -> None:
        """Set the tags and the note of an entry.

        Args:
            path: of the entry.
            tags: all of them.
            note: its text.
            revision: that was read; ``None`` for whatever is there.

        Raises:
            ChangedMeanwhileError: somebody else changed them since.
            MarksError: they cannot be kept.
        """
        self._require_keeping()
        with self._transaction():
            row = self._database.execute(
                "SELECT revision, tags, note FROM marks.marks WHERE path = ?", [_stored(path)]
            ).fetchone() or (0, "", "")
            if revision is not None and revision != row[0] and (row[1], row[2]) != ("\n".join(tags), note):
                raise ChangedMeanwhileError(
                    f"{path}: its tags and its note were changed meanwhile, in another page: nothing was saved. Tags "
                    f"are now: {', '.join(row[1].split(chr(10))) or 'none'}. The note is now: {row[2] or 'empty'}"
                )
            self._database.execute(
                "INSERT OR REPLACE INTO marks.marks (path, tags, note, revision) VALUES (?, ?, ?, ?)",
                [_stored(path), "\n".join(tags), note, row[0] + 1],
            )

    def _require_keeping(self) -> None:
        if not self.is_keeping:
            raise MarksError(
                f"{self._kept}: cannot be written, so tags, notes and views of {self.root} cannot be kept. Allow "
                "writing to it, or copy the folder"
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            # Numbers of keys may have been given within.
            self._numbers.clear()
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise

    # --- views ---

    def views(self) -> dict[str, dict[str, Any]]:
        """Saved views by name."""
        return {
            name: json.loads(state) for name, state in self._database.execute("SELECT * FROM marks.views ORDER BY 1")
        }

    def keep_view(self, name: str, state: Mapping[str, Any] | None) -> None:
        """Save a view, or remove it where there is no state.

        Raises:
            MarksError: it cannot be kept.
        """
        self._require_keeping()
        if state is None:
            self._database.execute("DELETE FROM marks.views WHERE name = ?", [name])
        else:
            self._database.execute("INSERT OR REPLACE INTO marks.views VALUES (?, ?)", [name, json.dumps(state)])

    # --- searches ---

    def search(
        self, node: Node, *, order: Sequence[Order], most: int, columns: Sequence[str]
    ) -> tuple[int, list[tuple[Place, Entry]]]:
        """The number of entries for which a condition holds, and the first ones, each with what it is ordered by.

        Args:
            node: the condition.
            order: the keys of the order, the first one first.
            most: the number of entries that are returned.
            columns: keys of the metadata that are wanted of each entry.
        """
        text, values = condition(node, self._keys_of)
        where = f"FROM entries LEFT JOIN marks.marks USING (path) WHERE {text}"
        count = int(self._database.execute(f"SELECT count(*) {where}", values).fetchone()[0])
        by, by_values = self._ordered_by(order)
        placed = [
            f"text_{at} IS NULL OR text_{at} = '', number_{at} {_direction(one)}, text_{at} {_direction(one)}"
            for at, one in enumerate(order)
        ]
        rows = self._database.execute(
            f"SELECT {', '.join((_COLUMNS, *by))} {where} ORDER BY {', '.join((*placed, 'path'))} LIMIT ?",
            [*by_values, *values, most],
        ).fetchall()
        found = self._values([row[0] for row in rows], columns)
        return count, [(_place(row[_WIDTH:]), _entry(row, found.get(row[0], {}))) for row in rows]

    def identifiers(self, node: Node, most: int) -> list[str]:
        """The identifiers of entries for which a condition holds."""
        text, values = condition(node, self._keys_of)
        rows = self._database.execute(
            f"SELECT id FROM entries LEFT JOIN marks.marks USING (path) WHERE {text} ORDER BY path LIMIT ?",
            [*values, most],
        )
        return [own for (own,) in rows]

    def find(self, own: str, columns: Sequence[str] = ()) -> Entry | None:
        """The entry with an identifier."""
        row = self._database.execute(
            f"SELECT {_COLUMNS} FROM entries LEFT JOIN marks.marks USING (path) WHERE id = ?", [own]
        ).fetchone()
        return None if row is None else _entry(row, self._values([row[0]], columns).get(row[0], {}))

    def has_key(self, key: str) -> bool:
        """True if an entry may have a value under this name."""
        return key in OWN or bool(self._keys_of(key))

    def _values(self, entries: Sequence[int], columns: Sequence[str]) -> dict[int, dict[str, str]]:
        found: dict[int, dict[str, str]] = {}
        for column in columns:
            keys = self._keys_of(column)
            if not keys or not entries:
                continue
            rows = self._database.execute(
                f"SELECT entry, value FROM facts WHERE key IN ({question_marks(keys)}) "
                f"AND entry IN ({question_marks(entries)})",
                [*keys, *entries],
            )
            for own, value in rows:
                found.setdefault(own, {}).setdefault(column, value)
        return found

    def _keys_of(self, key: str) -> list[int]:
        """The numbers of the keys that a name means: itself, else all that end in it."""
        if self._database.total_changes != self._keys_as_of:
            self._keys = {name.lower(): own for own, name in self._database.execute("SELECT number, name FROM keys")}
            self._keys_as_of = self._database.total_changes
        names = [key.lower(), *ALIASES.get(key.lower(), ())]
        exact = [self._keys[name] for name in names if name in self._keys]
        endings = tuple(f".{name}" for name in names)
        # SQLite's values have a limit.
        return (exact or [own for name, own in self._keys.items() if name.endswith(endings)])[:_MOST_KEYS]

    def _ordered_by(self, order: Sequence[Order]) -> tuple[list[str], list[object]]:
        written: list[str] = []
        values: list[object] = []
        for at, one in enumerate(order):
            if one.key in OWN:
                column = OWN[one.key]
                written += [f"({column}) * 1.0 AS number_{at}", f"lower(cast({column} AS TEXT)) AS text_{at}"]
                continue
            keys = self._keys_of(one.key)
            chosen = f"FROM facts WHERE key IN ({question_marks(keys)}) AND facts.entry = entries.number LIMIT 1"
            written += [
                f"(SELECT facts.number {chosen}) AS number_{at}",
                f"(SELECT lower(value) {chosen}) AS text_{at}",
            ]
            values += [*keys, *keys]
        return written, values


_MOST_KEYS = 500
_COLUMNS = """entries.number, id, path, kind, size_bytes, changed_ns, name, title, started_ns, duration_s, status,
    problem, coalesce(tags, ''), coalesce(note, ''), coalesce(revision, 0)"""
_WIDTH = 15


def _direction(order: Order) -> str:
    return "DESC" if order.descending else "ASC"


def _place(by: Sequence[Any]) -> Place:
    pairs = zip(by[::2], by[1::2], strict=True)
    return tuple((not text, float("-inf") if number is None else number, text or "") for number, text in pairs)


def _entry(row: Sequence[Any], values: Mapping[str, str]) -> Entry:
    *own, tags, note, revision = row[1:_WIDTH]
    return Entry(*own, tuple(tags.split("\n")) if tags else (), note, revision, values)  # type: ignore[call-arg]


def _stored(text: str) -> str:
    """Text that SQLite takes: JSON may have half a character."""
    return text.encode("utf-8", "backslashreplace").decode()
