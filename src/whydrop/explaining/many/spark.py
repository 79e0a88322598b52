"""Captures explained by the executors of a Spark cluster: the same workers, the same rows.

Each task runs one worker process of its own (`workers`), so that a capture that kills it costs a try and no task. What
kills an executor is Spark's to repair: it runs the task again elsewhere.

The captures' paths must lead to the same files on every host of the cluster (a shared filesystem), and whydrop must be
installed there, or on the same filesystem.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.explaining.many import worker
from whydrop.explaining.many.workers import CostLimits, Outcome, explained, processors

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession

# So many captures a Spark job: when it ends its rows are put into the store.
WAVE_CAPTURES = 512

# The more tasks a wave has, the better are they spread, and the more worker processes are started.
_TASKS_PER_CORE = 3

_TABLES = ("captures", "flows", "transfers", "verdicts")
_COLUMNS = "path binary, status string, message string, retries int, " + ", ".join(f"{name} binary" for name in _TABLES)


@contextmanager
def cluster(backend: str) -> Iterator[SparkSession]:
    """Spark at ``spark://host:port``, ``spark:local[2]``, or ``spark`` as its own settings say.

    Raises:
        BackendError: it is no Spark, or does not answer.
        MissingExtraError: pyspark is not installed.
    """
    from whydrop.store.engines import BackendError
    from whydrop.store.engines.spark import session

    kind, _, rest = backend.partition(":")
    if kind != "spark":
        raise BackendError(
            f"captures are explained here or by Spark, not by {backend!r}: expected local or spark://HOST:PORT"
        )
    # What one job finds comes to this process whole, whatever its size.
    started = session(backend if rest.startswith("//") else rest or None, {"spark.driver.maxResultSize": "0"})
    try:
        yield started
    finally:
        started.stop()


def explainer(
    session: SparkSession, limits: CostLimits, *, tasks: int | None = None
) -> Callable[[Iterable[Path], set[str]], Iterator[Outcome]]:
    """Who explains captures on a cluster, for `explaining.explain_into`.

    Args:
        session: of the cluster.
        limits: what one capture may cost.
        tasks: of a job; by default some for each core of the cluster.

    Raises:
        BackendError: (while captures are explained) Spark has given a job up.
    """
    count = tasks or session.sparkContext.defaultParallelism * _TASKS_PER_CORE

    def explain(paths: Iterable[Path], known: set[str]) -> Iterator[Outcome]:
        shared = session.sparkContext.broadcast(frozenset(known))
        remaining = iter(paths)
        while wave := list(islice(remaining, WAVE_CAPTURES)):
            frame = session.createDataFrame(
                # As bytes: names on disk may be no text.
                [(os.fsencode(path), os.fsencode(path.absolute())) for path in wave],
                "path binary, file binary",
            )
            spread = frame.repartition(max(1, min(count, len(wave))))
            yield from map(_outcome, _collected(spread.mapInArrow(_Task(shared, limits), _COLUMNS)))

    return explain


def _collected(frame: DataFrame) -> list[Any]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from whydrop.store.engines import BackendError
    from whydrop.store.engines.spark import cause

    try:
        return frame.collect()
    except (PySparkException, Py4JError) as reason:
        raise BackendError(
            f"Spark gave up on captures: {cause(reason)}. What it had explained before is in the store; the same "
            "command goes on there"
        ) from reason


class _Task:
    """The work of an executor on the captures of one partition: a function, with what it needs to know."""

    def __init__(self, known: Any, limits: CostLimits) -> None:
        self.known = known
        self.limits = limits

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        place = 0 if context is None else context.partitionId()
        named = {
            Path(os.fsdecode(file)): path
            for batch in batches
            for path, file in zip(*batch.to_pydict().values(), strict=True)
        }
        outcomes = explained(list(named), self.known.value, workers=1, limits=self._limits(), places=[place])
        with closing(outcomes):  # type: ignore[type-var]
            for outcome in outcomes:
                yield _batch(named[outcome.path], outcome)

    def _limits(self) -> CostLimits:
        """The memory of this host is shared by as many tasks as it has processors."""
        return replace(self.limits, memory_bytes=self.limits.memory_bytes or CostLimits.memory_for(processors()))


def _batch(path: bytes, outcome: Outcome) -> pyarrow.RecordBatch:
    import polars as pl
    import pyarrow

    from whydrop.explaining.many import rows

    frames = outcome.frames
    if "captures" in frames:
        frames = {
            **frames,
            "captures": frames["captures"].with_columns(path=pl.lit(rows.printed(Path(os.fsdecode(path))))),
        }
    message = outcome.message
    if outcome.status == "unreadable":
        message = f"{message} (on {socket.gethostname()}: every host of the cluster must see it at this path)"
    packed = worker.packed(frames)
    row = {
        "path": path,
        "status": outcome.status,
        "message": message,
        "retries": outcome.retries,
        **{name: packed.get(name) for name in _TABLES},
    }
    types = [pyarrow.binary(), pyarrow.string(), pyarrow.string(), pyarrow.int32(), *[pyarrow.binary()] * len(_TABLES)]
    schema = pyarrow.schema(list(zip(row, types, strict=True)))
    return pyarrow.RecordBatch.from_pylist([row], schema=schema)


def _outcome(row: Any) -> Outcome:
    packed = {name: bytes(row[name]) for name in _TABLES if row[name] is not None}
    return Outcome(
        Path(os.fsdecode(bytes(row["path"]))), row["status"], worker.unpacked(packed), row["message"], row["retries"]
    )
