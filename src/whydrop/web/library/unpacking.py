"""ZIP archives that pages send: recordings, which are folders, and what this page hands on as one file."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from whydrop.errors import Error
from whydrop.web.library.describing_pool import Described, describe_all
from whydrop.web.library.finding import candidates

_MOST_FILES = 20_000
_DEEPEST = 20
_CHUNK = 1 << 20


class ArchiveError(Error):
    """An archive cannot be unpacked; the message says why."""


def is_archive(path: Path) -> bool:
    """True if a file is a ZIP archive."""
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04" and zipfile.is_zipfile(file)


def unpacked_bytes(path: Path) -> int:
    """The size of everything in an archive, as it says.

    Raises:
        ArchiveError: it is damaged, or has too many files.
    """
    with _opened(path) as archive:
        return sum(one.file_size for one in _members(archive))


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError) as reason:
        raise ArchiveError(f"a damaged ZIP archive: {reason}") from None


def _members(archive: zipfile.ZipFile) -> Sequence[zipfile.ZipInfo]:
    members = [one for one in archive.infolist() if not one.is_dir()]
    if len(members) > _MOST_FILES:
        raise ArchiveError(f"a ZIP archive of {len(members)} files; expected at most {_MOST_FILES}")
    return members


def unpack(path: Path, folder: Path, most_bytes: int) -> Described:
    """Unpack an archive into a new folder, and describe what is there to list.

    Args:
        path: the archive.
        folder: it is removed again if anything is wrong.
        most_bytes: more than these are not written, whatever the archive says.

    Raises:
        ArchiveError: it is damaged, encrypted, leads out of the folder, or holds nothing that can be opened.
    """
    folder.mkdir()
    try:
        with _opened(path) as archive:
            left = most_bytes
            for member in _members(archive):
                left -= _write(archive, member, folder, left)
        described = describe_all(folder, list(candidates(folder)))
        if all(words is None or words.problem for _, words in described):
            problems = [f": {one.path}: {words.problem}" for one, words in described if words]
            why = problems[0] if problems else ""
            raise ArchiveError(f"a ZIP archive without a capture or a recording that can be opened{why}")
        return described
    except BaseException as reason:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(reason, (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError)):
            # RuntimeError is that of a password.
            raise ArchiveError(f"a ZIP archive that cannot be read: {reason}") from None
        raise


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path, most_bytes: int) -> int:
    target = folder.joinpath(*_parts(member))
    target.parent.mkdir(parents=True, exist_ok=True)
    written = 0
    try:
        with archive.open(member) as source, target.open("xb") as file:
            while chunk := source.read(_CHUNK):
                written += len(chunk)
                if written > most_bytes:
                    raise ArchiveError("a ZIP archive that holds more than it says, or more than may be kept")
                file.write(chunk)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise ArchiveError(f"a ZIP archive with two files of one name: {member.filename[:80]!r}") from None
    return written


def _parts(member: zipfile.ZipInfo) -> tuple[str, ...]:
    """The path of a file in an archive, checked."""
    name = member.filename
    parts = PurePosixPath(name).parts
    is_link = stat.S_ISLNK(member.external_attr >> 16)
    if is_link or not parts or name.startswith("/") or ".." in parts or len(parts) > _DEEPEST or "\0" in name:
        raise ArchiveError(f"a ZIP archive with a link, or a path that leads out of it: {name[:80]!r}")
    if any(len(part.encode("utf-8", "replace")) > 255 for part in parts):
        raise ArchiveError(f"a ZIP archive with a name that is too long: {name[:80]!r}")
    return parts
