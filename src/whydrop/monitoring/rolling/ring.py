"""A ring of pcapng files on disk: the packets of the last seconds, bounded in time and in bytes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from whydrop.errors import Error
from whydrop.monitoring.rolling import pcapng

# A ring loses a segment at a time.
_SEGMENTS = 10
# Locked while a ring is in use; its folder is removed when it is not.
_LOCK = "lock"
_SHORTEST_NS = 200_000_000


class FullError(Error):
    """The disk does not take more; what it holds stays."""


@dataclass
class Segment:
    """A file of the ring.

    Attributes:
        first_ns, last_ns: the time of its first packet, and of its last.
        size_bytes: of whole packets; there may be a part of one behind them.
    """

    path: Path
    first_ns: int
    last_ns: int
    size_bytes: int
    packets: int = 0


class Ring:
    """Segments in a folder, the oldest of which are removed. Use it from one thread.

    Attributes:
        unwritten: packets that the disk did not take.
        problem: why it does not take any at this moment; empty if it does.
    """

    def __init__(self, folder: Path, head: bytes, *, seconds: float, most_bytes: int) -> None:
        """Begin in a folder of its own; ``head`` is the begin of each file."""
        self._folder = folder
        self._lock = (folder / _LOCK).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._head = head
        self._most_ns = round(seconds * 1e9)
        self._segment_ns = max(_SHORTEST_NS, self._most_ns // _SEGMENTS)
        self._most_bytes = most_bytes
        self._segments: deque[Segment] = deque()
        self._file: IO[bytes] | None = None
        self._number = 0
        self.unwritten = 0
        self.problem = ""

    @property
    def size_bytes(self) -> int:
        """Bytes buffered."""
        return sum(one.size_bytes for one in self._segments)

    @property
    def packets(self) -> int:
        """Packets buffered."""
        return sum(one.packets for one in self._segments)

    @property
    def buffered_s(self) -> float:
        """Seconds from the first buffered packet to the last."""
        if not self._segments:
            return 0.0
        return max(0, self._segments[-1].last_ns - self._segments[0].first_ns) / 1e9

    def write(self, packets: Sequence[tuple[int, bytes, int]]) -> None:
        """Add packets; where the disk is full they are counted instead."""
        if not packets:
            return
        last_ns = packets[-1][0]
        self.expire(last_ns)
        blocks = b"".join(pcapng.packet(*one) for one in packets)
        try:
            segment = self._open(packets[0][0], len(blocks))
            assert self._file is not None
            # Not buffered: what was written is in the file, and a part of it can be cut off again.
            _write_all(self._file, blocks)
        except OSError as reason:
            self._give_up(reason, len(packets))
            return
        self.problem = ""
        segment.last_ns = max(segment.last_ns, last_ns)
        segment.size_bytes += len(blocks)
        segment.packets += len(packets)
        self._shrink()

    def _open(self, first_ns: int, wanted_bytes: int) -> Segment:
        """The segment that takes what comes next."""
        if self._file is not None:
            newest = self._segments[-1]
            is_over = not 0 <= first_ns - newest.first_ns < self._segment_ns
            if not is_over and newest.size_bytes + wanted_bytes <= max(self._most_bytes // _SEGMENTS, 1):
                return newest
            self.finish()
        self._number += 1
        path = self._folder / f"{self._number:08}.pcapng"
        # Others must not read what this host sends and receives.
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
        self._segments.append(Segment(path, first_ns, first_ns, 0))
        _write_all(self._file, self._head)
        self._segments[-1].size_bytes = len(self._head)
        return self._segments[-1]

    def _give_up(self, reason: OSError, count: int) -> None:
        self.problem = f"{reason.strerror} ({self._folder})"
        self.unwritten += count
        if self._file is not None:
            os.ftruncate(self._file.fileno(), self._segments[-1].size_bytes)
        self.finish()

    def finish(self) -> None:
        """End the newest segment; the next packets begin another."""
        if self._file is not None:
            self._file.close()
            self._file = None
            if not self._segments[-1].packets:
                self._segments.pop().path.unlink(missing_ok=True)

    def expire(self, now_ns: int) -> None:
        """Remove the segments with no packet that is young enough."""
        while self._segments and self._segments[0].last_ns < now_ns - self._most_ns:
            self._remove_oldest()

    def _shrink(self) -> None:
        while len(self._segments) > 1 and self.size_bytes > self._most_bytes:
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        if len(self._segments) == 1:
            self.finish()
        if self._segments:
            self._segments.popleft().path.unlink(missing_ok=True)

    def keep(self, since_ns: int, place: Path) -> list[Path]:
        """Give further names to the segments since a moment, which takes no time and no room; see :func:`joined`.

        Returns:
            Files beside ``place``, in order; none if no packet was captured since then.

        Raises:
            FullError: the files cannot be kept.
        """
        self.finish()
        wanted = [one for one in self._segments if one.last_ns >= since_ns]
        names = [place.with_name(f"{place.stem}-{number}.pcapng") for number in range(1, len(wanted) + 1)]
        try:
            for one, name in zip(wanted, names, strict=True):
                os.link(one.path, name)
        except OSError as reason:
            for name in names:
                name.unlink(missing_ok=True)
            raise FullError(f"the capture cannot be kept in {place.parent}: {reason.strerror}") from reason
        return names

    def close(self) -> None:
        """Remove everything."""
        self.finish()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()


def _write_all(file: IO[bytes], data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def remove_abandoned(folders: Iterable[Path]) -> None:
    """Remove the rings of processes that were killed: they hold what others sent and received."""
    for folder in folders:
        with contextlib.suppress(OSError), (folder / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def joined(parts: Sequence[Path], place: Path, head_bytes: int) -> list[Path]:
    """Join kept segments to one file; where the disk has no room for that, they stay as they are."""
    try:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            for number, one in enumerate(parts):
                with one.open("rb") as segment:
                    # All have the same head: the file needs one.
                    segment.seek(head_bytes if number else 0)
                    shutil.copyfileobj(segment, out, 1 << 20)
    except OSError:
        place.unlink(missing_ok=True)
        return list(parts)
    for one in parts:
        one.unlink(missing_ok=True)
    return [place]
