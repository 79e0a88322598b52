"""``whydrop store import``: files and archives of measurement platforms into a store."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import whydrop
from whydrop.cli import ending, progress
from whydrop.runtime import cancelling
from whydrop.text.quantities import count, plural

if TYPE_CHECKING:
    from whydrop.formats.archives.chunks import FileReport, Status
    from whydrop.formats.archives.ingesting import Report
    from whydrop.show.document import Document

# More lines would hide other problems; the store lists all of them.
_MOST_DAMAGE = 20

_WORDS: dict[Status, str] = {
    "new": "new",
    "known": "read before, unchanged",
    "damaged": "damaged, read up to the damage",
    "unreadable": "could not be read",
    "left out": "of other kinds, left out",
}


def run(files: tuple[Path, ...], place: str, *, again: bool, workers: int | None, as_json: bool) -> int:
    """Read files into a store, and print what came of them; return the exit status."""
    if not any(path.exists() for path in files):
        # A mistyped name alone makes no store.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(files[0]))
    cancelling.import_polars()
    with cancelling.noted("everything read so far is in the store"), progress.reading("Writing") as advance:
        report = whydrop.import_into(place, *files, again=again, workers=workers, progress=advance)
    if as_json:
        ending.write_json(_as_json(report, place), indent=1)
    else:
        ending.show(_document(report, place))
    _print_problems(report)
    return 0 if report.complete else 1


def _document(report: Report, place: str) -> Document:
    from whydrop.formats.archives.noting import together
    from whydrop.show.document import Column, Document, Facts, Items, Section, Table, Text, parts

    tables = report.tables()
    new = sum(of.rows for of in tables.values())
    statuses = report.statuses()
    columns = (Column("Table"), Column("New rows", number=True), Column("There already", True, 1),
               Column("In conflict", True, 2))  # fmt: skip
    rows = tuple((name, count(of.rows), count(of.duplicates), count(of.conflicts)) for name, of in tables.items())
    # Notes on repairs and omissions, each kind once; files that were left out as a whole are counted above.
    notes = together(note for file in report.files if file.status != "left out" for note in file.notes)
    files = tuple((words, count(statuses[status])) for status, words in _WORDS.items() if statuses[status])
    shown = parts(
        Table("Rows", columns, rows),
        Section("Files", parts(Facts(files if set(statuses) - {"new"} else ()))),
        Section("Notes", parts(Items.of(" ".join(str(note).split()) for note in notes),
                               Text("--json and the folder sources of the store name each file." if notes else ""))),
    )  # fmt: skip
    title = f"{place}: {plural(new, 'new row')} from {plural(len(report.files), 'file')}"
    return Document(title, (Section(title, ()), *shown))


def _print_problems(report: Report) -> None:
    """Print a line for each damage or conflict, in files and in parts of the store."""
    damage = [one for file in report.files for one in file.damage]
    lines = damage[:_MOST_DAMAGE]
    if (more := len(damage) - _MOST_DAMAGE) > 0:
        lines.append(f"{more} more damaged parts: see --json, or the folder sources of the store")
    lines += [f"{file.path}: conflict: {conflict}" for file in report.files for conflict in file.shown]
    for line in [*lines, *report.notes]:
        ending.note(" ".join(line.split()))


def _as_json(report: Report, place: str) -> dict[str, Any]:
    return {
        "whydrop": whydrop.__version__,
        "schema": 1,
        "store": place,
        "complete": report.complete,
        "tables": {table: vars(count) for table, count in report.tables().items()},
        "files": [_of_file(file) for file in report.files],
        "notes": report.notes,
    }


def _of_file(file: FileReport) -> dict[str, Any]:
    return {
        "path": file.path,
        "status": file.status,
        "sha256": file.sha256 or None,
        "bytes": file.bytes,
        "tables": {table: vars(count) for table, count in file.tables.items()},
        "damage": file.damage,
        "notes": [str(note) for note in file.notes],
        "conflicts": [str(conflict) for conflict in file.shown],
    }
