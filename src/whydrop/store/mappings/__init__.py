"""How other people's tables become a store's: TOML files, read by `read`.

A mapping names sources of tables (``[[counters]]``, ``[[ndt]]``): where rows come from, in SQL, and an expression for
each column. `packaged` is M-Lab's.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from whydrop.store.errors import StoreError
from whydrop.store.tables import KEYS, TABLES, TIME

packaged = Path(__file__).with_name("mlab.toml")

_FIRST, _LAST = date(1970, 1, 1), date(2262, 4, 11)  # the days of int64 nanoseconds since 1970
_TYPES = {"Int64": "INT64", "Float64": "FLOAT64", "String": "STRING", "Boolean": "BOOL"}


@dataclass(frozen=True)
class SelectedRows:
    """Rows for one table: ``SELECT columns FROM source WHERE condition``."""

    columns: dict[str, str]
    source: str
    condition: str


@dataclass(frozen=True)
class Mapping:
    """The sources of each table."""

    path: Path
    sources: dict[str, list[SelectedRows]]

    def query(self, table: str, first: date | str | None, last: date | str | None) -> str:
        """BigQuery's SQL for ``table`` of the days ``first`` to ``last``, with the column ``day``.

        Raises:
            StoreError: the mapping has no such table.
        """
        if table not in self.sources:
            there = ", ".join(self.sources) or "none"
            raise StoreError(f"{self.path}: expected [[{table}]], which is asked for; it has {there}")
        low, high = str(first or _FIRST), str(last or _LAST)
        union = " UNION ALL ".join(_select(table, source) for source in self.sources[table])
        union = union.replace("@first_day", f"DATE '{low}'").replace("@last_day", f"DATE '{high}'")
        day = f"FORMAT_TIMESTAMP('%Y-%m-%d', TIMESTAMP_MICROS(DIV(r.{TIME[table]}, 1000)), 'UTC')"
        rest = [f"r.{column} DESC" for column in TABLES[table] if column not in KEYS[table]]
        key = ", ".join(f"r.{column}" for column in KEYS[table])
        # Of rows in conflict always the same one is kept, or two queries would disagree; nulls are last in this order.
        return (
            f"SELECT r.*, {day} AS day FROM ({union}) AS r WHERE {day} BETWEEN '{low}' AND '{high}' "
            f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {key} ORDER BY {', '.join(rest)}) = 1"
        )


def _select(table: str, source: SelectedRows) -> str:
    columns = ", ".join(
        f"CAST({source.columns.get(column, 'NULL')} AS {_TYPES[str(kind)]}) AS {column}"
        for column, kind in TABLES[table].items()
    )
    return f"SELECT {columns} FROM {source.source} WHERE {source.condition}"


def read(path: Path) -> Mapping:
    """Read a mapping.

    Raises:
        StoreError: the file cannot be read, or says something that a mapping does not have; the message names the key.
    """
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except OSError as reason:
        raise StoreError(f"{path}: {reason.strerror}") from reason
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as reason:
        raise StoreError(f"{path}: no TOML: {reason}") from reason
    unknown = [table for table in content if table not in TABLES]
    if unknown:
        raise StoreError(f"{path}: {unknown[0]}: a store has no such table; expected [[{']], [['.join(TABLES)}]]")
    return Mapping(path, {table: _sources(path, table, found) for table, found in content.items()})


def _sources(path: Path, table: str, found: Any) -> list[SelectedRows]:
    if not isinstance(found, list) or not found:
        raise StoreError(f"{path}: {table}: expected [[{table}]], one or several")
    return [_source(path, f"[[{table}]] number {number}", table, given) for number, given in enumerate(found, 1)]


def _source(path: Path, where: str, table: str, given: Any) -> SelectedRows:
    if not isinstance(given, dict):
        raise StoreError(f"{path}: {where}: expected from, where and columns")
    unknown = [key for key in given if key not in ("from", "where", "columns")]
    if unknown:
        raise StoreError(f"{path}: {where}: {unknown[0]} is not known; expected from, where and columns")
    source, condition, columns = given.get("from"), given.get("where", "TRUE"), given.get("columns")
    if not isinstance(source, str) or not isinstance(condition, str):
        raise StoreError(f"{path}: {where}: from and where: expected SQL, as text")
    if not isinstance(columns, dict):
        raise StoreError(f"{path}: {where}: columns: expected an expression for each column")
    for column, expression in columns.items():
        if column not in TABLES[table]:
            raise StoreError(f"{path}: {where}: columns.{column}: table {table} has no such column")
        if not isinstance(expression, str):
            raise StoreError(f"{path}: {where}: columns.{column}: expected SQL, as text")
    if TIME[table] not in columns:
        raise StoreError(f"{path}: {where}: columns.{TIME[table]}: is missing; each row's day comes of it")
    return SelectedRows(columns, source, condition)
