"""Engines that read a store's Parquet files: each table, or some days of it, is a view that queries name."""

from __future__ import annotations

from abc import abstractmethod
from datetime import date
from typing import TYPE_CHECKING

from whydrop.store.engines.base import Backend, BackendError, as_polars, label, unbound
from whydrop.store.engines.places import PartsGoneError, StoreFiles

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import polars as pl
    import pyarrow as pa


# A store that is compacted while it is read: its rows are in other files then, which are looked up again. So
# often while one query runs, which is as many days as are compacted meanwhile.
_MOST_CHANGES = 20


class FilesBackend(Backend):
    """A store's files, looked up once for each view, and again when a compaction has replaced them."""

    #: Begins the names of views, where several stores share what holds them.
    _prefix = ""

    def __init__(self, location: str) -> None:
        self._place = StoreFiles(location)
        self.notes = self._place.notes
        self._views: dict[str, tuple[str, date | str | None, date | str | None]] = {}  # their tables and days
        self._parts: dict[str, list[str]] = {}  # that each view reads

    def table(self, name: str, first: date | str | None = None, last: date | str | None = None) -> ir.Table:
        """See :meth:`Backend.table`."""
        view = f"{self._prefix}{label(name, first, last)}"
        expression = unbound(name, view)
        if view not in self._views:
            self._look_up(view, name, first, last)
            self._views[view] = (name, first, last)
        return expression

    def run(self, expression: ir.Table) -> pl.DataFrame:
        """See :meth:`Backend.run`."""
        import polars as pl

        query = self.sql(expression)
        frame = pl.from_arrow(self._found(query))
        assert isinstance(frame, pl.DataFrame)
        return as_polars(expression, frame)

    def _found(self, query: str) -> pa.Table:
        for _ in range(_MOST_CHANGES):
            try:
                return self._fetch(query)
            except PartsGoneError:
                for view, (name, first, last) in self._views.items():
                    self._look_up(view, name, first, last)
        return self._fetch(query)

    def _look_up(self, view: str, name: str, first: date | str | None, last: date | str | None) -> None:
        for left in reversed(range(_MOST_CHANGES)):
            self._parts[view] = parts = self._place.parts(name, first, last)
            try:
                self._create(view, name, parts)
            except PartsGoneError:
                if left:
                    continue
                raise
            return

    def _failed(self, engine: str, why: str) -> BackendError:
        """The error to raise when the engine failed.

        Raises:
            PartsGoneError: files are not there any more.
            BackendError: a file is damaged; it is named.
        """
        self._place.explain_failure(part for parts in self._parts.values() for part in parts)
        return BackendError(f"{self._place.location}: {engine}: {why}")

    @abstractmethod
    def _create(self, view: str, name: str, parts: list[str]) -> None:
        """Make ``view`` of the table's ``parts``; an empty one of none."""

    @abstractmethod
    def _fetch(self, query: str) -> pa.Table:
        """Run a query; what fails is raised as :meth:`_failed` has it."""
