"""One or several batch files: read, checked against the schema, their inheritance resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from whydrop.measure.batch.schema import BatchFile
from whydrop.runtime.user_files import lines as toml_lines
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import FileError, Problem, written_path
from whydrop.runtime.user_files.spelling import suggestion

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
    kind = next(iter(known.values())).kind if known else key
    return [
        table.problem(f"no {kind} is called {name!r}{_hint(name, known)}", key)
        for name in table.said.get(key) or []
        if name not in known and "${" not in name
    ]


def _hint(name: str, known: dict[str, Table]) -> str:
    return suggestion(name, known, f"there are {', '.join(known) or 'none'}")


def _unmatched(table: Table, axis: str, patterns: list[str], known: dict[str, Table]) -> list[Problem]:
    return [
        table.problem(f"no argument is called {pattern!r}, or matches it{_hint(pattern, known)}", "for", axis)
        for pattern in patterns
        if "${" not in pattern and not any(fnmatchcase(name, pattern) for name in known)
    ]


def _circles(tables: Tables) -> list[Problem]:
    """Circles of inheritance, and what inherits through more levels than anybody could follow."""
    found: list[Problem] = []
    graph = {
        (table.kind, table.name): {(table.kind, parent) for parent in table.said.get("inherits", [])}
        for table in tables.tables.values()
    }
    while True:
        try:
            order = [*TopologicalSorter(graph).static_order()]
            break
        except CycleError as reason:
            # From parent to child.
            circle = reason.args[1][:0:-1]
            for number, one in enumerate(circle):
                chain = " from ".join(name for _, name in [*circle[number:], *circle[: number + 1]])
                found.append(tables.tables[one].problem(f"inherits from itself: {chain}", "inherits"))
                del graph[one]
    levels: dict[tuple[str, str], int] = {}
    for place in order:
        levels[place] = max((levels[parent] + 1 for parent in graph.get(place, ())), default=0)
        if levels[place] == _MOST_LEVELS + 1:
            found.append(tables.tables[place].problem(f"inherits through more than {_MOST_LEVELS} levels", "inherits"))
    return found
