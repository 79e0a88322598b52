"""Parts of a store: Parquet files that hold rows of one table and one UTC day.

Parquet's own means make them small and let a query read little of them: sorted rows with statistics for each group of
half a million, text by dictionary, times as differences (DELTA_BINARY_PACKED), all compressed with zstd. Columns of
text are plain strings to any reader.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import polars as pl

from whydrop.store import tables

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_OF_A_GROUP = 1 << 19
# The names of parts that `compact` makes of several; parts written by others have other names.
COMPACTED = "compacted-"
# The folder of rows without a time; Spark and DuckDB read its name as null.
NO_DAY = "__HIVE_DEFAULT_PARTITION__"

_RANK = "rank of the texts"
_MAGIC = b"PAR1"
_LEAST_BYTES = 12  # the magic at both ends, and the length of the footer


def day_of(name: str) -> str:
    """The day in a part's name.

    >>> day_of("counters/day=2018-02-11/x.parquet")
    '2018-02-11'
    """
    return name.rpartition("/")[0].rpartition("day=")[2]


def is_compacted(name: str) -> bool:
    """True if a part was made of several."""
    return name.rpartition("/")[2].startswith(COMPACTED)


def folder(table: str, day: str) -> str:
    """Where the parts of a day are."""
    return f"{table}/day={day}"


def day_column(table: str) -> pl.Expr:
    """The UTC day of a row, as text."""
    return pl.from_epoch(pl.col(tables.TIME[table]), time_unit="ns").dt.strftime("%Y-%m-%d").alias("day")


def encoded(table: str, frames: Iterable[pl.DataFrame], metadata: dict[str, str] | None = None) -> pa.Buffer:
    """Rows as the content of a part.

    Args:
        table: a name in `tables.TABLES`.
        frames: rows, one frame behind the other in the table's order; each is sorted here.
        metadata: kept in the file, beside the rows.

    Raises:
        KeyError: a frame has a column that the table has not.
    """
    import pyarrow as pa
    from pyarrow import parquet

    empty = pl.DataFrame(schema=tables.TABLES[table]).to_arrow()
    columns = tables.TABLES[table].items()
    sink = pa.BufferOutputStream()
    with parquet.ParquetWriter(
        sink,
        empty.schema.with_metadata(metadata),
        compression="zstd",
        compression_level=4,
        use_dictionary=[name for name, kind in columns if kind == pl.String()],
        column_encoding={name: "DELTA_BINARY_PACKED" for name, kind in columns if kind == pl.Int64()},
        # Arrow's own types, kept beside Parquet's, would make "large strings" of text for some readers.
        store_schema=False,
    ) as writer:
        for frame in frames:
            rows = _sorted(tables.conform(table, frame), tables.ORDER[table])
            writer.write_table(rows.to_arrow(), row_group_size=ROWS_OF_A_GROUP)
        if metadata:
            writer.add_key_value_metadata(metadata)
    return sink.getvalue()


def _sorted(rows: pl.DataFrame, order: Sequence[str]) -> pl.DataFrame:
    """The rows in an order that begins with texts; where few texts occur often, those are sorted once."""
    texts = list(itertools.takewhile(lambda name: rows.schema[name] == pl.String(), order))
    series = rows.select(texts).unique()
    if not texts or 4 * series.height > rows.height:
        return rows.sort(order)
    ranked = rows.join(series.sort(texts).with_row_index(_RANK), on=texts, nulls_equal=True)
    return ranked.sort(_RANK, *order[len(texts) :]).drop(_RANK)


def damage(size: int, content: pa.NativeFile) -> str | None:
    """Faults of a part, found at its two ends: enough to find a truncated one.

    Args:
        size: of the file, bytes.
        content: the file, open for reading at any offset.
    """
    if size < _LEAST_BYTES:
        return f"{size} B long: too short to be a Parquet file"
    content.seek(0)
    if content.read(4) != _MAGIC:
        return "offset 0: expected Parquet's magic PAR1"
    content.seek(size - 8)
    ending = content.read(8)
    if ending[4:] != _MAGIC:
        return f"offset {size - 4}: expected Parquet's magic PAR1: the file was cut short"
    footer = int.from_bytes(ending[:4], "little")
    if footer > size - _LEAST_BYTES:
        return f"offset {size - 8}: a footer of {footer} B in a file of {size} B"
    return None
