"""Programs of other people that measure for us; the contract that all of them meet.

:func:`whydrop.measure.runners.registry.runner_for` makes the runner of a flow.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import polars as pl

from whydrop.measure.plan import PlannedFlow
from whydrop.recording.tables import TABLES


@dataclass(frozen=True)
class Outcome:
    """How a flow ended.

    Attributes:
        status: ``complete``, ``stopped`` (asked to), ``failed``, ``no-data``.
        message: of a failed flow: what went wrong, for the person who must act.
        facts: what the program reported once: its version, its command line, averages of its own.
    """

    status: str
    message: str | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class Rows:
    """Rows by table, until they are taken.

    >>> rows = Rows()
    >>> rows.add("values", flow=3, time_ns=7, key="", value=1.5)
    >>> rows.take()["values"].row(0)
    (3, 7, '', 1.5)
    >>> rows.take()
    {}
    """

    def __init__(self) -> None:
        self._tables: dict[str, list[dict[str, Any]]] = {}
        self.ever = 0
        """How many rows were added in all."""

    def __len__(self) -> int:
        return sum(map(len, self._tables.values()))

    def add(self, table: str, **columns: Any) -> None:
        """One more row; columns that are not named are null.

        Raises:
            KeyError: the table has no such column.
        """
        if not columns.keys() <= TABLES[table].keys():
            raise KeyError(f"table {table} has no column {', '.join(columns.keys() - TABLES[table].keys())}")
        self._tables.setdefault(table, []).append(columns)
        self.ever += 1

    def take(self) -> dict[str, pl.DataFrame]:
        """Everything that was added since the last time."""
        tables, self._tables = self._tables, {}
        return {name: _frame(name, rows) for name, rows in tables.items()}


def _frame(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    columns = {column: [row.get(column) for row in rows] for column in TABLES[name]}
    # Not strict: a number that a column cannot hold (a program may print anything) becomes null.
    return pl.DataFrame(columns, schema=TABLES[name], strict=False)


class Runner:
    """One flow that is measured by a program (or by code) outside the engine, in a thread of its own.

    A runner never raises once it was started: what fails becomes its outcome.
    """

    name: ClassVar[str]

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        """``number`` is the flow's number in the recording's tables."""
        self.flow = flow
        self.number = number
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._due_ns = 0

    def meet(self, others: Sequence[Runner]) -> None:
        """Know the other runners of the test, before ``check``; most need not."""

    def check(self) -> str | None:
        """The reason why it cannot run (with what to install), or what it cannot do; ``None`` if nothing."""
        raise NotImplementedError

    def start(self, at_ns: int) -> None:
        """Begin; the common start is at ``at_ns`` (``time.monotonic_ns``), the flow's own ``start_s`` later."""
        if self._thread is None:
            self._due_ns = at_ns + round(self.flow.start_s * 1e9)
            self._thread = threading.Thread(target=self._supervise, name=f"{self.name} {self.number}", daemon=True)
            self._begin()

    def drain(self) -> dict[str, pl.DataFrame]:
        """The rows measured since the last call, by table name (columns as in ``record.tables``)."""
        with self._lock:
            return self._rows().take()

    def done(self) -> bool:
        """True if it has ended by itself."""
        return self._thread is not None and not self._thread.is_alive()

    def stop(self) -> None:
        """End early; returns at once."""
        raise NotImplementedError

    def finish(self, timeout_s: float) -> Outcome:
        """Wait for the end (killing the program after ``timeout_s``). ``drain`` may be called once more after it."""
        raise NotImplementedError

    def _begin(self) -> None:
        assert self._thread is not None
        self._thread.start()

    def _supervise(self) -> None:
        """The thread's work, in which nothing that goes wrong may go unnoticed: it becomes the outcome."""
        raise NotImplementedError

    def _rows(self) -> Rows:
        """The measured rows that were not yet drained."""
        raise NotImplementedError


class ThreadRunner(Runner):
    """One flow that code of our own measures, in the runner's thread.

    A subclass measures until ``_stopping`` is set, and sets ``_broken`` to why it could not.
    """

    ends_within_s: ClassVar[float] = 2.0
    """How long the thread may take to notice that it shall stop."""

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        super().__init__(flow, number)
        self._stopping = threading.Event()
        self._broken: str | None = None

    def stop(self) -> None:
        """End early; returns at once."""
        self._stopping.set()

    def finish(self, timeout_s: float) -> Outcome:
        """Wait for the end."""
        if self._thread is None:
            return Outcome("failed", "the flow was never started")
        asked = self._stopping.is_set()
        self._thread.join(self._patience_s(timeout_s) if asked else max(timeout_s, 0))
        if self._thread.is_alive() and not asked:
            self._stopping.set()
            self._broken = self._broken or "it did not end in time"
            self._thread.join(self.ends_within_s)
        with self._lock:
            facts, (status, message) = self._told(), self._result()
        if self._broken is not None:
            return Outcome("failed", self._broken, facts)
        return Outcome("stopped", None, facts) if asked else Outcome(status, message, facts)

    def _patience_s(self, timeout_s: float) -> float:
        """How long to wait for a thread that was asked to stop, of the time that there is."""
        return min(timeout_s, self.ends_within_s)

    def _told(self) -> dict[str, Any]:
        """The facts of the outcome."""
        raise NotImplementedError

    def _result(self) -> tuple[str, str | None]:
        """Status and message of a flow that ended by itself and did not break."""
        raise NotImplementedError
