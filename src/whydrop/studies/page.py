"""Parts that pages of studies share: lists of sentences, and tables for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop.show import page as pages
from whydrop.show.page import text
from whydrop.text import quantities

# Rows of a table in the page; the files have all of them.
_LONGEST_TABLE = 200

Row = Mapping[str, Any]


def listed(lines: Iterable[str]) -> str:
    """Sentences below each other."""
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


@dataclass(frozen=True)
class Column:
    """A column of a table for people: one value of a row, or two as an interval, in words."""

    title: str
    names: tuple[str, ...]
    write: Callable[[Any], str]

    def cell(self, row: Row) -> str:
        """The text of a row's cell; a dash where there is no value."""
        values = [row[name] for name in self.names]
        if any(value is None or value != value for value in values):
            return "–"
        return " to ".join(self.write(value) for value in values)


def grid(title: str, frame: pl.DataFrame | None, columns: Sequence[Column]) -> str:
    """A table with its heading; nothing of one without rows."""
    if frame is None or not frame.height:
        return ""
    # Columns that these definitions do not have are all null.
    used = [
        column
        for column in columns
        if set(column.names) <= set(frame.columns) and frame[column.names[0]].null_count() < frame.height
    ]
    rows = [[column.cell(row) for column in used] for row in frame.head(_LONGEST_TABLE).iter_rows(named=True)]
    heads = [(column.title, frame.schema[column.names[0]].is_numeric()) for column in used]
    left = frame.height - len(rows)
    more = f'<p class="small">and {quantities.count(left)} more in the files</p>' if left else ""
    return f"<h3>{text(title)}</h3>{pages.table(title, heads, rows, 'scroll wide')}{more}"
