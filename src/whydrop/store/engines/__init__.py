"""Engines that compute over a store: DuckDB here, Spark elsewhere, BigQuery over other people's tables.

Queries are Ibis expressions over tables that :meth:`Backend.table` gives, written once. Ibis only writes the SQL; each
engine is asked through its own client, so that what one library makes of another's versions matters little.

    with open_backend("fleet.store") as backend:
        counters = backend.table("counters", first="2018-02-01", last="2018-02-28")
        backend.run(counters.group_by("site", "day").agg(samples=counters.count()))
"""

from __future__ import annotations

from pathlib import Path

from whydrop.runtime import extras
from whydrop.store.engines.base import Backend, BackendError

__all__ = ["Backend", "BackendError", "check_engine", "open_backend"]

extras.need("store")


def check_engine(backend: str, mapping: Path | None = None, endpoint: str | None = None) -> None:
    """Refuse a name that is no engine's, before anything is opened.

    Raises:
        BackendError: there is no such engine, or it has no use for a mapping or an endpoint, or the endpoint is no URL.
    """
    kind = backend.partition(":")[0]
    if backend != "duckdb" and kind not in ("spark", "bigquery"):
        raise BackendError(
            f"no engine is called {backend!r}: expected duckdb, spark, spark://host:port, spark:local[2] or "
            "bigquery:PROJECT"
        )
    if mapping is not None and kind != "bigquery":
        raise BackendError(f"a mapping of tables is for BigQuery, not for {backend}")
    if endpoint is not None:
        if kind != "bigquery":
            raise BackendError(f"an endpoint is BigQuery's, not {backend}'s")
        from whydrop.store.engines.bigquery import check_endpoint

        check_endpoint(endpoint)


def open_backend(
    location: str | Path,
    backend: str = "duckdb",
    *,
    mapping: Path | None = None,
    endpoint: str | None = None,
    memory_limit: int | None = None,
) -> Backend:
    """Open the store at ``location`` with an engine.

    Args:
        location: a folder, or a prefix of an object store such as ``s3://bucket/fleet``. With BigQuery it is not used:
            the tables are those that the mapping names.
        backend: ``duckdb``; ``spark`` (a cluster that the environment configures, otherwise this machine),
            ``spark://host:port``, ``spark:local[2]`` or another master after ``spark:``; ``bigquery:PROJECT``.
        mapping: BigQuery only: how its tables become ours. Without it M-Lab's, as packaged.
        endpoint: BigQuery only: the URL of the service, such as that of an emulator. Without it Google's. Credentials
            are sent to Google's alone.
        memory_limit: bytes that DuckDB may take before it spills to disk.

    Raises:
        BackendError: there is no such engine, it is not reachable, or there is no store. The message says what to do.
        MissingExtraError: its packages are not installed.
    """
    check_engine(backend, mapping, endpoint)
    kind, _, rest = backend.partition(":")
    if backend == "duckdb":
        from whydrop.store.engines.duckdb import DuckDB

        return DuckDB(str(location), memory_limit=memory_limit)
    if kind == "spark":
        from whydrop.store.engines.spark import Spark

        master = backend if rest.startswith("//") else rest or None
        return Spark(str(location), master)
    from whydrop.store.engines.bigquery import BigQuery

    return BigQuery(rest or None, mapping, endpoint)
