"""What a store holds, as its parts' footers tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whydrop.record.store import parts, tables
from whydrop.record.store.errors import DamagedPartError
from whydrop.record.store.reading import Reader

if TYPE_CHECKING:
    from pyarrow import parquet


@dataclass
class Contents:
    """One table of a store."""

    table: str
    parts: int = 0
    rows: int = 0
    bytes: int = 0
    days: set[str] = field(default_factory=set)
    first_ns: int | None = None  # of the table's time
    last_ns: int | None = None
    sites: set[str] = field(default_factory=set)


def of_table(reader: Reader, table: str) -> Contents:
    """Rows, bytes, days, span and sites of a table. Parts that are damaged are left out and noted."""
    found = Contents(table)
    for name, size in reader.parts(table).items():
        try:
            _take(found, reader, name)
        except DamagedPartError as reason:
            reader.damaged(name, reason.damage)
            continue
        found.parts += 1
        found.bytes += size
        found.days.add(parts.day_of(name))
    return found


def _take(found: Contents, reader: Reader, name: str) -> None:
    footer = reader.footer(name)
    sites = _sites(reader, name, footer) if "site" in footer.schema.names else set()
    found.rows += footer.num_rows
    found.sites |= sites
    _take_bounds(found, footer)


def _take_bounds(found: Contents, footer: parquet.FileMetaData) -> None:
    for low, high in _bounds(footer, tables.TIME[found.table]):
        found.first_ns = low if found.first_ns is None else min(found.first_ns, low)
        found.last_ns = high if found.last_ns is None else max(found.last_ns, high)


def _bounds(footer: parquet.FileMetaData, column: str) -> list[tuple[Any, Any]]:
    """The least and the greatest value of a column, group by group of rows, where there is any."""
    index = footer.schema.names.index(column)
    every = (footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups))
    return [(of.min, of.max) for of in every if of is not None and of.has_min_max]


def _sites(reader: Reader, name: str, footer: parquet.FileMetaData) -> set[str]:
    bounds = _bounds(footer, "site")
    if all(low == high for low, high in bounds):
        return {low for low, _ in bounds}
    from pyarrow import ArrowException, parquet

    path = reader.files.path(name)
    try:
        # As dictionaries, of which a file has few.
        column = parquet.read_table(
            path, columns=["site"], filesystem=reader.files.filesystem, read_dictionary=["site"], partitioning=None
        )["site"]
    except (ArrowException, OSError) as reason:
        raise DamagedPartError(reader.files.show(name), f"damaged: {' '.join(str(reason).split())}") from None
    return {site for chunk in column.chunks for site in chunk.dictionary.to_pylist()}
