"""Which rows are new: rows compared by key with each other and with those that are there already.

The first row of a key stays. Another is a duplicate if it says nothing else: a value that one of the two lacks (null)
is no contradiction. Otherwise it is in conflict: it is left out all the same, counted, and shown with both values.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import polars as pl

from whydrop.store import tables

# Which of the sources that are added together a row came from: a column beside the table's own while rows are added.
SOURCE = "_source"
# Conflicts that are shown in full, of each call.
SHOWN_CONFLICTS = 5

_THERE = "_there"


@dataclass(frozen=True)
class Conflict:
    """Two rows of one key that differ; the first one stayed."""

    table: str
    key: dict[str, Any]
    column: str
    stayed: Any
    left_out: Any
    source: int = 0  # that the second came from, among those that were added together

    def __str__(self) -> str:
        key = ", ".join(f"{name} {_shown(name, value)}" for name, value in self.key.items() if value is not None)
        return f"{self.table}: {key}: {self.column} is {self.stayed}, and {self.left_out} was left out"


@dataclass
class Merged:
    """The outcome of rows that were to be added."""

    new: pl.DataFrame
    # By source: how many of its rows were left out as duplicates, and how many for conflicts
    duplicates: dict[int, int] = field(default_factory=dict)
    conflicts: dict[int, int] = field(default_factory=dict)
    shown: list[Conflict] = field(default_factory=list)


def merge(table: str, rows: pl.DataFrame, existing: pl.DataFrame) -> Merged:
    """Leave out rows with the key of an earlier row, in ``existing`` or in ``rows`` themselves.

    Args:
        table: a name in `tables.TABLES`.
        rows: of that table; may have the column `SOURCE`.
        existing: rows of that table that are there already, each key once.
    """
    keys = list(tables.KEYS[table])
    if SOURCE not in rows.columns:
        merged = merge(table, rows.with_columns(pl.lit(0, dtype=pl.UInt32).alias(SOURCE)), existing)
        return replace(merged, new=merged.new.drop(SOURCE))
    result = Merged(rows)
    if not existing.is_empty():
        result.new = rows.join(existing, on=keys, how="anti", nulls_equal=True)
        if result.new.height < rows.height:
            _judge(table, rows.join(existing, on=keys, how="semi", nulls_equal=True), existing, result)
    repeated = result.new.select(pl.struct(keys).is_duplicated()).to_series()
    if repeated.any():
        first = result.new.select(pl.struct(keys).is_first_distinct()).to_series()
        others = result.new.filter(~first)
        result.new = result.new.filter(first)
        _judge(table, others, result.new.join(others, on=keys, how="semi", nulls_equal=True), result)
    return result


def _judge(table: str, left_out: pl.DataFrame, stayed: pl.DataFrame, result: Merged) -> None:
    """Distinguish duplicates from conflicts, and count both by source."""
    keys = list(tables.KEYS[table])
    values = [name for name in tables.TABLES[table] if name not in keys]
    pairs = left_out.join(stayed.select(*keys, *values), on=keys, how="left", nulls_equal=True, suffix=_THERE)
    differs = {name: pl.col(name).ne(pl.col(name + _THERE)).fill_null(value=False) for name in values}
    pairs = pairs.with_columns(pl.any_horizontal(differs.values()).alias("_differs"))
    for source, differing, count in pairs.group_by(SOURCE, "_differs").len().rows():
        of = result.conflicts if differing else result.duplicates
        of[source] = of.get(source, 0) + count
    wanted = SHOWN_CONFLICTS - len(result.shown)
    for row in pairs.filter(pl.col("_differs")).head(wanted).iter_rows(named=True):
        column = next(name for name in values if _differ(row[name], row[name + _THERE]))
        key = {name: row[name] for name in keys}
        result.shown.append(Conflict(table, key, column, row[column + _THERE], row[column], row[SOURCE]))


def _shown(column: str, value: Any) -> str:
    """A value for people: times are instants, except those that are spans."""
    if column.endswith("_ns") and column in tables.TIME.values():
        seconds, nanoseconds = divmod(value, 1_000_000_000)
        fraction = f".{nanoseconds:09d}".rstrip("0").rstrip(".")
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}{fraction}Z"
    return str(value)


def _differ(one: Any, other: Any) -> bool:
    # NaN is as good as NaN, as it is to polars.
    return one is not None and other is not None and one != other and not (one != one and other != other)
