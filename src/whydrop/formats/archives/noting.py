"""Notes on many files, brought together: of each kind one, with how often it is so.

A note that counts says so as ``KIND: COUNT (EXAMPLES)``; any other is a sentence, which counts for one file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_COUNTED = re.compile(r"(?P<kind>.+?): (?P<count>[0-9]+)(?: \((?P<example>.*)\))?", re.DOTALL)


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
