"""Files that a page sends: they are kept below one folder, under names that are made harmless, within limits."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO

import anyio
import anyio.to_thread

from whydrop.web.endpoints import RequestError

_LONGEST_NAME = 120
# Each upload has a folder of its own, so that files of one name are kept beside each other.
_OWN_FOLDER = re.compile(r"[0-9a-f]{16}")
# The disk is looked at after as many bytes; other programs fill it too.
_LOOK_BYTES = 64 << 20
# Thousands of files take a while to look at, and other programs put few into this folder.
_LOOK_S = 10.0


@dataclass(frozen=True)
class Limits:
    """Bounds of what pages may send.

    Attributes:
        file_bytes: the most of one file.
        total_bytes: the most of everything in the folder: uploads, and recordings of tests.
        free_bytes: what stays free on the disk.
        at_once: uploads that go on at a time.
        silence_s: longest time without any bytes of a file.
    """

    file_bytes: int = 8 << 30
    total_bytes: int = 64 << 30
    free_bytes: int = 1 << 30
    at_once: int = 16
    silence_s: float = 60.0


def harmless(name: str) -> str:
    """The last part of a file's name with letters, digits, dots, dashes and underlines only.

    >>> harmless("../../etc/passwd"), harmless("C:\\\\dir\\\\a b.pcap"), harmless(".."), harmless("x" * 500)[:3]
    ('passwd', 'a-b.pcap', 'file', 'xxx')
    """
    last = PureWindowsPath(PurePosixPath(name).name).name
    made = re.sub(r"[^\w.-]+", "-", last, flags=re.ASCII).strip(".-")
    # The end says what is in it.
    return made[-_LONGEST_NAME:].lstrip(".-") or "file"


class Uploads:
    """The folder of what pages send."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        """Remove what earlier servers left unfinished in ``folder``.

        Raises:
            OSError: it cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.limits = limits or Limits()
        # Of all files that were kept since the start.
        self.received_bytes = 0
        # The size of everything else in the folder, and when that was looked at.
        self._seen_bytes, self._looked_s = 0, -math.inf
        # Of those that are coming: what was announced of each, or has come.
        self._coming: dict[Path, int] = {}
        _remove_unfinished(self.folder)

    async def keep(self, content: AsyncIterator[bytes], name: str, announced_bytes: int = 0) -> Path:
        """Write a file as it comes; what is not whole is removed.

        Args:
            content: its bytes.
            name: as its sender calls it.
            announced_bytes: its length, where the sender says it.

        Raises:
            RequestError: it is longer than allowed, or empty, the disk is full, or no more bytes come.
        """
        if len(self._coming) >= self.limits.at_once:
            raise RequestError(f"{len(self._coming)} files are being sent: try again when one has ended", 503)
        target = self.folder / secrets.token_hex(8) / harmless(name)
        self._coming[target] = announced_bytes
        try:
            await self._check(target, announced_bytes)
            await self._receive(content, target)
        except OSError as reason:
            raise RequestError(f"the file could not be kept: {reason.strerror or reason}", 507) from reason
        finally:
            del self._coming[target]
        return target

    async def _receive(self, content: AsyncIterator[bytes], target: Path) -> None:
        partial = target.with_name(f".{target.name}.part")
        try:
            await anyio.to_thread.run_sync(target.parent.mkdir)
            with partial.open("xb") as file:
                # A server that starts meanwhile sees by the lock that this file is no leftover.
                fcntl.flock(file, fcntl.LOCK_EX)
                size = await self._write(content, target, file)
                if not size:
                    raise RequestError("the file is empty")
                await anyio.to_thread.run_sync(partial.rename, target)
            self.received_bytes += size
        finally:
            if not target.exists():
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)
                    target.parent.rmdir()

    async def _write(self, content: AsyncIterator[bytes], target: Path, file: BinaryIO) -> int:
        size, looked_at = 0, 0
        async for chunk in _without_silence(content, self.limits.silence_s):
            size += len(chunk)
            self._coming[target] = max(self._coming[target], size)
            if size > self.limits.file_bytes or size - looked_at >= _LOOK_BYTES:
                looked_at = size
                await self._check(target, size)
            await anyio.to_thread.run_sync(file.write, chunk)
        # What was sent without an announced length, and is short, is counted here.
        await self._check(target, size)
        return size

    async def require_room(self, size: int) -> None:
        """Refuse what would be written beside the files that are sent if it is over a limit.

        Raises:
            RequestError: it is.
        """
        await self._check(self.folder / "unpacked", size)

    async def _check(self, target: Path, size: int) -> None:
        """Refuse a file of this size if it is over a limit."""
        limits = self.limits
        if size > limits.file_bytes:
            raise RequestError(f"the file is longer than {_words(limits.file_bytes)}", 413)
        kept, free = await anyio.to_thread.run_sync(lambda: (self._kept_bytes(), _free_bytes(self.folder)))
        if kept + sum(self._coming.values()) > limits.total_bytes:
            raise RequestError(
                f"{self.folder.name} would hold more than {_words(limits.total_bytes)}: remove files from it", 507
            )
        if free - limits.free_bytes < size - _size(target.with_name(f".{target.name}.part")):
            raise RequestError(
                f"the disk has {_words(free)} left, and {_words(limits.free_bytes)} must stay free: remove files", 507
            )

    def _kept_bytes(self) -> int:
        """The size of everything in the folder: as of the last look, with what was sent since."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s, self._seen_bytes = now_s, _bytes_within(self.folder) - self.received_bytes
        return self._seen_bytes + self.received_bytes


async def _without_silence(content: AsyncIterator[bytes], longest_s: float) -> AsyncIterator[bytes]:
    """The same pieces; a sender that falls silent is refused."""
    while True:
        with anyio.move_on_after(longest_s) as waited:
            try:
                chunk = await anext(content)
            except StopAsyncIteration:
                return
        if waited.cancelled_caught:
            raise RequestError(f"no bytes of the file came for {longest_s:g} s", 408)
        yield chunk


def _remove_unfinished(folder: Path) -> None:
    """Remove partial files of servers that were killed, with their folders; and nothing else."""
    for own in os.scandir(folder):
        if _OWN_FOLDER.fullmatch(own.name) and own.is_dir(follow_symlinks=False):
            for partial in _partial_files(Path(own.path)):
                with contextlib.suppress(OSError), partial.open("rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    partial.unlink()
            with contextlib.suppress(OSError):
                # Only if nothing is left in it.
                Path(own.path).rmdir()


def _partial_files(folder: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        if entry.name.startswith(".") and entry.name.endswith(".part") and entry.is_file(follow_symlinks=False):
            yield Path(entry.path)


def _bytes_within(folder: Path) -> int:
    """The size of all files; those that are being written are counted by what is announced of them."""
    return sum(
        _size(Path(place, name)) for place, _, names in os.walk(folder) for name in names if not name.endswith(".part")
    )


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _words(size: int) -> str:
    """A size for people.

    >>> _words(8 << 30), _words(1500)
    ('8.0 GiB', '1500 bytes')
    """
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 28 else f"{size} bytes"
