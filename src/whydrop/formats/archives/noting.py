"""Notes on many files, brought together: of each kind one, with how often it is so.

A note that counts says so as ``KIND: COUNT (EXAMPLES)``; any other is a sentence, which counts for one file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

_COUNTED = re.compile(r"(?P<kind>.+?): (?P<count>[0-9]+)(?: \((?P<example>.*)\))?", re.DOTALL)
# Of each kind of warning.
_EXAMPLES = 2
_EXAMPLE_CHARS = 120


@dataclass(frozen=True)
class Note:
    """A note on a file that is no damage."""

    source: str
    text: str

    def __str__(self) -> str:
        return f"{self.source}: {self.text}"


def counted(kind: str, count: int, example: str = "") -> str:
    """The text of a note that counts.

    >>> counted("Empty files", 2)
    'Empty files: 2'
    """
    return f"{kind}: {count} ({example})" if example else f"{kind}: {count}"


def together(notes: Iterable[Note]) -> list[str]:
    """One sentence for each kind of note, the most frequent kind first.

    >>> together([Note("a.tgz", "Empty files: 2"), Note("b.tgz", "Empty files: 1"), Note("c", "It is odd.")])
    ['Empty files: 3, in 2 files', 'c: It is odd.']
    """
    kinds: dict[str, list[tuple[Note, int, str]]] = {}
    for note in notes:
        found = _COUNTED.fullmatch(note.text)
        kind, count, example = (
            (found["kind"], int(found["count"]), found["example"] or "") if found else (note.text, 1, "")
        )
        kinds.setdefault(kind, []).append((note, count, example))
    return [_sentence(kind, of) for kind, of in sorted(kinds.items(), key=lambda item: -sum(one[1] for one in item[1]))]


def _sentence(kind: str, of: list[tuple[Note, int, str]]) -> str:
    first, _, example = of[0]
    sources = {note.source for note, _, _ in of}
    if kind == first.text and len(of) == 1:
        return str(first)
    where = f"{len(sources)} files" if len(sources) > 1 else first.source
    text = f"{kind}: {sum(count for _, count, _ in of)}, in {where}"
    if all(one[2] == example for one in of):
        return f"{text} ({example})" if example else text
    return f"{text} (first: {first.source}: {example})"


class Warnings:
    """Warnings on a file: each kind, a sentence in the plural, once, with how often and the first cases."""

    def __init__(self) -> None:
        self._found: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}

    def add(self, kind: str, case: object) -> None:
        """Take note of one case."""
        self._counts[kind] = self._counts.get(kind, 0) + 1
        cases = self._found.setdefault(kind, [])
        if len(cases) < _EXAMPLES:
            cases.append(str(case)[:_EXAMPLE_CHARS])

    def add_all(self, kind: str, rows: pl.DataFrame, case: Callable[[dict[str, Any]], str]) -> None:
        """Take note of a case for each row; ``case`` says it with the names of metrics."""
        for row in rows.head(_EXAMPLES).iter_rows(named=True):
            self.add(kind, f"{row['counter']} of {row['port']}: {case(row)}")
        self._counts[kind] = self._counts.get(kind, 0) + max(0, rows.height - _EXAMPLES)

    def sentences(self) -> list[str]:
        """One for each kind."""
        return [counted(kind, self._counts[kind], ", ".join(cases)) for kind, cases in self._found.items()]
