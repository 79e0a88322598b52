"""Reading one file that was given, piece by piece, with a report of what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from whydrop.formats.archives.noting import Note
from whydrop.recording.errors import RecordingError

if TYPE_CHECKING:
    from whydrop.formats.archives import Piece
    from whydrop.formats.archives.kinds import Kind
    from whydrop.store.merging import Conflict
    from whydrop.store.store import Count, Store

Status = Literal["new", "known", "damaged", "unreadable", "left out"]


@dataclass
class FileReport:
    """The outcome of one file."""

    path: str
    status: Status
    sha256: str = ""
    bytes: int = 0
    tables: dict[str, Count] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)  # what of it could not be read
    notes: list[Note] = field(default_factory=list)  # what was repaired or left out
    shown: list[Conflict] = field(default_factory=list)  # the first conflicts


@dataclass(frozen=True)
class Given:
    """A file to be read."""

    path: Path
    bytes: int
    named: bool  # by the user; False: found in a folder
    failure: str | None = None  # why there is nothing to be read


class Chunk(NamedTuple):
    """A piece of a file, or none at its end; only then is the report on the file complete."""

    report: FileReport
    piece: Piece | None = None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits; of a recording's folder that of its files' together."""
    if path.is_dir():
        parts = (f"{file.name} {sha256_of(file)}\n" for file in sorted(path.iterdir()) if file.is_file())
        return hashlib.sha256("".join(parts).encode(errors="surrogateescape")).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_chunks(store: Store, file: Given, *, again: bool) -> Iterator[Chunk]:
    """Read one file, piece by piece. Whatever is wrong with it is said in the report; nothing is raised for it."""
    from whydrop.formats.archives.opening import printed

    report = FileReport(printed(file.path), "new", bytes=file.bytes)
    if file.failure is not None:
        report.status, report.damage = "unreadable", [f"{report.path}: {file.failure}"]
        yield Chunk(report)
        return
    try:
        before = file.path.stat()
        report.sha256 = sha256_of(file.path)
        if not again and (known := store.source(report.sha256)) is not None:
            report.status = "known"
            report.notes = [Note(report.path, f"It was damaged when it was read: {one}") for one in _damage_of(known)]
            yield Chunk(report)
            return
        for piece in _pieces(file.path, report.sha256):
            report.notes += [Note(piece.source, note) for note in piece.notes]
            if piece.damage is not None:
                report.status = "damaged"
                report.damage.append(f"{piece.source}: {piece.damage}")
            yield Chunk(report, piece)
        after = file.path.stat()
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            report.notes.append(Note(report.path, "It changed while it was read, and is read again next time."))
            report.sha256 = ""
    except (RecordingError, OSError) as reason:
        _fail(report, file, str(reason) if isinstance(reason, RecordingError) else f"{report.path}: {reason.strerror}")
    except Exception as reason:
        # Readers report a bad file by one of the errors above; no other error of one file stops the others.
        kind = type(reason).__name__
        _fail(report, file, f"{report.path}: {kind}: {reason}. Please report this: it is no fault of yours")
    yield Chunk(report)


def _damage_of(known: dict[str, Any]) -> list[str]:
    """The damage that a source's note in the store names; the note itself may be damaged."""
    damage = known.get("damage")
    return [one for one in damage if isinstance(one, str)] if isinstance(damage, list) else []


def _pieces(path: Path, digest: str) -> Iterator[Piece]:
    if path.is_dir():
        from whydrop.formats.archives import recordings

        yield from recordings.pieces(path, digest)
        return
    from whydrop.formats.archives.pieces import pieces

    yield from pieces(path)


def _fail(report: FileReport, file: Given, words: str) -> None:
    if not file.named and is_unknown(file.path):
        report.status, report.notes = "left out", [Note(report.path, words.removeprefix(f"{report.path}: "))]
    else:
        report.status = "unreadable"
        report.damage.append(words)


def is_unknown(path: Path) -> bool:
    """True if a file is of none of the kinds that are read here: folders hold other things too."""
    return kind_of(path) == "unknown"


def kind_of(path: Path) -> Kind | None:
    """The kind of a file, or of the first in an archive; ``None`` where it is empty or damaged."""
    from whydrop.formats.archives import kinds, opening

    try:
        first = next(opening.members(path), None)
    except RecordingError:
        return None
    return None if first is None or first.damage is not None else kinds.kind(first.content, first.name)
