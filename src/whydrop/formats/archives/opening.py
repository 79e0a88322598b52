"""Opening files and archives by their first bytes, whatever their names say: gzip, zstd, tar, or neither.

Members of archives are given one after the other, unpacked in memory up to a limit; nothing is written to disk.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from whydrop.formats.archives import tarring
from whydrop.formats.archives.streams import GZIP, ZSTD, Buffered, Gunzip, Plain, Stream, Unzstd
from whydrop.recording.errors import RecordingError

# The largest real member (ten minutes of tcp-info, 100 snapshots a second) unpacks to some 60 MiB.
MOST_MEMBER_BYTES = 256 << 20
# What a whole file may unpack to: archives of text shrink to a tenth, a bomb to a thousandth and less.
MOST_FILE_BYTES = 4 << 30
MOST_TIMES_SIZE = 100
_MOST_LAYERS = 3  # tar in gzip, and its member in zstd: more is a bomb


@dataclass(frozen=True)
class Member:
    """A file, or a file in an archive, its content unpacked as far as it could be."""

    name: str  # path in the archive; of a plain file its own name
    content: bytes
    damage: str | None = None  # why the content ends where it does, if not by itself
    archived: bool = True


def members(path: Path, wanted: Callable[[str], bool] | None = None) -> Iterator[Member]:
    """The files in an archive in order, all or those that are ``wanted`` by name; a plain file is its only member.

    Where the archive itself is damaged, a member without a name and content says so; what could be read of the others
    is given.

    Raises:
        RecordingError: the file cannot be opened.
    """
    try:
        file = path.open("rb")
        size = path.stat().st_size
    except OSError as reason:
        raise RecordingError(f"{printed(path)}: {reason.strerror or reason}") from reason
    with file:
        stream = _unpacked(file, MOST_FILE_BYTES + MOST_TIMES_SIZE * size)
        if tarring.is_tar(stream.peek(1024)):
            yield from _of_tar(stream, wanted)
            return
        content = stream.read(MOST_MEMBER_BYTES)
        more = "more than {} MiB unpacked: the rest was not read" if stream.peek(1) else None
        damage = more.format(MOST_MEMBER_BYTES >> 20) if more else stream.damage
        yield _unpacked_member(printed(Path(path.name)), content, damage, archived=False)


def _of_tar(stream: Buffered, wanted: Callable[[str], bool] | None) -> Iterator[Member]:
    for entry in tarring.entries(stream):
        if isinstance(entry, tarring.Gap):
            yield Member("", b"", entry.damage)
        elif wanted is None or wanted(entry.name):
            content = stream.read(min(entry.size, MOST_MEMBER_BYTES))
            damage = None
            if entry.size > MOST_MEMBER_BYTES:
                damage = f"{entry.size} bytes: more than {MOST_MEMBER_BYTES >> 20} MiB, the rest was not read"
            elif len(content) < entry.size:
                damage = (
                    f"ends after {len(content)} of {entry.size} bytes: {stream.damage or 'the archive was cut off'}"
                )
            yield _unpacked_member(entry.name, content, damage)


def _unpacked_member(name: str, content: bytes, damage: str | None, *, archived: bool = True) -> Member:
    for _ in range(_MOST_LAYERS):
        if not content.startswith((GZIP, ZSTD)):
            break
        stream = Buffered(_layer(io.BytesIO(content)), MOST_MEMBER_BYTES)
        content = stream.read(MOST_MEMBER_BYTES)
        stream.peek(1)
        # Damage of what is packed shows as damage within; the first cause says more.
        damage = damage or stream.damage
    return Member(name, content, damage, archived)


def _unpacked(file: IO[bytes], most: int) -> Buffered:
    """The file without its compression; layer by layer, as each layer's first bytes say."""
    stream = Buffered(_layer(file), most)
    for _ in range(_MOST_LAYERS - 1):
        if not stream.peek(4).startswith(GZIP):
            # zstd within a compressed file is unpacked in memory with the member's content.
            break
        stream = Buffered(Gunzip(stream), most)
    return stream


def _layer(file: IO[bytes]) -> Stream:
    head = file.read(4)
    file.seek(0)
    if head.startswith(GZIP):
        return Gunzip(Plain(file))
    return Unzstd(file) if head.startswith(ZSTD) else Plain(file)


def label(path: Path, member: Member) -> str:
    """How a member is called in messages: ``archive.tgz: path/in/it``."""
    return f"{printed(path)}: {member.name}" if member.archived else printed(path)


def printed(path: Path) -> str:
    """A path as text that every encoding takes: names on disk may be no UTF-8."""
    return str(path).encode(errors="backslashreplace").decode()
