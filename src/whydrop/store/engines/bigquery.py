"""BigQuery: the same queries over tables of others, such as M-Lab's own, which a mapping turns into a store's.

Queries are written here and can be looked at (:meth:`BigQuery.sql`) without any access; only :meth:`BigQuery.run`
needs Google's client and credentials.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.store import mappings
from whydrop.store.engines.base import Backend, BackendError, as_polars, known_table, label, one_line, unbound
from whydrop.store.errors import StoreError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import polars as pl


class BigQuery(Backend):
    """Tables in BigQuery, read as a mapping says; ``project`` is who pays for the queries."""

    def __init__(self, project: str | None, mapping: Path | None = None) -> None:
        try:
            self._mapping = mappings.read(mapping or mappings.packaged)
        except StoreError as reason:
            raise BackendError(str(reason)) from reason
        self._project = project
        self._queries: dict[str, str] = {}  # of each table, by its name in SQL
        self._client: Any = None
        self.name = f"bigquery:{project or ''}"
        self.notes = []

    def table(self, name: str, first: date | str | None = None, last: date | str | None = None) -> ir.Table:
        """See :meth:`Backend.table`."""
        known_table(name)
        as_name = label(name, first, last)
        try:
            self._queries[as_name] = self._mapping.query(name, first, last)
        except StoreError as reason:
            raise BackendError(str(reason)) from reason
        return unbound(name, as_name)

    def sql(self, expression: ir.Table) -> str:
        """See :meth:`Backend.sql`; complete, with the tables that it needs before it, to be pasted anywhere."""
        import sqlglot
        from ibis.backends.sql.compilers import BigQueryCompiler
        from sqlglot import expressions as exp

        query = BigQueryCompiler().to_sqlglot(expression)
        used = {table.name for table in query.find_all(exp.Table)}
        inner = query.args.get("with_")
        ours = [
            exp.CTE(this=sqlglot.parse_one(self._queries[name], dialect="bigquery"), alias=exp.to_identifier(name))
            for name in sorted(used.intersection(self._queries))
        ]
        query.set("with_", exp.With(expressions=[*ours, *(inner.expressions if inner else ())]))
        return str(query.sql(dialect="bigquery", pretty=True))

    def run(self, expression: ir.Table) -> pl.DataFrame:
        """See :meth:`Backend.run`."""
        import polars as pl

        client = self._connected()
        from google.api_core.exceptions import GoogleAPIError

        try:
            frame = pl.from_arrow(client.query(self.sql(expression)).to_arrow())
        except GoogleAPIError as reason:
            raise BackendError(f"BigQuery, project {self._project}: {one_line(reason)}") from reason
        assert isinstance(frame, pl.DataFrame)
        return as_polars(expression, frame)

    def _connected(self) -> Any:
        if self._client is not None:
            return self._client
        if not self._project:
            raise BackendError("BigQuery needs a project that pays for queries: --backend bigquery:PROJECT")
        try:
            from google.auth.exceptions import GoogleAuthError
            from google.cloud import bigquery
        except ImportError:
            raise BackendError(
                "Google's client for BigQuery is not installed; try: pip install 'whydrop[bigquery]'"
            ) from None
        try:
            self._client = bigquery.Client(project=self._project)
        except GoogleAuthError as reason:
            raise BackendError(
                f"BigQuery, project {self._project}: no credentials ({one_line(reason)}); try: gcloud auth "
                "application-default login"
            ) from reason
        return self._client

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()
