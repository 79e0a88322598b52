"""The contents of a store, from the footers of its parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from whydrop.store import parts, snapshot, tables
from whydrop.store.errors import DamagedPartError, PartGoneError
from whydrop.store.part_frames import Reader

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
    for of in chain.from_iterable(snapshot.by_day(reader, table, lambda there: list(_of_parts(reader, table, there)))):
        found.parts += 1
        found.rows += of.rows
        found.bytes += of.bytes
        found.days |= of.days
        found.sites |= of.sites
        found.first_ns = min((ns for ns in (found.first_ns, of.first_ns) if ns is not None), default=None)
        found.last_ns = max((ns for ns in (found.last_ns, of.last_ns) if ns is not None), default=None)
    return found


def _of_parts(reader: Reader, table: str, there: dict[str, int]) -> Iterator[Contents]:
    for name, size in there.items():
        try:
            footer = reader.footer(name)
            sites = _sites(reader, name, footer) if "site" in footer.schema.names else set()
        except PartGoneError:
            raise
        except DamagedPartError as reason:
            reader.damaged(name, reason.damage)
            continue
        bounds = _bounds(footer, tables.TIME[table])
        first_ns = min((low for low, _ in bounds), default=None)
        last_ns = max((high for _, high in bounds), default=None)
        yield Contents(table, 1, footer.num_rows, size, {parts.day_of(name)}, first_ns, last_ns, sites)


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
    except FileNotFoundError:
        raise PartGoneError(reader.files.show(name)) from None
    except (ArrowException, OSError) as reason:
        raise DamagedPartError(reader.files.show(name), f"damaged: {' '.join(str(reason).split())}") from None
    return {site for chunk in column.chunks for site in chunk.dictionary.to_pylist()}
