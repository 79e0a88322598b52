"""The outcome of reading a file: rows, or one line for the person who gave it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.archives import Piece
from whydrop.formats.archives.pieces import pieces
from whydrop.recording.errors import RecordingError
from whydrop.store.tables import TABLES, conform


def tables(path: Path, **options: Any) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of ``tcp`` and of ``ndt`` that a file gives."""
    found = list(pieces(path, **options))
    tcp, ndt = (
        pl.concat([pl.DataFrame(schema=TABLES[name]), *(piece.frame for piece in found if piece.table == name)])
        for name in ("tcp", "ndt")
    )
    return tcp, ndt


def outcome(path: Path) -> list[Piece] | str:
    """The pieces, each checked to conform to its table; or the message of the error."""
    try:
        found = list(pieces(path))
    except RecordingError as error:
        return str(error)
    for piece in found:
        assert piece.frame.schema == conform(piece.table, piece.frame).schema
    return found


def check(path: Path, most_rows: int) -> None:
    """A damaged file gives at most the rows that it had, and says so in single lines."""
    found = outcome(path)
    if isinstance(found, str):
        assert found.startswith(str(path))
        assert "\n" not in found
        return
    for name in ("tcp", "ndt"):
        assert sum(piece.frame.height for piece in found if piece.table == name) <= most_rows
    for text in [text for piece in found for text in (*piece.notes, piece.damage or "")]:
        assert "\n" not in text
