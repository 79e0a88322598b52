"""Files that measurement platforms have published: DISCO's switch telemetry, web100 snaplogs, tcp-info, NDT.

`reading.pieces` reads any of them, and archives of them, whatever their names say of compression: each file becomes one
or more `Piece`, rows of one of the store's tables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Piece:
    """Rows that one file gave for one table."""

    # Path of the file. Of an archive: where a member's rows are given apart "archive.tgz: path/in/it"; the rows of
    # whole members are gathered, and are the archive's
    source: str
    table: str  # a name in `record.store.tables.TABLES`
    frame: pl.DataFrame  # conforms to that table
    notes: list[str] = field(default_factory=list)  # what was repaired or left out, and why: sentences
    damage: str | None = None  # where the file is damaged and what was expected; the frame holds all up to there
