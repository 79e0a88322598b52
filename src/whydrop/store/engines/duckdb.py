"""DuckDB, embedded: the default. Nothing needs to be installed or running."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from whydrop.runtime import long_calls
from whydrop.runtime.temporary_folders import TemporaryFolder
from whydrop.store import parts, snapshot
from whydrop.store.engines.base import SQL_TYPES, BackendError, ibis_schema, one_line
from whydrop.store.engines.views import FilesBackend, errors_of_stores
from whydrop.store.errors import StoreError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    from ibis.common.deferred import Deferred
    from sqlglot import expressions as exp

T = TypeVar("T")

# Queries over years go block by block of days; what one block takes beyond this is spilled to disk.
MEMORY_LIMIT_BYTES = 3_000_000_000

# Without reading each object's end, its rows are guessed; a sample of a switch's counter takes one to three bytes.
_BYTES_OF_ROW = 2

# As DuckDB reads it of folders' names, which takes a tenth of the time.
_DAY_OF_FILE = f"nullif(regexp_extract(filename, 'day=([^/]*)/[^/]*$', 1), '{parts.NO_DAY}')"


class DuckDB(FilesBackend):
    """The store's Parquet files, read by a DuckDB inside this process."""

    name = "duckdb"
    in_blocks = True

    def __init__(self, location: str, *, memory_limit: int | None = None, threads: int | None = None) -> None:
        import duckdb

        super().__init__(location)
        self._spill = TemporaryFolder()
        self._datasets: dict[str, Any] = {}  # of views that pyarrow reads
        self._running: list[Any] = []  # cursors, each with one query
        settings: dict[str, Any] = {
            "memory_limit": f"{memory_limit or MEMORY_LIMIT_BYTES}B",
            "temp_directory": str(self._spill.path),
            # Rows have no order in a store; keeping one costs memory.
            "preserve_insertion_order": "false",
            # Nothing of a query needs the network: extensions are not to be fetched.
            "autoinstall_known_extensions": "false",
        }
        if threads is not None:
            settings["threads"] = threads
        try:
            self.connection = duckdb.connect(config=settings)
        except duckdb.Error as reason:
            self.close()
            raise BackendError(f"DuckDB does not start: {one_line(reason)}") from reason

    def _create(self, view: str, name: str, there: list[str]) -> None:
        columns = ibis_schema(name)
        if there and self.files.local is None:
            # DuckDB's own reader of object stores is an extension that it would have to fetch; pyarrow has one built
            # in, and DuckDB hands it the columns and filters that a query needs.
            self._datasets[view] = self._reader.dataset(name, there)
            return
        self._datasets.pop(view, None)
        chosen = dict.fromkeys(columns, "NULL")
        source = "(SELECT 1) WHERE false"
        if there:
            # DuckDB would take a folder above the store that is called KEY=VALUE for a column.
            is_below_a_partition = "=" in self.files.path("")
            # Days stay text: DuckDB would make dates of them.
            days = "hive_partitioning = true, hive_types = {'day': 'VARCHAR'}"
            if is_below_a_partition:
                days = "hive_partitioning = false, filename = true"
            # Parts of other versions may lack columns.
            options = f"{days}, union_by_name = true"
            source = f"read_parquet([{', '.join(_literal(self.files.path(part)) for part in there)}], {options})"
            present = self._fetch(f"DESCRIBE SELECT * FROM {source}")["column_name"].to_pylist()
            chosen |= {column: f'"{column}"' for column in columns if column in present}
            if is_below_a_partition:
                chosen["day"] = _DAY_OF_FILE
        select = ", ".join(
            f'CAST({chosen[column]} AS {SQL_TYPES[kind]}) AS "{column}"' for column, kind in columns.items()
        )
        self._within_reach(
            lambda cursor: cursor.execute(f'CREATE OR REPLACE VIEW "{view}" AS SELECT {select} FROM {source}')
        )

    def sql(self, expression: ir.Table) -> str:
        """See :meth:`Backend.sql`."""
        from ibis.backends.sql.compilers import DuckDBCompiler

        query = DuckDBCompiler().to_sqlglot(expression)
        _materialise_sums_only(query)
        return str(query.sql(dialect="duckdb"))

    def _fetch(self, query: str) -> pa.Table:
        def fetch(cursor: Any) -> pa.Table:
            result = cursor.sql(query)
            # The name changed with version 1.5.
            return result.to_arrow_table() if hasattr(result, "to_arrow_table") else result.fetch_arrow_table()

        return self._within_reach(fetch)

    def _within_reach(self, work: Callable[[Any], T]) -> T:
        """Run ``work`` with a cursor of its own: interrupting it interrupts no other query.

        Hours can pass between two looks of DuckDB for signals: it is not the main thread's.
        """
        import duckdb

        begun: list[Any] = []

        def run() -> T:
            with self.connection.cursor() as cursor:
                begun.append(cursor)
                self._running.append(cursor)
                try:
                    # What is registered is known to one cursor alone.
                    for view, dataset in self._datasets.items():
                        cursor.register(view, dataset)
                    return work(cursor)
                finally:
                    self._running.remove(cursor)

        def interrupt() -> None:
            for cursor in begun:
                with suppress(duckdb.Error):  # it has ended, and is closed
                    cursor.interrupt()

        try:
            return long_calls.interruptible(run, interrupt, f"{self.location}: a query of DuckDB")
        except duckdb.Error as reason:
            raise self._failed("DuckDB", one_line(reason)) from reason

    def quantile_by(
        self, table: ir.Table, by: Sequence[str], value: str, q: float, *, discrete: bool = False, **others: Deferred
    ) -> ir.Table:
        """See :meth:`Backend.quantile_by`."""
        quantile = _quantile_disc()(table[value], q) if discrete else table[value].quantile(q)
        return table.group_by(*by).agg(quantile=quantile, **others)

    def rows_of_days(self, name: str) -> dict[str, int]:
        """See :meth:`Backend.rows_of_days`: counted in local files' footers, guessed from the sizes of remote ones."""
        found: dict[str, int] = defaultdict(int)
        with errors_of_stores():
            for part, size in snapshot.listed(self._reader, name).items():
                found[parts.day_of(part)] += size // _BYTES_OF_ROW if self.files.local is None else self._rows(part)
        return found

    def _rows(self, part: str) -> int:
        try:
            return int(self._reader.footer(part).num_rows)
        except StoreError:
            return 0  # found damaged when it is to be read

    def close(self) -> None:
        """Close the connection and remove what was spilled."""
        # Closing waits for queries: of one that was given up, as it hangs, for ever.
        if hasattr(self, "connection") and not self._running:
            self.connection.close()
        self._spill.remove()


def _materialise_sums_only(query: exp.Expression) -> None:
    """Say which common table expressions are to be kept once computed: those that are small.

    By default DuckDB keeps what is used twice. For samples, which some queries use twice, that takes gigabytes
    and more time than reading the files again.
    """
    from sqlglot import expressions as exp

    for table in query.find_all(exp.CTE):
        sums = any(select.args.get("group") for select in table.this.find_all(exp.Select))
        table.set("materialized", sums)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quantile_disc() -> Any:
    """DuckDB's function of this name, for which Ibis has no word."""
    from ibis import udf

    @udf.agg.builtin  # type: ignore[untyped-decorator]
    def quantile_disc(x: float, q: float) -> float:
        """The body is DuckDB's."""
        raise NotImplementedError

    return quantile_disc
