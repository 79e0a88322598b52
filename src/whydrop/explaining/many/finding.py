"""Captures among files: known by what they begin with, plain or compressed, whatever they are called."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from whydrop.formats.kinds import OF_CAPTURES
from whydrop.runtime import extras


def _by_pyarrow(compression: str) -> Callable[[IO[bytes]], Any]:
    def opened(file: IO[bytes]) -> Any:
        extras.need("store")
        import pyarrow

        return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), compression)

    return opened


# What is called so is meant to be a capture: where it is none, or damaged from its beginning, its operator is to hear
# of it. tcpdump -C puts numbers behind the names.
_NAMED_CAPTURE = re.compile(r"\.(pcap|pcapng|cap)[0-9]*(\.(gz|zst|xz|lz4|bz2))?", re.IGNORECASE)

_COMPRESSED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", lambda file: gzip.GzipFile(fileobj=file)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
    (b"\x28\xb5\x2f\xfd", _by_pyarrow("zstd")),
    (b"\x04\x22\x4d\x18", _by_pyarrow("lz4")),
)


@dataclass
class Found:
    """Captures to explain, and how many files of the folders are none."""

    paths: list[Path] = field(default_factory=list)
    other_files: int = 0
    unreadable: list[str] = field(default_factory=list)  # sentences: the path, and why


def is_capture(path: Path) -> bool:
    """True if a file begins as a capture does, or holds, compressed, what begins so; or is called as captures are.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        if _NAMED_CAPTURE.fullmatch("".join(path.suffixes[-2:])) or _NAMED_CAPTURE.fullmatch(path.suffix):
            return True
        head = file.read(6)
        if head.startswith(OF_CAPTURES):
            return True
        opener = next((opener for magic, opener in _COMPRESSED if head.startswith(magic)), None)
        if opener is None:
            return False
        file.seek(0)
        try:
            return bytes(opener(file).read(4)).startswith(OF_CAPTURES)
        except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError):
            return False


def captures(given: Sequence[str | os.PathLike[str]]) -> Found:
    """The captures that are meant: files, all captures of folders and of what is below them, and ``@LIST`` files.

    A file that is named is taken for a capture whatever it holds; a list names one path in each line, relative to the
    current folder, as ``find`` prints them. A capture that is named twice, or found below two folders, is meant once.
    What cannot be read of a folder is listed, and stops nothing.

    Raises:
        OSError: a list cannot be read, or a file that is named is not there.
    """
    found = Found()
    seen: set[tuple[int, int]] = set()
    for path in _named(given):
        for one in _files(path, found) if path.is_dir() else (path,):
            try:
                status = one.stat()
            except OSError as reason:
                if one == path:
                    raise
                found.unreadable.append(f"{one}: {reason.strerror or reason}")
                continue
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            _sort(one, found, named=one == path)
    return found


def _sort(path: Path, found: Found, *, named: bool) -> None:
    try:
        if named or is_capture(path):
            found.paths.append(path)
        else:
            found.other_files += 1
    except OSError as reason:
        found.unreadable.append(f"{path}: {reason.strerror or reason}")


def _named(given: Sequence[str | os.PathLike[str]]) -> Iterator[Path]:
    for one in given:
        text = os.fspath(one)
        if text.startswith("@") and not os.path.lexists(text):
            listed = Path(text[1:]).read_bytes().split(b"\n")
            yield from (Path(os.fsdecode(line)) for line in listed if line.strip())
        else:
            yield Path(text)


def _files(folder: Path, found: Found) -> Iterator[Path]:
    """Regular files below a folder, in order; links to folders are not followed: they may lead in circles."""

    def unreadable(reason: OSError) -> None:
        found.unreadable.append(f"{reason.filename}: {reason.strerror or reason}")

    for inside, folders, names in os.walk(folder, onerror=unreadable):
        folders.sort()
        yield from filter(_is_file, (Path(inside, name) for name in sorted(names)))


def _is_file(path: Path) -> bool:
    """True if it is a regular file, or a link that leads nowhere, of which the user is to hear."""
    try:
        return path.is_file() or (path.is_symlink() and not path.exists())
    except OSError:
        return True
