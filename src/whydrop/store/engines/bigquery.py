"""BigQuery: the same queries over tables of others, such as M-Lab's own, which a mapping turns into a store's.

Queries are written here and can be looked at (:meth:`BigQuery.sql`) without any access; only :meth:`BigQuery.run`
needs Google's client and credentials.
"""

from __future__ import annotations

import socket
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from whydrop.runtime import extras
from whydrop.store import mappings
from whydrop.store.engines.base import Backend, BackendError, as_polars, known_table, label, one_line, unbound
from whydrop.store.errors import StoreError

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import polars as pl

_CONNECTED_WITHIN_S = 10.0


class BigQuery(Backend):
    """Tables in BigQuery, read as a mapping says.

    ``project`` is who pays for the queries, ``endpoint`` the URL of the service if it is not Google's usual one.
    """

    def __init__(self, project: str | None, mapping: Path | None = None, endpoint: str | None = None) -> None:
        try:
            self._mapping = mappings.read(mapping or mappings.packaged)
        except StoreError as reason:
            raise BackendError(str(reason)) from reason
        self._project, self._endpoint = project, endpoint
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
        from google.api_core.exceptions import GoogleAPIError, RetryError

        try:
            # Without the Storage API: another service, at another address, which an endpoint does not name.
            answer = client.query(self.sql(expression)).result()
            frame = pl.from_arrow(answer.to_arrow(create_bqstorage_client=self._endpoint is None))
        except (RetryError, OSError) as reason:  # requests' errors of connections are OSErrors
            raise BackendError(f"{self._service()}: cannot be reached ({one_line(reason)})") from reason
        except GoogleAPIError as reason:
            raise BackendError(f"{self._service()}: {one_line(reason)}") from reason
        assert isinstance(frame, pl.DataFrame)
        return as_polars(expression, frame)

    def _connected(self) -> Any:
        if self._client is not None:
            return self._client
        if not self._project:
            raise BackendError("BigQuery needs a project that pays for queries: --backend bigquery:PROJECT")
        extras.need("bigquery")
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import bigquery

        options: dict[str, Any] = {}
        if self._endpoint:
            options["client_options"] = {"api_endpoint": self._endpoint}
            if not _is_googles(self._endpoint):
                from google.auth import credentials

                self._look_for_service(self._endpoint)
                # A token of Google's is for Google alone.
                anonymous: Any = credentials.AnonymousCredentials
                options["credentials"] = anonymous()
        try:
            self._client = bigquery.Client(project=self._project, **options)
        except GoogleAuthError as reason:
            raise BackendError(
                f"{self._service()}: no credentials ({one_line(reason)}); try: gcloud auth application-default login"
            ) from reason
        return self._client

    def _look_for_service(self, endpoint: str) -> None:
        """Connect once: Google's client tries for ten minutes to reach what is not there."""
        if getproxies():
            return
        parts = urlsplit(endpoint)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((parts.hostname or "", port), _CONNECTED_WITHIN_S).close()
        except OSError as reason:
            raise BackendError(f"{self._service()}: no service answers ({reason.strerror or reason})") from reason

    def _service(self) -> str:
        at = f" at {self._endpoint}" if self._endpoint else ""
        return f"BigQuery{at}, project {self._project}"

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()


def check_endpoint(endpoint: str) -> None:
    """Refuse what is no URL of a service.

    Raises:
        BackendError: it is none.
    """
    try:
        parts = urlsplit(endpoint)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, a broken address of IPv6
        is_url = False
    if not is_url:
        raise BackendError(
            f"{endpoint!r}: expected the URL of a service, such as http://127.0.0.1:9050 (an emulator) or "
            "https://bigquery.europe-west3.rep.googleapis.com"
        )


def _is_googles(endpoint: str) -> bool:
    parts = urlsplit(endpoint)
    return parts.scheme == "https" and (parts.hostname or "").endswith(".googleapis.com")
