"""Files that measurement platforms have published: DISCO's switch telemetry, web100 snaplogs, tcp-info, NDT.

`pieces.pieces` reads any of them, and archives of them, whatever their names say of compression: each file becomes one
or more `Piece`, rows of one of the store's tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Piece:
    """Rows that one file gave for one table."""

    # Path of the file. Of an archive: where a member's rows are given apart "archive.tgz: path/in/it"; the rows of
    # whole members are gathered, and are the archive's
    source: str
    table: str  # a name in `whydrop.store.tables.TABLES`
    frame: pl.DataFrame  # conforms to that table
    notes: list[str] = field(default_factory=list)  # what was repaired or left out, and why: sentences
    damage: str | None = None  # where the file is damaged and what was expected; the frame holds all up to there


@dataclass
class Found:
    """The content of one file, as the reader of its kind found it."""

    tcp: list[pl.DataFrame] = field(default_factory=list)  # rows of ``tcp``
    tests: list[dict[str, Any]] = field(default_factory=list)  # rows of ``ndt``
    # Objects that ``as_rows`` makes rows of ``tcp`` of: of those of many files at once, which is much faster
    objects: list[Any] = field(default_factory=list)
    as_rows: Callable[[list[Any]], pl.DataFrame] | None = None
    notes: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)  # notes that are added up over the files of an archive
    damage: str | None = None
