"""Plain text in columns, for terminals and files alike."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from whydrop.cli.ending import printable

_WIDEST = 110
_NARROWEST = 60
_LEAST_LAST = 24


def width() -> int:
    """The characters of a line: the terminal's, up to a readable width; the widest where the text is piped."""
    if not sys.stdout.isatty():
        return _WIDEST
    return max(_NARROWEST, min(_WIDEST, shutil.get_terminal_size().columns))


def paragraph(text: str, indent: str = "") -> str:
    """Text in lines of the width.

    >>> paragraph("one  two\\nthree")
    'one two three'
    """
    return textwrap.fill(printable(" ".join(text.split())), width(), initial_indent=indent, subsequent_indent=indent)


def columns(rows: Sequence[Sequence[str]], indent: str = "  ", gap: int = 2) -> list[str]:
    """Rows with their cells below each other; the last column is wrapped where it does not fit.

    >>> columns([("a", "1"), ("long", "2")])
    ['  a     1', '  long  2']
    """
    cells = [[printable(cell) for cell in row] for row in rows]
    if not cells:
        return []
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]) - 1)]
    lead = len(indent) + sum(widths) + gap * len(widths)
    room = max(_LEAST_LAST, width() - lead)
    lines = []
    for row in cells:
        head = indent + "".join(cell.ljust(wide + gap) for cell, wide in zip(row, widths, strict=False))
        wrapped = textwrap.wrap(row[-1], room) or [""]
        lines.append((head + wrapped[0]).rstrip())
        lines.extend(" " * lead + rest for rest in wrapped[1:])
    return lines


def numbers(headings: Sequence[str], rows: Iterable[Sequence[str]], indent: str = "  ", gap: int = 2) -> list[str]:
    """A table of numbers: the first column begins below its heading, the others end there.

    >>> numbers(("Table", "Rows"), [("ndt", "1 284"), ("tcp", "7")])
    ['  Table   Rows', '  ndt    1 284', '  tcp        7']
    """
    cells = [[printable(cell) for cell in row] for row in (headings, *rows)]
    first, *others = (max(map(len, column)) for column in zip(*cells, strict=True))
    return [
        indent + (" " * gap).join([row[0].ljust(first), *map(str.rjust, row[1:], others)]).rstrip() for row in cells
    ]


def clock(seconds: float) -> str:
    """A long span of time, to the second.

    >>> clock(75), clock(4000), clock(8.2)
    ('1 min 15 s', '1 h 6 min', '8 s')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"
