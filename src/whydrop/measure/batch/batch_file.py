"""One or several batch files: read, checked against the schema, their inheritance resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from whydrop.measure.batch.schema import BatchFile
from whydrop.runtime.user_files import lines as toml_lines
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import FileError, Problem, written_path
from whydrop.runtime.user_files.spelling import nearest

KINDS = ("batch", "argument", "command")

# Deeper than any file that somebody wrote by hand, and far from the depth at which Python gives up.
_MOST_LEVELS = 50


@dataclass(frozen=True)
class Table:
    """One table of a file, with what the file says in it and where.

    Attributes:
        said: the fields that the table sets itself.
    """

    kind: str
    name: str
    said: dict[str, Any]
    file: str
    folder: Path
    lines: dict[toml_lines.Path, int]

    def problem(self, message: str, *keys: str | int) -> Problem:
        """A mistake at one of its keys."""
        path = (self.kind, self.name, *keys)
        return Problem(self.file, toml_lines.nearest_line(self.lines, path), written_path(path), message)


@dataclass(frozen=True)
class Tables:
    """Everything that the files define: tables by kind and name; a later file replaces those of an earlier one."""

    tables: dict[tuple[str, str], Table]
    shuffle: bool
    files: tuple[Path, ...]

    def named(self, kind: str) -> dict[str, Table]:
        """The tables of a kind in order of definition."""
        return {name: table for (of, name), table in self.tables.items() if of == kind}


def read(files: Sequence[Path]) -> Tables:
    """Read batch files.

    Raises:
        FileError: with every mistake of all of them.
    """
    problems: list[Problem] = []
    tables: dict[tuple[str, str], Table] = {}
    shuffle = True
    for path in files:
        try:
            shuffle = _read(path, tables)
        except FileError as reason:
            problems.extend(reason.problems)
    found = Tables(tables, shuffle, tuple(files))
    problems.extend(_of_names(found))
    if problems:
        raise FileError(problems)
    return found


def lineage(tables: Tables, table: Table) -> list[Table]:
    """The tables that a table inherits from, each once, and itself at the end: later ones override earlier ones."""
    chain: dict[str, Table] = {}

    def visit(one: Table) -> None:
        for parent in one.said.get("inherits", []):
            if parent not in chain:
                visit(tables.tables[one.kind, parent])
        chain[one.name] = one

    visit(table)
    return list(chain.values())


def _read(path: Path, tables: dict[tuple[str, str], Table]) -> bool:
    raw, where = validating.parse(path, str(path))
    model, mistakes = validating.validate(BatchFile, raw)
    if model is None:
        raise FileError(
            Problem(str(path), toml_lines.nearest_line(where, place), written_path(place), message)
            for place, message in mistakes
        )
    for kind in KINDS:
        for name, table in getattr(model, kind).items():
            said = {field: getattr(table, field) for field in table.model_fields_set}
            tables[kind, name] = Table(kind, name, said, str(path), path.parent, where)
    return model.shuffle


def _of_names(tables: Tables) -> list[Problem]:
    """Names of undefined tables, and circles of inheritance."""
    found: list[Problem] = []
    for table in tables.tables.values():
        found.extend(_unknown(table, "inherits", tables.named(table.kind)))
        for key in ("commands", "also"):
            found.extend(_unknown(table, key, tables.named("command")))
        for axis, patterns in table.said.get("for_", {}).items():
            found.extend(_unmatched(table, axis, patterns, tables.named("argument")))
    if not found:
        found.extend(_circles(tables))
    return found


def _unknown(table: Table, key: str, known: dict[str, Table]) -> list[Problem]:
    return [
        table.problem(
            f"no {next(iter(known.values())).kind if known else key} is called {name!r}{_hint(name, known)}", key
        )
        for name in table.said.get(key) or []
        if name not in known and "${" not in name
    ]


def _hint(name: str, known: dict[str, Table]) -> str:
    like = nearest(name, known)
    return f"; did you mean {like!r}?" if like else f"; there are {', '.join(known) or 'none'}"


def _unmatched(table: Table, axis: str, patterns: list[str], known: dict[str, Table]) -> list[Problem]:
    return [
        table.problem(f"no argument is called {pattern!r}, or matches it{_hint(pattern, known)}", "for", axis)
        for pattern in patterns
        if not any(fnmatchcase(name, pattern) for name in known)
    ]


def _circles(tables: Tables) -> list[Problem]:
    """Circles of inheritance, and what inherits through more levels than anybody could follow."""
    levels = _levels(tables)
    found = [
        tables.tables[place].problem(f"inherits through more than {_MOST_LEVELS} levels", "inherits")
        for place, level in levels.items()
        if level == _MOST_LEVELS + 1
    ]
    for place, table in tables.tables.items():
        chain = None if place in levels else _way_back(tables, table)
        if chain:
            found.append(table.problem(f"inherits from itself: {' from '.join(chain)}", "inherits"))
    return found


def _levels(tables: Tables) -> dict[tuple[str, str], int]:
    """How many levels each table inherits through; those in a circle, or that inherit from one, are left out."""
    children: dict[tuple[str, str], list[tuple[str, str]]] = {}
    waiting: dict[tuple[str, str], int] = {}
    for place, table in tables.tables.items():
        parents = set(table.said.get("inherits", []))
        waiting[place] = len(parents)
        for parent in parents:
            children.setdefault((table.kind, parent), []).append(place)
    levels = {place: 0 for place, count in waiting.items() if not count}
    ready = list(levels)
    while ready:
        place = ready.pop()
        for child in children.get(place, ()):
            waiting[child] -= 1
            # The last parent that is known need not be the deepest one.
            levels[child] = max(levels.get(child, 0), levels[place] + 1)
            if not waiting[child]:
                ready.append(child)
    return {place: level for place, level in levels.items() if not waiting[place]}


def _way_back(tables: Tables, table: Table) -> list[str] | None:
    """The circle of inheritance through a table, by names; ``None`` where there is none."""
    came_from: dict[str, str] = {}
    below = [table.name]
    while below:
        name = below.pop(0)
        for parent in tables.tables[table.kind, name].said.get("inherits", []):
            if parent == table.name:
                chain = [name]
                while chain[-1] != table.name:
                    chain.append(came_from[chain[-1]])
                return [*chain[::-1], table.name]
            if parent not in came_from:
                came_from[parent] = name
                below.append(parent)
    return None
