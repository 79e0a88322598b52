"""Rows from a parser to the tables of a recording."""

from __future__ import annotations

from typing import Any

import polars as pl

from whydrop.recording.tables import TABLES


class Rows:
    """Rows by table, until they are taken.

    >>> rows = Rows()
    >>> rows.add("values", flow=3, time_ns=7, key="", value=1.5)
    >>> rows.take()["values"].row(0)
    (3, 7, '', 1.5)
    >>> rows.take()
    {}
    """

    def __init__(self) -> None:
        self._tables: dict[str, list[dict[str, Any]]] = {}
        self.ever = 0
        """How many rows were added in all."""

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))

    def add(self, table: str, **columns: Any) -> None:
        """One more row; columns that are not named are null.

        Raises:
            KeyError: the table has no such column.
        """
        if not columns.keys() <= TABLES[table].keys():
            raise KeyError(f"table {table} has no column {', '.join(columns.keys() - TABLES[table].keys())}")
        self._tables.setdefault(table, []).append(columns)
        self.ever += 1

    def take(self) -> dict[str, pl.DataFrame]:
        """Everything that was added since the last time."""
        tables, self._tables = self._tables, {}
        return {name: _frame(name, rows) for name, rows in tables.items()}


def _frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = {column: [row.get(column) for row in rows] for column in TABLES[name]}
    # Not strict: a number that a column cannot hold (a program may print anything) becomes null.
    return pl.DataFrame(columns, schema=TABLES[name], strict=False)
