"""Which files of a store hold which days of a table."""

from __future__ import annotations

import re
from collections import defaultdict
from datetime import date
from typing import TYPE_CHECKING, Any

from whydrop.store import parts, snapshot
from whydrop.store.engines.base import BackendError
from whydrop.store.errors import StoreError
from whydrop.store.files import Files
from whydrop.store.part_frames import Reader
from whydrop.store.store import DESCRIPTION, Store
from whydrop.store.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_DAY = re.compile(rf"\d{{4}}-\d\d-\d\d|{parts.NO_DAY}")
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
# Without reading each object's end, its rows are guessed; a sample of a switch's counter takes one to three bytes.
_BYTES_OF_ROW = 2
_MOST_NAMED = 3


class PartsGoneError(BackendError):
    """Files of a store were listed, and are not there any more when they are read."""


class StoreFiles:
    """A store, as a list of files."""

    def __init__(self, location: str) -> None:
        """Find the store at ``location``, a folder or a prefix of an object store.

        Raises:
            BackendError: there is none.
        """
        try:
            self.files = Files.at(location)
            if self.files.exists(DESCRIPTION):
                Store.open(self.files)
            elif not any(self.files.sizes(table, ".parquet") for table in TABLES):
                raise BackendError(
                    f"{location}: no store is there (it has neither {DESCRIPTION} nor tables such as "
                    "counters/day=2018-02-11/...); `whydrop store import` makes one"
                )
        except StoreError as reason:
            raise BackendError(str(reason)) from reason
        self.location = location
        self._reader = Reader(self.files)
        #: Parts that are damaged and were left out. Sentences.
        self.notes: list[str] = self._reader.notes

    @property
    def is_local(self) -> bool:
        """True if the files are this machine's."""
        return self.files.local is not None

    def parts(self, table: str, first: date | str | None = None, last: date | str | None = None) -> list[str]:
        """Paths of the Parquet files, as the file system calls them, by day; damaged ones are left out and noted.

        Should the store be compacted later, some are gone; none hold what others hold too.
        """
        try:
            there = snapshot.sound(self._reader, table, wanted=_between(first, last))
            return [self.files.path(name) for name in sorted(there, key=lambda name: (parts.day_of(name), name))]
        except StoreError as reason:
            raise BackendError(str(reason)) from reason

    def rows(self, table: str) -> dict[str, int]:
        """Rows of each day: counted in local files' footers, guessed from the sizes of remote ones."""
        found: dict[str, int] = defaultdict(int)
        try:
            for name, size in snapshot.listed(self._reader, table).items():
                found[parts.day_of(name)] += self._rows(name) if self.is_local else size // _BYTES_OF_ROW
        except StoreError as reason:
            raise BackendError(str(reason)) from reason
        return found

    def _rows(self, name: str) -> int:
        try:
            return int(self._reader.footer(name).num_rows)
        except StoreError:
            return 0  # found damaged when it is to be read

    def explain_failure(self, paths: Iterable[str]) -> None:
        """Raise if an engine failed because files are missing or damaged; else return.

        Raises:
            PartsGoneError: some of ``paths`` are not there any more.
            BackendError: some cannot be read; they are named.
        """
        paths = sorted(set(paths))
        if self._are_gone(paths):
            raise PartsGoneError(f"{self.location}: was changed while it was read; try again")
        bad = []
        for path in paths:
            if not self._is_readable(path):
                bad.append(path)
            if len(bad) == _MOST_NAMED:
                break
        if bad:
            raise BackendError(
                f"{', '.join(bad)}: damaged inside: move it out of the store, read the files that its rows came from "
                "with `whydrop store import --again`, and run this again"
            )

    def _are_gone(self, paths: Iterable[str]) -> bool:
        """True if some of ``paths`` are not there any more: the store was compacted since they were listed."""
        from pyarrow.fs import FileType

        try:
            return any(info.type == FileType.NotFound for info in self.files.filesystem.get_file_info(list(paths)))
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

    def dataset(self, paths: list[str], columns: dict[str, str]) -> Any:
        """Parts as an Arrow data set, with Ibis's names of the columns' types; ``day`` is the folder's."""
        import pyarrow as pa
        import pyarrow.dataset as ds

        types = {"int64": pa.int64(), "float64": pa.float64(), "string": pa.string(), "boolean": pa.bool_()}
        return ds.dataset(
            paths,
            schema=pa.schema([(column, types[kind]) for column, kind in columns.items()]),
            format="parquet",
            filesystem=self.files.filesystem,
            partitioning=ds.partitioning(pa.schema([("day", pa.string())]), flavor="hive"),
            # Of the store: a part that is being put in its place is not below its table yet.
            partition_base_dir=self.files.path(""),
        )


def uri(location: str, path: str) -> str:
    """The address of a part, for an engine with file systems of its own: as it is, for Hadoop decodes no %20."""
    match = _REMOTE.match(location)
    scheme = "file://" if match is None else match[0].lower()
    return f"{'s3a://' if scheme == 's3://' else scheme}{path}"


def _between(first: date | str | None, last: date | str | None) -> Callable[[str], bool]:
    """True if a day is asked for. Rows without a time are on no day."""
    low, high = str(first or ""), str(last or "9999-12-31")
    every = first is None and last is None
    return lambda day: bool(_DAY.fullmatch(day)) and (low <= day <= high if day != parts.NO_DAY else every)
