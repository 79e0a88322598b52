"""Spark, for histories that one machine would take hours over: the same queries on a cluster."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from whydrop.runtime import extras
from whydrop.store.compacting import STAGING
from whydrop.store.engines.base import SQL_TYPES, BackendError, ibis_schema, one_line
from whydrop.store.engines.views import FilesBackend

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa
    from ibis.common.deferred import Deferred
    from pyspark.sql import SparkSession

# How long a master may take to accept a connection, s. Spark itself would try for minutes without a word.
_PATIENCE_S = 5.0
_DEFAULT_PORT = 7077

_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# Hadoop reads these in the path of a file as patterns.
_PATTERN_LETTERS = set("*?[]{}\\")

_LOG_SETTINGS = Path(__file__).with_name("spark-log4j2.properties")

_numbers = itertools.count(1)


class Spark(FilesBackend):
    """The store's Parquet files, read by a Spark cluster, or by a Spark of this machine."""

    def __init__(self, location: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(location)
        self._refuse_patterns()
        _require_programs()
        was_there = _active() is not None
        self.session = session(master, settings)
        self._owns_session = not was_there
        self._prefix = f"whydrop{next(_numbers)}_"
        self.name = f"spark:{self.session.sparkContext.master}"

    def _create(self, view: str, name: str, there: list[str]) -> None:
        schema = ", ".join(f"`{column}` {SQL_TYPES[kind]}" for column, kind in ibis_schema(name).items())
        frame = None
        # A part that is being put in its place is not below its table yet; Spark wants one folder above all days.
        for folder in (name, f"{STAGING}/{name}"):
            parts = [self._uri(part) for part in there if part.startswith(f"{folder}/")]
            if parts:
                based = self.session.read.schema(schema).option("basePath", self._uri(folder))
                frame = based.parquet(*parts) if frame is None else frame.unionByName(based.parquet(*parts))
        if frame is None:
            frame = self.session.createDataFrame([], schema)
        frame.createOrReplaceTempView(view)

    def _uri(self, name: str) -> str:
        """The address of a file for Spark's own file systems: as it is, for Hadoop decodes no %20."""
        match = _REMOTE.match(self.location)
        scheme = "file://" if match is None else match[0].lower()
        return f"{'s3a://' if scheme == 's3://' else scheme}{self.files.path(name)}"

    def _refuse_patterns(self) -> None:
        odd = sorted(_PATTERN_LETTERS.intersection(self.files.path("")))
        if odd:
            raise BackendError(
                f"{self.location}: Spark takes {' '.join(odd)} in a path for patterns; rename the folder, or use DuckDB"
            )

    def sql(self, expression: ir.Table) -> str:
        """See :meth:`Backend.sql`."""
        return spark_sql(expression)

    def _fetch(self, query: str) -> pa.Table:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            return self.session.sql(query).toArrow()
        except (PySparkException, Py4JError) as reason:
            raise self._failed(f"Spark at {self.name[6:]}", cause(reason)) from reason

    def quantile_by(
        self, table: ir.Table, by: Sequence[str], value: str, q: float, *, discrete: bool = False, **others: Deferred
    ) -> ir.Table:
        """See :meth:`Backend.quantile_by`: Spark's ``percentile`` is exact; for its discrete kin Ibis has no words."""
        if discrete:
            return super().quantile_by(table, by, value, q, discrete=True, **others)
        return table.group_by(*by).agg(quantile=table[value].quantile(q), **others)

    def close(self) -> None:
        """Forget the tables; stop Spark if it was started for this."""
        if self._owns_session:
            self.session.stop()
            return
        for view in self._views:
            self.session.catalog.dropTempView(view)


def spark_sql(expression: ir.Table) -> str:
    """A query in Spark's SQL."""
    import ibis
    from ibis.backends.sql.compilers import PySparkCompiler

    # The compiler asks for an option that only Ibis's own connection to Spark sets.
    if ibis.options.pyspark is None:
        ibis.options.pyspark = _ibis_options()
    compiler = PySparkCompiler()
    return str(compiler.to_sqlglot(expression).sql(dialect=compiler.dialect))


def _ibis_options() -> Any:
    from ibis.config import Config

    class Options(Config):  # type: ignore[misc]
        treat_nan_as_null: bool = False

    return Options()


def session(master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Spark at ``master`` (``spark://host:port``, ``local[2]``), or where the environment says, or on this machine.

    Raises:
        BackendError: pyspark or Java is missing, or no server answers; or this process has another Spark already.
    """
    _require_programs()
    there = _active()
    if there is not None:
        if master is not None and there.sparkContext.master != master:
            _require_master(master)
            raise BackendError(
                f"this process already uses Spark at {there.sparkContext.master}; one process can have one only: "
                f"use that, or ask {master} from another process"
            )
        return there
    from py4j.protocol import Py4JError
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    master = master or SparkConf().get("spark.master") or "local[*]"
    _require_master(master)
    # Workers run the Python of this process: its version and its packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("whydrop").master(master)
    for key, value in {**_settings(master), **(settings or {})}.items():
        builder = builder.config(key, value)
    try:
        started = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as reason:
        raise BackendError(f"Spark at {master} does not start: {cause(reason)}") from reason
    return started


def _settings(master: str) -> dict[str, str]:
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    }
    host = urlsplit(master).hostname if master.startswith("spark://") else "127.0.0.1"
    if host in ("127.0.0.1", "localhost"):
        # The workers are here: they need no name of this machine that the network knows.
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        settings |= {"spark.ui.enabled": "false"}
    return settings


def _active() -> SparkSession | None:
    if "pyspark" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _require_programs() -> None:
    extras.need("spark")
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").exists():
        raise BackendError(f"JAVA_HOME is {home}, but there is no bin/java in it; Spark 4.0 needs Java 17 or 21")
    if not home and shutil.which("java") is None:
        raise BackendError(
            "Spark needs Java 17 or 21, and there is no program java; on Debian: apt-get install "
            "openjdk-17-jre-headless"
        )


def _require_master(master: str) -> None:
    """Refuse a master that does not answer, before Spark tries for minutes."""
    if not master.startswith("spark://"):
        return
    missing = []
    # With a standby there are several: spark://one:7077,two:7077.
    for place in master.removeprefix("spark://").split(","):
        address = urlsplit(f"//{place}")
        try:
            port = address.port or _DEFAULT_PORT
            with socket.create_connection((address.hostname or "", port), _PATIENCE_S):
                return
        except (OSError, ValueError) as reason:
            missing.append(f"{place}: {one_line(reason)}")
    raise BackendError(
        f"no Spark master at {master} ({'; '.join(missing)}); is it running, and is this its address as its log says "
        'it ("Starting Spark master at spark://...")?'
    )


def cause(reason: BaseException) -> str:
    """The innermost message of Java's chain of causes, without the stack."""
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return one_line(Exception(causes[-1] if causes else lines[0] if lines else type(reason).__name__))
