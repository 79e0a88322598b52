"""The lines of a document on a page of fixed-width characters.

Lines break at ordinary spaces only: a no-break space keeps a number and its unit together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

from whydrop.show.document import (
    Cell,
    Command,
    Document,
    Facts,
    Figures,
    Folded,
    Items,
    Look,
    Part,
    Section,
    Table,
    Text,
    plain,
)
from whydrop.text import quantities
from whydrop.text.printable import one_line

_INDENT, _BULLET, _GAP = 2, "• ", 2
# A label longer than this, or than a third of the width, stands above its text.
_LONGEST_LABEL = 28
# A column of words is not made narrower than this before other columns are left out.
_READABLE = 36
# Nor at all narrower than this: longer words are broken.
_SHORTEST = 16


@dataclass(frozen=True)
class Span:
    """Characters of one look within a line; ``heading`` and ``command`` are looks of their own."""

    text: str
    look: Look | str = ""


Line = tuple[Span, ...]


@dataclass(frozen=True)
class Page:
    """The room for lines.

    Attributes:
        width: of a line, in characters.
        whole_names: whether the first column of a table is never broken, so that a file can be searched for names.
    """

    width: int
    whole_names: bool = False


def lines_of(document: Document, page: Page) -> Iterator[Line]:
    """All lines of a document; only commands and single words exceed the width, and names that are to stay whole."""
    first = document.parts[0] if document.parts else None
    if isinstance(first, Section):
        yield from paragraph(Text(first.title, "strong"), page.width)
        yield from _parts(first.parts, page, 0)
        yield from _parts(document.parts[1:], page, 0)
    else:
        yield from _parts(document.parts, page, 0)
    if document.notes:
        yield from _heading("Notes")
        yield from _items(tuple(Text(note, "warning") for note in document.notes), page.width, _INDENT)


def _parts(parts: Iterable[Part], page: Page, indent: int) -> Iterator[Line]:
    before: Part | None = None
    for part in parts:
        if isinstance(before, Table) and not _has_heading(part):
            yield ()
        yield from _part(part, page, indent)
        before = part


def _has_heading(part: Part) -> bool:
    return isinstance(part, Section | Table) and bool(part.title)


def _part(part: Part, page: Page, indent: int) -> Iterator[Line]:
    match part:
        case Text():
            yield from paragraph(part, page.width, indent)
        case Command():
            yield _command(part, indent)
        case Items():
            yield from _items(part.items, page.width, max(indent, _INDENT))
        case Facts():
            yield from _tiles(part, page.width, indent) if part.tiles else facts(part, page.width, max(indent, _INDENT))
        case Table():
            if part.rows:
                yield from _heading(part.title) if part.title else ()
                yield from table(part, page, max(indent, _INDENT))
        case Figures():
            pass
        case Folded():
            yield from _items((Text(part.summary), *part.brief), page.width, max(indent, _INDENT))
        case Section():
            yield from _section(part, page, indent)


def _section(part: Section, page: Page, indent: int) -> Iterator[Line]:
    indent = _INDENT if part.title else indent
    yield from _heading(part.title) if part.title else ()
    yield from _parts(part.parts[: part.most], page, indent)
    left = len(part.parts) - len(part.parts[: part.most])
    if left:
        more = f"and {quantities.count(left)} more" + (f" ({part.elsewhere})" if part.elsewhere else "")
        yield from paragraph(Text(more, "quiet"), page.width, indent)


def _heading(title: str) -> Iterator[Line]:
    yield ()
    yield (Span(one_line(title), "heading"),)


def _command(command: Command, indent: int) -> Line:
    return (Span(" " * (indent + 4)), Span(f"$ {one_line(command.text)}", "command"))


def paragraph(text: Text, width: int, indent: int = 0) -> Iterator[Line]:
    """A text in lines of the width."""
    for line in wrapped(one_line(text.text), width - indent):
        yield (Span(" " * indent), Span(line, text.look))


def _items(items: Sequence[Text | Command], width: int, indent: int) -> Iterator[Line]:
    """Sentences with a bullet each."""
    for item in items:
        if isinstance(item, Command):
            yield _command(item, indent)
            continue
        first, *rest = wrapped(one_line(item.text), width - indent - len(_BULLET)) or [""]
        yield (Span(" " * indent), Span(_BULLET, "quiet"), Span(first, item.look))
        yield from ((Span(" " * (indent + len(_BULLET))), Span(line, item.look)) for line in rest)


def _tiles(shown: Facts, width: int, indent: int) -> Iterator[Line]:
    joined = " · ".join(f"{value} {plain(meaning)}" for value, meaning in shown.rows)
    yield from paragraph(Text(joined, "quiet"), width, indent)


def facts(shown: Facts, width: int, indent: int = _INDENT) -> Iterator[Line]:
    """Labels, and their texts below each other."""
    longest = max((cell_len(label) for label, _ in shown.rows), default=0)
    lead = min(longest, _LONGEST_LABEL, width // 3)
    for label, cell in shown.rows:
        text = cell if isinstance(cell, Text) else Text(cell)
        lines = wrapped(one_line(text.text), width - indent - lead - _GAP) or [""]
        begin = " " * (indent + lead + _GAP)
        if cell_len(label) > lead:
            yield (Span(" " * indent), Span(one_line(label), "quiet"))
        else:
            first = lines.pop(0)
            yield (Span(" " * indent), Span(_padded(one_line(label), lead), "quiet"), Span(" " * _GAP),
                   Span(first, text.look))  # fmt: skip
        yield from ((Span(begin), Span(line, text.look)) for line in lines)


def table(shown: Table, page: Page, indent: int = _INDENT) -> Iterator[Line]:
    """Rows below the titles of their columns, and below them what is left out and what to know."""
    rows = [[_printed(cell) for cell in row] for row in shown.most_important(shown.most)]
    room = page.width - indent
    columns = _columns_within(shown, rows, room)
    widths = _widths(shown, rows, columns, room, whole_names=page.whole_names)
    titles = [Text(one_line(shown.columns[at].title), "quiet") for at in columns]
    for cells in (
        [titles, *([row[at] for at in columns] for row in rows)]
        if any(title.text for title in titles)
        else [[row[at] for at in columns] for row in rows]
    ):
        yield from _row(cells, [shown.columns[at].number for at in columns], widths, indent)
    for note in _below(shown, rows, columns):
        yield from paragraph(Text(note, "quiet"), page.width, indent)


def _below(shown: Table, rows: Sequence[object], columns: Sequence[int]) -> Iterator[str]:
    left = len(shown.rows) - len(rows)
    if left:
        said = "; ".join(part for part in (shown.order, shown.elsewhere) if part)
        yield f"and {quantities.count(left)} more" + (f" ({said})" if said else "")
    gone = [column.title for at, column in enumerate(shown.columns) if at not in columns]
    if gone:
        yield f"Columns left out for lack of width: {', '.join(gone)}."
    yield from shown.notes


def _printed(cell: Cell) -> Text:
    return Text(one_line(plain(cell)), cell.look if isinstance(cell, Text) else "")


def _row(cells: Sequence[Text], numbers: Sequence[bool], widths: Sequence[int], indent: int) -> Iterator[Line]:
    """A row, of as many lines as its highest cell."""
    columns = [_folded(cell.text, width) for cell, width in zip(cells, widths, strict=True)]
    for number in range(max(map(len, columns))):
        spans = [Span(" " * indent)]
        for cell, lines, width, right in zip(cells, columns, widths, numbers, strict=True):
            text = lines[number] if number < len(lines) else ""
            spans += [Span(_padded(text, width, right=right), cell.look), Span(" " * _GAP)]
        yield tuple(spans)


def _folded(text: str, width: int) -> list[str]:
    """The lines of a cell; a word that is longer, such as a path, is broken at its end."""
    return [chop for line in wrapped(text, width) for chop in chop_cells(line, max(1, width))] or [""]


def _padded(text: str, width: int, *, right: bool = False) -> str:
    room = " " * max(0, width - cell_len(text))
    return room + text if right else text + room


def _columns_within(shown: Table, rows: Sequence[Sequence[Text]], width: int) -> list[int]:
    """The columns that fit beside each other; those of rank 0 always stay."""
    chosen = list(range(len(shown.columns)))
    full = [
        natural if column.number else min(natural, _READABLE)
        for column, natural in zip(shown.columns, _natural(shown, rows, chosen), strict=True)
    ]
    while sum(full[at] + _GAP for at in chosen) - _GAP > width:
        spare = [at for at in chosen if shown.columns[at].rank]
        if not spare:
            break
        chosen.remove(max(spare, key=lambda at: shown.columns[at].rank))
    return chosen


def _natural(shown: Table, rows: Sequence[Sequence[Text]], columns: Sequence[int]) -> list[int]:
    """The widths of columns of which no cell is broken."""
    return [max(map(cell_len, (shown.columns[at].title, *(row[at].text for row in rows)))) for at in columns]


def _widths(
    shown: Table, rows: Sequence[Sequence[Text]], columns: Sequence[int], width: int, *, whole_names: bool
) -> list[int]:
    """The widths of columns: the widest column of words is narrowed first; numbers are never broken."""
    widths = _natural(shown, rows, columns)
    least = [_longest_word([shown.columns[at].title, *(row[at].text for row in rows)]) for at in columns]
    least = [
        most if shown.columns[at].number else min(most, _SHORTEST) for at, most in zip(columns, least, strict=True)
    ]
    if whole_names:
        least[0] = widths[0]
    while (over := sum(widths) + _GAP * (len(widths) - 1) - width) > 0:
        loose = [place for place in range(len(columns)) if widths[place] > least[place]]
        if not loose:
            break
        widest = max(loose, key=lambda place: (not shown.columns[columns[place]].number, widths[place]))
        widths[widest] = max(least[widest], widths[widest] - over)
    return widths


def _longest_word(texts: Iterable[str]) -> int:
    return max((cell_len(word) for text in texts for word in text.split(" ")), default=0)


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most so many characters, broken at ordinary spaces only; a longer word has a line of its own.

    >>> wrapped("took 20\\N{NO-BREAK SPACE}ms each", 9)
    ['took', '20\\xa0ms', 'each']
    """
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += f" {word}"
        elif word:
            lines.append(word)
    return lines
