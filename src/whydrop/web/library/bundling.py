"""Several entries as one file: a ZIP archive that is made while it is sent."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from whydrop.web.library.finding import as_shown

_CHUNK = 1 << 18


class _Sink:
    """Bytes that were written and are not yet sent."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: bytes) -> int:
        self._parts.append(bytes(part))
        return len(part)

    def flush(self) -> None:
        """Nothing is kept from the reader."""

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def archive(entries: Sequence[tuple[str, Path]]) -> Iterator[bytes]:
    """The pieces of an archive.

    Args:
        entries: each with its path in the archive, and its file or folder. Links within a folder are left out: they
            could lead out of it.
    """
    sink = _Sink()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as made:  # type: ignore[call-overload]
        for name, path in entries:
            for inside, file in _files(name, path):
                about = zipfile.ZipInfo(inside, _time(file))
                with file.open("rb") as source, made.open(about, "w", force_zip64=True) as target:
                    while chunk := source.read(_CHUNK):
                        target.write(chunk)
                        yield sink.taken()
    yield sink.taken()


def _time(file: Path) -> tuple[int, int, int, int, int, int]:
    """The last change, in the years that ZIP knows."""
    import time

    found = time.gmtime(file.stat().st_mtime)[:6]
    return min(max(found, (1980, 1, 1, 0, 0, 0)), (2107, 12, 31, 23, 59, 58))


def _files(name: str, path: Path) -> Iterator[tuple[str, Path]]:
    if not path.is_dir():
        yield name, path
        return
    for folder, folders, files in os.walk(path):
        folders.sort()
        for one in sorted(files):
            file = Path(folder, one)
            if file.is_file() and not file.is_symlink():
                yield as_shown(f"{name}/{file.relative_to(path)}"), file
