"""The interface of every engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date
from types import TracebackType
from typing import TYPE_CHECKING, Self

from whydrop.errors import Error
from whydrop.store.tables import TABLES

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import polars as pl
    from ibis.common.deferred import Deferred

# Ibis's words in the SQL of DuckDB and Spark.
SQL_TYPES = {"int64": "BIGINT", "float64": "DOUBLE", "string": "STRING", "boolean": "BOOLEAN"}


class BackendError(Error):
    """An engine could not be opened, or could not answer; the message says what was wrong, where, and what to try."""


class Backend(ABC):
    """A store, opened with one engine."""

    #: As in ``--backend``.
    name: str
    #: Whether a long history is better asked for in blocks of days: an engine with this machine's memory only.
    in_blocks: bool = False
    #: What is to be known of what was read: damaged files that were left out. Sentences.
    notes: list[str]

    @abstractmethod
    def table(self, name: str, first: date | str | None = None, last: date | str | None = None) -> ir.Table:
        """Table ``name`` of the store, of the UTC days ``first`` to ``last`` (both included) if given.

        Its columns are those of :data:`whydrop.store.tables.TABLES` and ``day``; a table that the store lacks
        is there without rows.
        """

    @abstractmethod
    def sql(self, expression: ir.Table) -> str:
        """The query in the engine's SQL."""

    @abstractmethod
    def run(self, expression: ir.Table) -> pl.DataFrame:
        """Compute ``expression``.

        Raises:
            BackendError: the engine failed; a damaged file of the store is named.
        """

    def quantile_by(
        self, table: ir.Table, by: Sequence[str], value: str, q: float, *, discrete: bool = False, **others: Deferred
    ) -> ir.Table:
        """One row a group: ``by``, ``quantile`` of ``value``, and aggregates such as ``tests=ibis._.tests.sum()``.

        The quantile is exact and interpolated between the ranks around q x (n - 1), as SQL's PERCENTILE_CONT has it
        (Hyndman and Fan 1996, definition 7); with ``discrete`` it is the smallest value that a share of at least ``q``
        does not exceed, as PERCENTILE_DISC has it (definition 1). Nulls do not count.

        Here it is made of ranks, which every engine has.
        """
        import ibis

        known = table[value]
        # Nulls come last; their ranks are not used.
        ranked = table.mutate(
            whydrop_rank=ibis.row_number().over(group_by=list(by), order_by=[known.asc(nulls_first=False)]),
            whydrop_rows=known.count().over(group_by=list(by)),
        )
        if discrete:
            # Ranks count from 0; q of 0 asks for the first.
            rank = ibis.greatest((ranked.whydrop_rows * q).ceil() - 1, 0)
            return ranked.group_by(*by).agg(quantile=ranked[value].max(where=ranked.whydrop_rank == rank), **others)
        position = (ranked.whydrop_rows - 1) * q
        # Of each group the rows at the ranks around the position, and how far beyond the lower rank it lies.
        sums = ranked.group_by(*by).agg(
            whydrop_low=ranked[value].max(where=ranked.whydrop_rank == position.floor()),
            whydrop_high=ranked[value].max(where=ranked.whydrop_rank == position.ceil()),
            whydrop_share=(position - position.floor()).max(),
            **others,
        )
        quantile = sums.whydrop_low + (sums.whydrop_high - sums.whydrop_low) * sums.whydrop_share
        return sums.select(*by, *others, quantile=quantile)

    def rows_of_days(self, name: str) -> Mapping[str, int]:
        """About how many rows each UTC day of a table has; empty where the engine need not know."""
        del name
        return {}

    @abstractmethod
    def close(self) -> None:
        """Let the engine go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, reason: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()


def known_table(name: str) -> None:
    """Refuse a table that stores do not have."""
    if name not in TABLES:
        raise BackendError(f"a store has no table {name!r}: expected one of {', '.join(TABLES)}")


def unbound(name: str, as_name: str) -> ir.Table:
    """Table ``name`` of the store as expressions know it, called ``as_name`` in SQL."""
    import ibis

    return ibis.table(ibis_schema(name), name=as_name)


def ibis_schema(name: str) -> dict[str, str]:
    """Columns of table ``name`` and their types in Ibis's words, with ``day``."""
    known_table(name)
    # Its words are polars', in small letters.
    return {column: str(kind).lower() for column, kind in TABLES[name].items()} | {"day": "string"}


def as_polars(expression: ir.Table, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with the types that ``expression`` says: engines widen sums (DuckDB's are of 128 bits)."""
    import polars as pl

    types: dict[str, pl.DataType] = {
        **dict.fromkeys(("int64", "int32", "int16", "int8"), pl.Int64()),
        "float64": pl.Float64(),
        "string": pl.String(),
        "boolean": pl.Boolean(),
    }
    schema = {column: str(kind).lstrip("!") for column, kind in expression.schema().items()}
    return frame.select(
        pl.col(column).cast(types[kind]) if kind in types else pl.col(column) for column, kind in schema.items()
    )


def one_line(reason: BaseException) -> str:
    """An engine's message on one line, of bearable length."""
    text = " ".join(str(reason).split())
    return text if len(text) <= 500 else f"{text[:500]} ..."


def label(name: str, first: date | str | None, last: date | str | None) -> str:
    """A name in SQL for some days of a table."""
    ends = [str(end).replace("-", "") if end else "" for end in (first, last)]
    return f"{name}_{ends[0]}_{ends[1]}" if any(ends) else name
