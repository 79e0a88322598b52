"""CSV (RFC 4180) that is safe to open: cells hold names that strangers chose.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula, also after a tab or a line break,
and a terminal obeys control characters. So a text that begins as a formula does, and is no number, gets an apostrophe
before it, which spreadsheets show as text; and control characters but line breaks are written as the escapes that
`printable` uses. Numbers are written as they are. See OWASP's page on CSV injection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whydrop.text.printable import printable

if TYPE_CHECKING:
    import polars as pl

# Few cells are so: the others never pass through Python.
_UNSAFE = r"^\s*[=+\-@]|[\x00-\x09\x0b-\x1f\x7f-\x9f]"
_FORMULA_BEGINS_WITH = ("=", "+", "-", "@")


def text(frame: pl.DataFrame) -> str:
    """A frame as CSV with a line of names; a frame without columns is an empty text."""
    return safe(frame).write_csv() if frame.width else ""


def safe(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame of which no name and no text is a formula or commands a terminal."""
    import polars as pl
    import polars.selectors as cs

    frame = frame.with_columns((cs.categorical() | cs.enum()).cast(pl.String))
    replaced = [
        pl.col(column.name).replace({cell: _cell(cell) for cell in unsafe})
        for column in frame.select(cs.string())
        if (unsafe := column.filter(column.str.contains(_UNSAFE)).unique().to_list())
    ]
    return frame.with_columns(replaced).rename(_names(frame.columns))


def _names(names: list[str]) -> dict[str, str]:
    """The names of columns made safe, each still different from all others."""
    found: dict[str, str] = {}
    for name in names:
        shown = _cell(name)
        while shown in found.values():
            shown += "'"
        found[name] = shown
    return found


def _cell(cell: str) -> str:
    shown = "\n".join(map(printable, cell.split("\n")))
    is_formula = cell.lstrip().startswith(_FORMULA_BEGINS_WITH) and not _is_number(cell)
    return f"'{shown}" if is_formula else shown


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
