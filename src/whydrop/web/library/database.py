"""The index of one folder in SQLite, beside what it lists; notes and tags of its entries are in a file of their own.

The index can be rebuilt at any time, notes and tags cannot: a damaged or older index is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whydrop.web.library.describing import Description, number
from whydrop.web.library.finding import Candidate, Kind
from whydrop.web.library.query import ALIASES, Term

# Of the tables below: an index of another version is rebuilt.
_VERSION = 1
_INDEX = """
CREATE TABLE entries (
    id TEXT PRIMARY KEY, path TEXT NOT NULL, kind TEXT NOT NULL, size_bytes INTEGER NOT NULL,
    changed_ns INTEGER NOT NULL, name TEXT NOT NULL, title TEXT NOT NULL, started_ns INTEGER, duration_s REAL,
    status TEXT NOT NULL, problem TEXT NOT NULL, words TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX entries_by_start ON entries (started_ns);
CREATE TABLE keys (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE facts (
    key INTEGER NOT NULL, id TEXT NOT NULL, value TEXT NOT NULL, number REAL, PRIMARY KEY (key, id)
) WITHOUT ROWID;
CREATE INDEX facts_by_entry ON facts (id);
"""
_MARKS = """
CREATE TABLE IF NOT EXISTS marks.marks (path TEXT PRIMARY KEY, tags TEXT NOT NULL, note TEXT NOT NULL) WITHOUT ROWID;
"""

# Columns of entries that a search or an order may name as if they were metadata.
_OWN = {
    "name": "name", "title": "title", "path": "path", "kind": "kind", "status": "status", "problem": "problem",
    "started": "started_ns / 1e9", "duration": "duration_s", "size": "size_bytes", "note": "coalesce(note, '')",
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """An entry of the library as it is shown.

    Attributes:
        id: the same as long as its path is.
        path: below the folder of the library.
        kind: ``recording``, ``capture``, ``store``, or ``file`` of another tool.
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
    values: Mapping[str, str]


def identity(root: Path, path: str) -> str:
    """The identifier of an entry: short, the same at every start, and nothing that names a file by itself."""
    return hashlib.blake2s(f"{root}\0{path}".encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


class Database:
    """The index of one folder. One thread at a time may use it."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Open, or make, the index of ``root`` in ``folder``.

        Raises:
            OSError: the folder cannot be written.
        """
        self.root = root
        folder.mkdir(parents=True, exist_ok=True)
        self._index = folder / "index.sqlite"
        try:
            self._connect(folder)
        except sqlite3.DatabaseError:
            self._remove()
            self._connect(folder)

        self._keys: dict[str, int] = {}
        self._keys_as_of = -1

    def _connect(self, folder: Path) -> None:
        self._database = sqlite3.connect(self._index, check_same_thread=False, isolation_level=None)
        run = self._database.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        run("ATTACH ? AS marks", [str(folder / "marks.sqlite")])
        run(_MARKS)
        version = run("PRAGMA user_version").fetchone()[0]
        if version == 0:
            self._database.executescript(f"BEGIN; {_INDEX} PRAGMA user_version = {_VERSION}; COMMIT;")
        elif version != _VERSION:
            raise sqlite3.DatabaseError("of another version")

    def _remove(self) -> None:
        with contextlib.suppress(AttributeError, sqlite3.Error):
            self._database.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._index}{suffix}").unlink(missing_ok=True)

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

    def metadata_keys(self) -> list[tuple[str, int]]:
        """Keys of metadata, each with the number of entries that have it."""
        rows = self._database.execute(
            "SELECT name, count(*) FROM keys JOIN facts ON facts.key = keys.number GROUP BY name ORDER BY name"
        )
        return [(name, count) for name, count in rows]

    # --- changes ---

    def put(self, described: Iterable[tuple[Candidate, Description]]) -> None:
        """Add entries, or replace them, in one transaction."""
        with self._transaction():
            for candidate, description in described:
                self._put(candidate, description)

    def _put(self, candidate: Candidate, description: Description) -> None:
        own = identity(self.root, candidate.path)
        run, many = self._database.execute, self._database.executemany
        run("DELETE FROM facts WHERE id = ?", [own])
        words = "\n".join((candidate.path, description.name, description.title, description.problem)).lower()
        run(
            "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [own, candidate.path, candidate.kind, candidate.size_bytes, candidate.changed_ns, description.name,
             description.title, description.started_ns, description.duration_s, description.status,
             description.problem, words],
        )  # fmt: skip
        facts = description.facts.items()
        many("INSERT OR IGNORE INTO keys (name) VALUES (?)", [(key,) for key, _ in facts])
        many(
            "INSERT INTO facts SELECT number, ?, ?, ? FROM keys WHERE name = ?",
            [(own, value, number(value), key) for key, value in facts],
        )

    def remove(self, paths: Iterable[str]) -> None:
        """Remove entries; their notes and tags stay, as the files may come back."""
        with self._transaction():
            for path in paths:
                own = identity(self.root, path)
                self._database.execute("DELETE FROM facts WHERE id = ?", [own])
                self._database.execute("DELETE FROM entries WHERE id = ?", [own])

    def mark(self, path: str, tags: Sequence[str], note: str) -> None:
        """Set the tags and the note of an entry."""
        self._database.execute("INSERT OR REPLACE INTO marks.marks VALUES (?, ?, ?)", [path, "\n".join(tags), note])

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    # --- searches ---

    def search(
        self,
        terms: Sequence[Term],
        *,
        order: str = "started",
        descending: bool = True,
        most: int,
        columns: Sequence[str],
    ) -> tuple[int, list[tuple[tuple[bool, float, str], Entry]]]:
        """The number of entries for which all terms hold, and the first ones, each with what it is ordered by.

        Args:
            terms: the conditions.
            order: a key of the metadata, or a column.
            descending: greatest first; entries without a value are last in any case.
            most: the number of entries that are returned.
            columns: keys of the metadata that are wanted of each entry.
        """
        conditions, values = self._conditions(terms)
        where = f"FROM entries LEFT JOIN marks.marks USING (path) WHERE {conditions}"
        count = int(self._database.execute(f"SELECT count(*) {where}", values).fetchone()[0])
        by, by_values = self._ordered_by(order)
        direction = "DESC" if descending else "ASC"
        rows = self._database.execute(
            f"SELECT {_COLUMNS}, {by} {where} "
            f"ORDER BY by_text IS NULL, by_number {direction}, by_text {direction}, path LIMIT ?",
            [*by_values, *values, most],
        ).fetchall()
        found = self._values([row[0] for row in rows], columns)
        return count, [
            (
                (row[-1] is None, row[-2] if row[-2] is not None else 0.0, row[-1] or ""),
                _entry(row, found.get(row[0], {})),
            )
            for row in rows
        ]

    def find(self, own: str, columns: Sequence[str] = ()) -> Entry | None:
        """The entry with an identifier."""
        row = self._database.execute(
            f"SELECT {_COLUMNS} FROM entries LEFT JOIN marks.marks USING (path) WHERE id = ?", [own]
        ).fetchone()
        return None if row is None else _entry(row, self._values([own], columns).get(own, {}))

    def _values(self, entries: Sequence[str], columns: Sequence[str]) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for column in columns:
            keys = self._keys_of(column)
            if not keys or not entries:
                continue
            rows = self._database.execute(
                f"SELECT id, value FROM facts WHERE key IN ({_marks(keys)}) AND id IN ({_marks(entries)})",
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
        return exact or [own for name, own in self._keys.items() if name.endswith(endings)]

    def _ordered_by(self, order: str) -> tuple[str, list[object]]:
        if order in _OWN:
            return f"({_OWN[order]}) * 1.0 AS by_number, cast({_OWN[order]} AS TEXT) AS by_text", []
        keys = self._keys_of(order)
        one = f"(SELECT {{}} FROM facts WHERE key IN ({_marks(keys)}) AND facts.id = entries.id LIMIT 1)"
        return f"{one.format('number')} AS by_number, {one.format('value')} AS by_text", [*keys, *keys]

    def _conditions(self, terms: Sequence[Term]) -> tuple[str, list[object]]:
        """The terms as one expression of SQL with its values."""
        written: list[str] = []
        values: list[object] = []
        for term in terms:
            text, own = self._condition(term)
            written.append(f"{'NOT ' if term.negated else ''}({text})")
            values += own
        return " AND ".join(written) or "1", values

    def _condition(self, term: Term) -> tuple[str, list[object]]:
        contained = f"%{_escaped(term.text)}%"
        if term.operator == "word":
            of_each = (
                f"{column} LIKE ? ESCAPE '!'" for column in ("words", "coalesce(tags, '')", "coalesce(note, '')")
            )
            return " OR ".join(of_each), [contained] * 3
        if term.key in ("tag", "tags"):
            return "instr(char(10) || lower(coalesce(tags, '')) || char(10), char(10) || ? || char(10))", [term.text]
        if term.key in _OWN:
            test, value = _comparison(term, _OWN[term.key], _OWN[term.key])
            return f"coalesce({test}, 0)", [value]
        test, value = _comparison(term, "value", "number")
        keys = self._keys_of(term.key)
        return f"id IN (SELECT id FROM facts WHERE key IN ({_marks(keys)}) AND {test})", [*keys, value]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


_COLUMNS = """id, path, kind, size_bytes, changed_ns, name, title, started_ns, duration_s, status, problem,
    coalesce(tags, '') AS tags, coalesce(note, '') AS note"""


def _entry(row: Sequence[object], values: Mapping[str, str]) -> Entry:
    *own, tags, note = row[:13]
    return Entry(*own, tuple(str(tags).split("\n")) if tags else (), str(note), values)  # type: ignore[arg-type, call-arg]


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _comparison(term: Term, text: str, number: str) -> tuple[str, object]:
    match term.operator:
        case ":":
            return f"{text} LIKE ? ESCAPE '!'", f"%{_escaped(term.text)}%"
        case "=":
            return f"lower({text}) = ?", term.text
        case operator:
            return f"{number} {operator} ?", term.number
