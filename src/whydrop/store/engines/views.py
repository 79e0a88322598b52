"""Engines that read a store's Parquet files: each table, or some days of it, is a view that queries name."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING

from whydrop.store import parts, snapshot
from whydrop.store.engines.base import Backend, BackendError, as_polars, label, unbound
from whydrop.store.errors import StoreError
from whydrop.store.files import Files
from whydrop.store.part_frames import Reader
from whydrop.store.store import DESCRIPTION, Store
from whydrop.store.tables import TABLES

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import polars as pl
    import pyarrow as pa

_DAY = re.compile(rf"\d{{4}}-\d\d-\d\d|{parts.NO_DAY}")
_MOST_NAMED = 3
# A store that is compacted while it is read: its rows are in other files then, which are looked up again. So
# often while one query runs, which is as many days as are compacted meanwhile.
_MOST_CHANGES = 20


class PartsGoneError(BackendError):
    """Files of a store were listed, and are not there any more when they are read."""


class FilesBackend(Backend):
    """A store's files, looked up once for each view, and again when a compaction has replaced them.

    Attributes:
        location: of the store, as the user wrote it.
        files: of the store.
    """

    #: Begins the names of views, where several stores share what holds them.
    _prefix = ""

    def __init__(self, location: str) -> None:
        """Find the store at ``location``, a folder or a prefix of an object store.

        Raises:
            BackendError: there is none.
        """
        with errors_of_stores():
            self.files = Files.at(location)
            if self.files.exists(DESCRIPTION):
                Store.open(self.files)
            elif not any(self.files.sizes(table, ".parquet") for table in TABLES):
                raise BackendError(
                    f"{location}: no store is there (it has neither {DESCRIPTION} nor tables such as "
                    "counters/day=2018-02-11/...); `whydrop store import` makes one"
                )
        self.location = location
        self._reader = Reader(self.files)
        self.notes = self._reader.notes
        self._views: dict[str, tuple[str, date | str | None, date | str | None]] = {}  # their tables and days
        self._parts: dict[str, list[str]] = {}  # that each view reads, by name

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
            with errors_of_stores():
                # By day. Should the store be compacted later, some are gone; none hold what others hold too.
                there = snapshot.sound(self._reader, name, wanted=_between(first, last))
            self._parts[view] = sorted(there, key=lambda part: (parts.day_of(part), part))
            try:
                self._create(view, name, self._parts[view])
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
        paths = sorted({self.files.path(part) for there in self._parts.values() for part in there})
        if self._are_gone(paths):
            raise PartsGoneError(f"{self.location}: was changed while it was read; try again")
        bad = list(islice((path for path in paths if not self._is_readable(path)), _MOST_NAMED))
        if bad:
            raise BackendError(
                f"{', '.join(bad)}: damaged inside: move it out of the store, read the files that its rows came from "
                "with `whydrop store import --again`, and run this again"
            )
        return BackendError(f"{self.location}: {engine}: {why}")

    def _are_gone(self, paths: list[str]) -> bool:
        """True if some of ``paths`` are not there any more: the store was compacted since they were listed."""
        from pyarrow.fs import FileType

        try:
            return any(info.type == FileType.NotFound for info in self.files.filesystem.get_file_info(paths))
        except OSError:
            return False

    def _is_readable(self, path: str) -> bool:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            for _ in pq.ParquetFile(path, filesystem=self.files.filesystem).iter_batches():
                pass
        except (OSError, pa.ArrowException):
            return False
        return True

    @abstractmethod
    def _create(self, view: str, name: str, there: list[str]) -> None:
        """Make ``view`` of the table's parts; an empty one of none."""

    @abstractmethod
    def _fetch(self, query: str) -> pa.Table:
        """Run a query; what fails is raised as :meth:`_failed` has it."""


@contextmanager
def errors_of_stores() -> Iterator[None]:
    """Raise a store's errors as an engine's."""
    try:
        yield
    except StoreError as reason:
        raise BackendError(str(reason)) from reason


def _between(first: date | str | None, last: date | str | None) -> Callable[[str], bool]:
    """True if a day is asked for. Rows without a time are on no day."""
    low, high = str(first or ""), str(last or "9999-12-31")
    every = first is None and last is None
    return lambda day: bool(_DAY.fullmatch(day)) and (low <= day <= high if day != parts.NO_DAY else every)
