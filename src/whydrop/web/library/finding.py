"""Files of a folder that the library lists: recordings, captures, stores and the files of other tools."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from whydrop.explaining.many.finding import is_capture
from whydrop.formats import kinds
from whydrop.recording.document import FILE_NAME
from whydrop.web.library.links import leads_out

# ``other`` is not listed.
Kind = Literal["recording", "capture", "store", "file", "other"]

# What is called so is meant to be of this kind: where it is damaged, its user is to hear of it.
_NAMED_TESTS = re.compile(r".\.(flent|flnt)(\.(gz|bz2|xz))?", re.IGNORECASE | re.DOTALL)
_NAMED_CAPTURES = re.compile(r".*\.(pcap|pcapng|cap)[0-9]*(\.(gz|zst|xz|lz4|bz2))?", re.IGNORECASE | re.DOTALL)


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


@dataclass
class Looked:
    """Findings of a look at a folder beside its entries.

    Attributes:
        others: files that are not listed, by path: those that did not change are not opened again.
        problems: folders that cannot be read, with the reason.
    """

    others: dict[str, Candidate] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def candidates(
    root: Path, known: Mapping[str, Candidate] | None = None, looked: Looked | None = None
) -> Iterator[Candidate]:
    """All that lies below a folder; links to other folders are not followed, and hidden ones not entered.

    Args:
        root: the folder.
        known: by path, what an earlier call found: a file that did not change is not opened again.
        looked: what an earlier call found beside; it is brought up to date.
    """
    looked = looked or Looked()
    before, looked.others, looked.problems = {**looked.others, **(known or {})}, {}, []
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        except OSError as reason:
            looked.problems.append(f"{root / folder}: {reason.strerror or reason}")
            continue
        names = {entry.name for entry in entries}
        for marker, kind in _FOLDERS.items():
            if marker in names and folder:
                yield from _stamped(root, root / folder / marker, folder, kind)
        is_entered = not (folder and names & _FOLDERS.keys())
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if is_entered:
                    waiting.append(path)
            elif entry.name not in _FOLDERS and is_entered:
                yield from _file(root, entry, path, before, looked)


# The file that makes a folder one thing, and the kind of it.
_FOLDERS: dict[str, Kind] = {FILE_NAME: "recording", "whydrop-store.json": "store"}


def as_shown(path: str) -> str:
    """A path as text: bytes of a name that are no UTF-8 are written as such; nothing can be opened by it then."""
    return path.encode("utf-8", "backslashreplace").decode()


def _stamped(root: Path, marker: Path, path: str, kind: Kind) -> Iterator[Candidate]:
    try:
        if marker.is_symlink() and leads_out(root, marker):
            return
        found = marker.stat()
    except OSError:
        return
    yield Candidate(as_shown(path), kind, found.st_size, found.st_mtime_ns)


def _file(
    root: Path, entry: os.DirEntry[str], path: str, before: Mapping[str, Candidate], looked: Looked
) -> Iterator[Candidate]:
    shown = as_shown(path)
    try:
        if not entry.is_file() or (entry.is_symlink() and leads_out(root, root / path)):
            return
        found = entry.stat()
    except OSError:
        return
    last = before.get(shown)
    if last is not None and (last.size_bytes, last.changed_ns) == (found.st_size, found.st_mtime_ns):
        kind = last.kind
    else:
        kind = _kind(entry.path)
    candidate = Candidate(shown, kind, found.st_size, found.st_mtime_ns)
    if kind == "other":
        looked.others[shown] = candidate
    else:
        yield candidate


def candidate(root: Path, path: Path) -> Candidate | None:
    """One file or folder below a folder; ``None`` if it is of no kind that is listed."""
    shown = as_shown(str(path.relative_to(root)))
    for marker, kind in _FOLDERS.items():
        for found in _stamped(root, path / marker, shown, kind):
            return found
    if not path.is_file():
        return None
    status, kind = path.stat(), _kind(str(path))
    return None if kind == "other" else Candidate(shown, kind, status.st_size, status.st_mtime_ns)


def _kind(path: str) -> Kind:
    """The kind of a file by its content; by its name where the content cannot be read."""
    name = os.path.basename(path)  # noqa: PTH119 (called for each of thousands of files)
    try:
        if is_capture(Path(path)):
            return "capture"
        return "file" if kinds.is_recording(path) or is_named_test(name) else "other"
    except OSError:
        if _NAMED_CAPTURES.fullmatch(name):
            return "capture"
        return "file" if is_named_test(name) else "other"


def is_named_test(name: str) -> bool:
    """True if a file is called as Flent calls its files."""
    return bool(_NAMED_TESTS.search(name))
