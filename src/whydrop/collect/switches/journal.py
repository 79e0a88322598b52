"""The rows of an hour that is still going on: files that grow by one frame a minute.

A frame (`framing`) holds rows in Arrow's stream format.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from whydrop.collect.switches import framing
from whydrop.runtime import durable
from whydrop.store import tables

HOUR_NS = 3_600_000_000_000
_NAME = re.compile(r"([a-z]+)\.(\d{1,7})\.journal")


@dataclass
class Journal:
    """Rows of one table and one hour (of the table's time column, counted from the epoch)."""

    folder: Path
    table: str
    hour: int
    rows: int = 0
    # Whether rows may be in it twice, or in the store already: it was found after a crash, or a write to it failed.
    doubtful: bool = field(default=False)

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"{self.table}.{self.hour}.journal"

    def append(self, frame: pl.DataFrame) -> None:
        """Make rows durable.

        Raises:
            OSError: the disk does not take them; the file is as it was.
        """
        content = io.BytesIO()
        frame.write_ipc_stream(content, compression="zstd")
        try:
            framing.append(self.path, framing.packed(content.getvalue()))
        except OSError:
            self.doubtful = True
            raise
        if not self.rows:
            durable.sync_folder(self.folder)
        self.rows += frame.height

    def read(self) -> tuple[pl.DataFrame, str | None]:
        """All rows that are whole, and what is wrong with the file otherwise.

        Raises:
            OSError: the file cannot be read at all.
        """
        frames, damage = [], None
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            # Not even its first frame could be written.
            content = b""
        for offset, found in _frames(content, self.table):
            if isinstance(found, str):
                damage = damage or f"{self.path}: offset {offset}: {found}; the minutes that are whole were kept"
            else:
                frames.append(found)
        rows = pl.concat(frames) if frames else pl.DataFrame(schema=tables.TABLES[self.table])
        if damage is None and rows.height < self.rows:
            damage = f"{self.path}: {self.rows - rows.height} rows are gone: somebody removed it, or cut it short"
        return rows, damage

    def remove(self) -> None:
        """Forget it: its rows are in the store."""
        self.path.unlink(missing_ok=True)


def found_in(folder: Path) -> Iterator[Journal]:
    """The journals that a collector has left behind."""
    for path in sorted(folder.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match and match[1] in tables.TABLES:
            yield Journal(folder, match[1], int(match[2]), doubtful=True)


def by_hour(table: str, frames: Iterable[pl.DataFrame]) -> dict[int, pl.DataFrame]:
    """Rows of a table by the hour of their time."""
    rows = pl.concat(frames)
    hour = pl.col(tables.TIME[table]) // HOUR_NS
    parts = rows.with_columns(hour=hour).partition_by("hour", as_dict=True, include_key=False, maintain_order=True)
    return {int(hour): part for (hour,), part in parts.items()}


def _frames(content: bytes, table: str) -> Iterator[tuple[int, pl.DataFrame | str]]:
    """Offset and rows of each frame that is whole, and what was found elsewhere."""
    for at, found in framing.unpacked(content):
        yield at, found if isinstance(found, str) else _rows(found, table)


def _rows(payload: bytes, table: str) -> pl.DataFrame | str:
    try:
        return tables.conform(table, pl.read_ipc_stream(io.BytesIO(payload)))
    except (pl.exceptions.PolarsError, OSError, KeyError, ValueError) as reason:
        return f"a frame that is no table {table} ({' '.join(str(reason).split())})"
