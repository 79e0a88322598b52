"""A document as data: sentences, tables, commands and figures, in sections. It knows nothing of how it is shown.

``terminal.py`` prints one, ``html.py`` makes a page of one, and :func:`as_json` gives plain values. A module with a
result to show makes a document of it, and lays out no text of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

from whydrop.show.figure import Ends, Figure

# How much a text matters, or what it says of a state. A back end may show it; no text depends on it.
Look = Literal["", "strong", "quiet", "good", "warning", "bad"]


@dataclass(frozen=True)
class Text:
    """A paragraph, an item of a list, or the text of a cell."""

    text: str
    look: Look = ""


Cell = str | Text


@dataclass(frozen=True)
class Command:
    """A command to copy: never broken into lines."""

    text: str


@dataclass(frozen=True)
class Items:
    """Sentences of a list, each with the commands that belong to it."""

    items: tuple[Text | Command, ...]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Items:
        """Sentences, and commands where a line begins with ``$``."""
        return cls(tuple(Command(line[2:]) if line.startswith("$ ") else Text(line) for line in lines))


@dataclass(frozen=True)
class Facts:
    """Values with what they mean: of ``tiles`` the value comes first, of lines the label."""

    rows: tuple[tuple[str, Cell], ...]
    tiles: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table; where the width is short, those of the highest ``rank`` go first, and rank 0 never.

    Attributes:
        title: of the column, with the unit of its values where all have one.
        number: whether its values are aligned by their ends.
        rank: the order in which columns are left out.
    """

    title: str
    number: bool = False
    rank: int = 0


Row = TypeVar("Row")
Value = TypeVar("Value")

# Each with what writes its cell of a row.
Columns = Mapping[Column, Callable[[Row], Cell]]


def known(value: Value | None, write: Callable[[Value], str]) -> str:
    """The cell of a value that may be missing: a dash where it is.

    >>> known(1500, str), known(None, str)
    ('1500', '–')
    """
    return "–" if value is None or value != value else write(value)


