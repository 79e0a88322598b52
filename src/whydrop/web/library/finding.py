"""Files of a folder that the library lists: recordings, captures, stores and the files of other tools."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from whydrop.explaining.many.finding import is_capture
from whydrop.formats import kinds
from whydrop.recording.document import FILE_NAME

Kind = Literal["recording", "capture", "store", "file"]

# Names that the files of other tools end in; what else ends in .json is looked into.
_OF_OTHER_TOOLS = (".flent.gz", ".flent", ".flent.bz2", ".flnt", ".json", ".json.gz")


@dataclass(frozen=True)
class Candidate:
    """Something to list, as its folder has it.

    Attributes:
        path: below the folder of the library.
        kind: ``file`` is a test that another tool measured.
        size_bytes: of the file; of a folder that of its description.
        changed_ns: its last change, as the file system says.
    """

    path: str
    kind: Kind
    size_bytes: int
    changed_ns: int


def candidates(root: Path, known: dict[str, Candidate] | None = None) -> Iterator[Candidate]:
    """All that lies below a folder; links to other folders are not followed, and hidden ones not entered.

    Args:
        root: the folder.
        known: by path, what an earlier call found: a file that did not change is not opened again.
    """
    known = known or {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            # It vanished, or is somebody else's.
            continue
        names = {entry.name for entry in entries}
        for marker, kind in _FOLDERS.items():
            if marker in names and folder:
                yield from _stamped(root / folder / marker, folder, kind)
        is_entered = not names & _FOLDERS.keys()
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if is_entered:
                    waiting.append(path)
            elif entry.name not in _FOLDERS:
                yield from _file(entry, path, known.get(path))


# The file that makes a folder one thing, and the kind of it.
_FOLDERS: dict[str, Kind] = {FILE_NAME: "recording", "whydrop-store.json": "store"}


def _stamped(marker: Path, path: str, kind: Kind) -> Iterator[Candidate]:
    try:
        found = marker.stat()
    except OSError:
        return
    yield Candidate(path, kind, found.st_size, found.st_mtime_ns)


def _file(entry: os.DirEntry[str], path: str, known: Candidate | None) -> Iterator[Candidate]:
    try:
        if not entry.is_file():
            return
        found = entry.stat()
        if known is not None and (known.size_bytes, known.changed_ns) == (found.st_size, found.st_mtime_ns):
            yield known
            return
        kind = _kind(entry)
    except OSError:
        return
    if kind is not None:
        yield Candidate(path, kind, found.st_size, found.st_mtime_ns)


def _kind(entry: os.DirEntry[str]) -> Kind | None:
    if entry.name.endswith(_OF_OTHER_TOOLS):
        return "file" if kinds.is_recording(entry.path) else None
    return "capture" if is_capture(Path(entry.path)) else None
