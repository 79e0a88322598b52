"""Numbers of files as columns of the table ``tcp``: whole numbers of 64 bits in its units, null where there is none."""

from __future__ import annotations

from typing import Any

import polars as pl

from whydrop.formats.archives.names import Host
from whydrop.store.tables import conform

LARGEST = (1 << 63) - 1


def scaled(field: pl.Expr, factor: int = 1) -> pl.Expr:
    """A number times ``factor``: null where it is negative, or where 64 bits do not hold the product."""
    return pl.when(field.is_between(0, LARGEST // factor)).then(field) * factor


def tcp_rows(frame: pl.DataFrame, source: str, of: Host | None, **constants: Any) -> pl.DataFrame:
    """Rows of ``tcp`` that one host recorded; ``constants`` are further columns, of one value each."""
    constants |= {"source": source, "machine": of.machine if of else None, "site": of.site if of else None}
    return conform("tcp", frame.with_columns(pl.lit(value).alias(name) for name, value in constants.items()))


def whole(value: object, most: int = LARGEST) -> int | None:
    """A whole number of JSON, if it is one and not larger than ``most``; else None. (True is no number.)"""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if -most <= value <= most else None