@dataclass(frozen=True)
class Table:
    """Rows of cells below the titles of their columns.

    Attributes:
        title: its heading.
        columns: titles, alignment, and the order in which columns are left out.
        rows: cells, as many as columns.
        weights: the importance of each row, where not all rows are shown; empty: the first ones are.
        order: says by what ``weights`` order the rows.
        notes: what to know about all rows, below the table.
        most: the number of rows that a terminal shows.
        elsewhere: where to find the rows that are not shown.
        names: what the first column names, where a page may do something with it: ``flow``.
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    weights: tuple[tuple[float, float], ...] = ()
    order: str = ""
    notes: tuple[str, ...] = ()
    most: int | None = None
    elsewhere: str = ""
    names: str = ""

    @classmethod
    def of(
        cls,
        title: str,
        columns: Columns[Row],
        rows: Iterable[Row],
        *,
        weight: Callable[[Row], tuple[float, float]] | None = None,
        order: str = "",
        notes: Iterable[str] = (),
        most: int | None = None,
        elsewhere: str = "",
        names: str = "",
    ) -> Table:
        """The table of these rows, by columns that each know how to write their cells."""
        rows = list(rows)
        cells = tuple(tuple(write(row) for write in columns.values()) for row in rows)
        weights = tuple(map(weight, rows)) if weight is not None else ()
        notes = tuple(note for note in notes if note)
        return cls(title, tuple(columns), cells, weights, order, notes, most, elsewhere, names)

    def most_important(self, number: int | None) -> list[tuple[Cell, ...]]:
        """At most so many rows: the most important, which then come first."""
        if number is None or not self.weights:
            return list(self.rows[:number])
        best = sorted(range(len(self.rows)), key=lambda row: self.weights[row], reverse=True)
        return [self.rows[row] for row in best[:number]]

    def without_empty_columns(self) -> Table:
        """The same without the columns, the first aside, of which no row has a value."""
        kept = [
            at for at in range(len(self.columns)) if not at or any(plain(row[at]) not in ("", "–") for row in self.rows)
        ]
        rows = tuple(tuple(row[at] for at in kept) for row in self.rows)
        columns = tuple(self.columns[at] for at in kept)
        return replace(self, columns=columns, rows=rows)


@dataclass(frozen=True)
class Choice:
    """Figures that are shown together, of several such between which the reader chooses.

    Attributes:
        figures: in their order.
        name: in the list of choices.
        focus: the window of time that is worth a look, in seconds.
        origin_s: the moment that time 0 of the figures is, in seconds since the Unix epoch, where that is known:
            figures of other sections can then show the same time.
        cells: Python that draws a figure again, by the key of the figure, where that is possible.
    """

    figures: Sequence[Figure]
    name: str = ""
    focus: Ends | None = None
    origin_s: float | None = None
    cells: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Figures:
    """Figures that zoom together.

    Attributes:
        choices: the sets of figures between which the reader chooses; mostly one.
        what: names them for the buttons that zoom.
        choice: the label of the list of choices; empty without one.
        focus: the label of the button that shows the window worth a look; empty without one.
        legend: whether they have legends.
    """

    choices: tuple[Choice, ...]
    what: str = "figures"
    choice: str = ""
    focus: str = ""
    legend: bool = True


@dataclass(frozen=True)
class Section:
    """Parts below a heading.

    Attributes:
        title: the heading; empty: there is none.
        parts: in their order.
        key: its name within the document, by which links and scripts find it.
        cause: of the verdict that it states.
        beside: whether its parts stand beside each other where there is room.
        most: the number of parts that a terminal shows.
        elsewhere: where to find the parts that are not shown.
    """

    title: str
    parts: tuple[Part, ...]
    key: str = ""
    cause: str = ""
    beside: bool = False
    most: int | None = None
    elsewhere: str = ""


@dataclass(frozen=True)
class Folded:
    """Parts that a reader unfolds.

    Attributes:
        summary: shown where they are folded.
        parts: in their order.
        brief: shown in their place where nothing can be unfolded.
        cause: of the verdict that they state.
        key: its name within the document, by which links and scripts find it.
    """

    summary: str
    parts: tuple[Part, ...]
    brief: tuple[Text | Command, ...] = ()
    cause: str = ""
    key: str = ""


Part = Text | Command | Items | Facts | Table | Figures | Section | Folded


@dataclass(frozen=True)
class Document:
    """Everything that is shown of a result.

    Attributes:
        title: the answer in one sentence, or a name.
        parts: in their order.
        source: what it is made from.
        notes: warnings that concern all of it.
        footer: a line at its end.
    """

    title: str
    parts: tuple[Part, ...]
    source: str = ""
    notes: tuple[str, ...] = ()
    footer: str = ""


def plain(cell: Cell) -> str:
    """The text of a cell."""
    return cell if isinstance(cell, str) else cell.text


def parts(*chosen: Part | None) -> tuple[Part, ...]:
    """The parts that there are, without those that hold nothing."""
    return tuple(part for part in chosen if part is not None and not _is_empty(part))


def _is_empty(part: Part) -> bool:
    match part:
        case Text() | Command():
            return not part.text
        case Items():
            return not part.items
        case Facts() | Table():
            return not part.rows
        case Figures():
            return not part.choices
        case Section() | Folded():
            return not part.parts


def as_json(thing: Any) -> Any:
    """A document, or a part of one, as values of JSON; each part names its kind."""
    if isinstance(thing, Figure):
        return {"kind": "figure", "key": thing.key, "title": thing.title, "see": thing.see}
    if is_dataclass(thing):
        values = {one.name: as_json(getattr(thing, one.name)) for one in fields(thing)}
        return {"kind": type(thing).__name__.lower(), **{key: value for key, value in values.items() if value}}
    return list(map(as_json, thing)) if isinstance(thing, (list, tuple)) else thing
