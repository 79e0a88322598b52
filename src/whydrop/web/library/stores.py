"""The contents of stores as tables of a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whydrop.errors import Error

# Longer cells of a table are cut: they are there to be recognised.
_LONGEST = 200


def contents(path: Path) -> list[dict[str, Any]]:
    """The tables of a store as values of JSON: rows, bytes, days, sites and the time that they cover.

    Raises:
        Error: it cannot be read.
    """
    from whydrop.store.store import Store

    return [
        {
            "table": one.table, "rows": one.rows, "bytes": one.bytes, "parts": one.parts, "days": len(one.days),
            "sites": sorted(map(str, one.sites))[:50], "first_s": _seconds(one.first_ns),
            "last_s": _seconds(one.last_ns),
        }
        for one in Store.open(path).contents()
    ]  # fmt: skip


def _seconds(ns: Any) -> float | None:
    return None if ns is None else float(ns) / 1e9


def rows(path: Path, table: str, offset: int, most: int) -> dict[str, Any]:
    """Some rows of a table of a store, in the order of its parts, as text.

    Raises:
        Error: there is no such table, or it cannot be read.
    """
    import polars

    from whydrop.store.store import Store
    from whydrop.store.tables import TABLES

    if table not in TABLES:
        raise Error(f"{table!r}: no table of a store; expected {', '.join(TABLES)}")
    try:
        frame = Store.open(path).scan(table).slice(offset, most).collect()
    except polars.exceptions.PolarsError as reason:
        first = str(reason).partition("\n")[0]
        raise Error(
            f"{table}: cannot be read: {first}. Another program may have changed the store: try again"
        ) from None
    return {"columns": frame.columns, "rows": [[_text(value) for value in row] for row in frame.rows()]}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)[:_LONGEST]
