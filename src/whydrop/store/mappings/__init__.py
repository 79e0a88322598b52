"""How other people's tables become a store's: TOML files, read by `read`.

A mapping names sources of tables (``[[counters]]``, ``[[ndt]]``): where rows come from, in SQL, and an expression for
each column. `packaged` is M-Lab's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, create_model

from whydrop.runtime.user_files.lines import nearest_line
from whydrop.runtime.user_files.problems import FileError, Problem, written_path
from whydrop.runtime.user_files.validating import parse, validate
from whydrop.store.errors import StoreError
from whydrop.store.tables import KEYS, TABLES, TIME

packaged = Path(__file__).with_name("mlab.toml")

_FIRST, _LAST = date(1970, 1, 1), date(2262, 4, 11)  # the days of int64 nanoseconds since 1970
_TYPES = {"Int64": "INT64", "Float64": "FLOAT64", "String": "STRING", "Boolean": "BOOL"}


class SelectedRows(BaseModel):
    """Rows for one table: ``SELECT columns FROM source WHERE condition``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str = Field(alias="from")
    condition: str = Field("TRUE", alias="where")
    columns: dict[str, str]


_Sources = Annotated[list[SelectedRows], Field(min_length=1)]
_Tables = create_model(  # type: ignore[call-overload]
    "_Tables", __config__=ConfigDict(extra="forbid"), **dict.fromkeys(TABLES, (_Sources | None, None))
)


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
        StoreError: the file cannot be read, or says something that a mapping does not have: every mistake with its line
            and key.
    """
    try:
        raw, lines = parse(path, str(path))
        tables, mistakes = validate(_Tables, raw)
        sources = {table: found for table, found in tables or () if found is not None}
        mistakes += _wrong_columns(sources)
        if mistakes:
            raise FileError(
                Problem(str(path), nearest_line(lines, place), written_path(place), message)
                for place, message in mistakes
            )
    except FileError as reason:
        raise StoreError(str(reason)) from reason
    return Mapping(path, sources)


def _wrong_columns(sources: dict[str, list[SelectedRows]]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Mistakes in the columns of each source, by place."""
    for table, found in sources.items():
        for number, source in enumerate(found):
            place = (table, number, "columns")
            for column in source.columns:
                if column not in TABLES[table]:
                    yield (*place, column), f"table {table} has no such column"
            if TIME[table] not in source.columns:
                yield place, f"{TIME[table]} is missing; each row's day comes of it"
