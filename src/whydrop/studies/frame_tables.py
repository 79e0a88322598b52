"""Tables of a document from frames: each column writes one value of a row, or two as an interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop.show.document import Choice, Column, Figures, Part, Section, Table, Text, parts
from whydrop.show.figure import Figure
from whydrop.text import quantities

# Rows that a terminal shows; files have all of them.
_MOST_ROWS = 40
_ELSEWHERE = "--output DIR writes all of them"


@dataclass(frozen=True)
class FrameColumn:
    """A column of a table: one value of a row, or two as an interval, as text.

    Attributes:
        title: of the column.
        names: one or two columns of the frame.
        write: gives the text of a value.
        rank: the order in which columns are left out where the width is short; those of rank 0 stay.
    """

    title: str
    names: tuple[str, ...]
    write: Callable[[Any], str]
    rank: int = 0

    def cell(self, row: Mapping[str, Any]) -> str:
        """The text of a row's cell; a dash where a value is missing."""
        values = [row[name] for name in self.names]
        if any(value is None or value != value for value in values):
            return "–"
        return quantities.interval(self.write, *values) if len(values) > 1 else self.write(values[0])


def table_of(
    title: str,
    frame: pl.DataFrame | None,
    columns: Sequence[FrameColumn],
    *,
    notes: Iterable[str] = (),
    elsewhere: str = _ELSEWHERE,
) -> Table | None:
    """A table of a frame, without the columns that the frame lacks; None without rows."""
    if frame is None or not frame.height:
        return None
    used = [
        column
        for column in columns
        if set(column.names) <= set(frame.columns) and frame[column.names[0]].null_count() < frame.height
    ]
    heads = {
        Column(one.title, frame.schema[one.names[0]].is_numeric(), one.rank): one.cell for one in used
    }  # fmt: skip
    return Table.of(title, heads, frame.iter_rows(named=True), notes=notes, most=_MOST_ROWS, elsewhere=elsewhere)


def pictures(figures: Mapping[str, Figure], missing: Mapping[str, str]) -> Section:
    """The section of a study's figures.

    Args:
        figures: those with something to draw, by name.
        missing: why the others are not there, by title.
    """
    shown = Figures((Choice(list(figures.values())),)) if figures else None
    absent: list[Part] = [Text(f"{title}: no picture, because {why}.", "warning") for title, why in missing.items()]
    return Section("Figures", parts(shown, *absent), key="figures")
