"""Reading tar as a stream (POSIX.1-2001 ustar and pax, GNU's long names), past damaged headers.

Python's own reader ends silently at a damaged header; here such a header is reported, and the next valid one searched
for: one damaged member does not cost those behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from whydrop.formats.archives.streams import Buffered

_BLOCK = 512
_FILES, _LONG_NAME, _PAX = b"0\x007", b"L", b"x"
_MOST_NAME = 1 << 16
_LARGEST = 1 << 62
# Archives end with zeros up to a full record, seldom more than 10 KiB. Beyond this, zeros are a bomb.
_MOST_PADDING = 1 << 20


@dataclass(frozen=True)
class Entry:
    """A file in the archive; its content is next in the stream, and need not be taken."""

    name: str
    size: int
    offset: int  # of its header


@dataclass(frozen=True)
class Gap:
    """Bytes that are no part of any file."""

    damage: str


@dataclass(frozen=True)
class _Header:
    name: bytes
    size: int
    kind: bytes


def is_tar(head: bytes) -> bool:
    """True if a file that begins with these (512 or more) bytes is a tar archive, if perhaps an empty one."""
    return _header(head[:_BLOCK]) is not None or (len(head) >= 2 * _BLOCK and not any(head))


def entries(stream: Buffered) -> Iterator[Entry | Gap]:
    """The files of an archive in order; the content of each may be read from ``stream`` before asking for the next."""
    name: str | None = None
    size: int | None = None
    while True:
        offset = stream.offset
        block = stream.read(_BLOCK)
        if len(block) < _BLOCK:
            yield Gap(stream.damage or f"at offset {offset}: the archive has no end mark: members may be missing")
            return
        if not any(block):
            if _padding(stream):
                return
            continue
        header = _header(block)
        if header is None:
            lost = _to_next_header(stream)
            yield Gap(f"no header of tar at offset {offset}: {_BLOCK + lost} bytes, up to the next one, were left out")
            name = size = None
            continue
        if header.kind in (_LONG_NAME, _PAX):
            content = stream.read(header.size) if header.size <= _MOST_NAME else b""
            stream.skip(_padded(header.size) - len(content))
            if header.kind == _LONG_NAME:
                name = content.partition(b"\0")[0].decode(errors="backslashreplace")
            else:
                name, size = _pax(content, name, size)
            continue
        entry = Entry(name or header.name.decode(errors="backslashreplace"), size or header.size, offset)
        name = size = None
        end = stream.offset + _padded(entry.size)
        if header.kind in _FILES:
            yield entry
        stream.skip(end - stream.offset)


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _padding(stream: Buffered) -> bool:
    """Skip zeros; whether the archive ends with them. (Archives put one behind the other go on.)"""
    skipped = _BLOCK
    while skipped < _MOST_PADDING:
        block = stream.peek(_BLOCK)
        if len(block) < _BLOCK:
            return True
        if any(block):
            # GNU tar ignores what follows two blocks of zeros, unless it is asked not to; an archive goes on there.
            return _header(block) is None and skipped >= 2 * _BLOCK
        skipped += stream.skip(_BLOCK)
    return True


def _to_next_header(stream: Buffered) -> int:
    skipped = 0
    while len(block := stream.peek(_BLOCK)) == _BLOCK:
        # Content may look like an old header without a magic; the sum alone is too weak here.
        if _header(block) is not None and block[257:262] == b"ustar":
            break
        skipped += stream.skip(_BLOCK)
    return skipped


def _header(block: bytes) -> _Header | None:
    """The fields of a header with a correct checksum; None of anything else."""
    if len(block) < _BLOCK or not block[0]:
        return None
    stated = _number(block[148:156])
    if stated is None or stated != sum(block) - sum(block[148:156]) + 8 * 0x20:
        return None
    size = _number(block[124:136])
    kind = block[156:157]
    if size is None or not 0 <= size <= _LARGEST:
        return None
    if kind in b"123456":  # links, devices, folders: whatever the size says, no content follows
        size = 0
    name = block[:100].partition(b"\0")[0]
    prefix = block[345:500].partition(b"\0")[0] if block[257:263] == b"ustar\0" else b""
    return _Header(prefix + b"/" + name if prefix else name, size, kind)


def _number(field: bytes) -> int | None:
    """A number in octal, or in base 256 where the first bit is set (GNU)."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big") if field[0] == 0x80 else None
    digits = field.strip(b" \0")
    if not all(digit in b"01234567" for digit in digits):
        return None
    return int(digits, 8) if digits else 0


def _pax(content: bytes, name: str | None, size: int | None) -> tuple[str | None, int | None]:
    """Name and size from pax's records ``length key=value``, as far as they can be read."""
    while content:
        length, blank, _ = content.partition(b" ")
        if not blank or not length.isdigit() or len(length) > 6 or not len(length) < int(length) <= len(content):
            break
        key, _, value = content[len(length) + 1 : int(length)].removesuffix(b"\n").partition(b"=")
        if key == b"path":
            name = value.decode(errors="backslashreplace")
        elif key == b"size" and value.isdigit() and len(value) < 19:
            size = int(value)
        content = content[int(length) :]
    return name, size
