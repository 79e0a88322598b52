"""Keeps what was read: Parquet by the hour in a store, and a journal of the hour that is still going on.

A reading is safe within a minute: it goes into the journal (`journal`), which is on the disk before the next minute is
over. When the hour is over its rows become a part of the store, sorted and compressed, and then the journal goes. A
collector that was killed takes its journal up again when it starts.

All that waits for a disk is done by a thread of its own, so that no poll is late because of it. Where the disk does not
take the rows they wait in memory, up to a limit.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import re
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl

from whydrop.collect.switches import journal, memory
from whydrop.collect.switches.background import PATIENCE_S, Background, Order
from whydrop.collect.switches.journal import HOUR_NS, Journal
from whydrop.collect.switches.memory import Remembered
from whydrop.collect.switches.reading import Reading
from whydrop.collect.switches.schedule import Clock, SystemClock
from whydrop.recording.errors import RecordingError
from whydrop.store import parts, tables
from whydrop.store.store import DESCRIPTION, Store

MINUTE_NS = 60_000_000_000
FOLDER = memory.COLLECTING
# Readings of the last seconds of an hour may come after it.
_GRACE_NS = MINUTE_NS
# So many rows are sorted in memory at once (some 100 MiB with all copies); an hour with more becomes several parts.
_ROWS_OF_PART = parts.ROWS_OF_A_GROUP // 2
_MEMORY_BYTES = 256 * 2**20
# What could not be written waits in pieces of so many.
_ROWS_OF_PIECE = 10_000
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class KeepingError(RecordingError):
    """A collector cannot keep anything where it was told to; the message says why and what to do."""


class Keeper:
    """Keeps readings and samples of one collector in a store.

    Several collectors may write to one store, each under a label of its own.
    """

    def __init__(
        self,
        store_folder: str | os.PathLike[str],
        host_label: str,
        *,
        say: Callable[[str], None] | None = None,
        memory_bytes: int = _MEMORY_BYTES,
        rows_of_part: int = _ROWS_OF_PART,
    ) -> None:
        """Open the store, and take up what a collector of this label has left there.

        Args:
            store_folder: a store, or where one is to be made.
            host_label: of this collector, part of its files' names: letters, digits, ``.``, ``_`` and ``-``.
            say: takes one line about what the operator must know; the default writes it to stderr.
            memory_bytes: how much may wait for a disk that is full.
            rows_of_part: the most that a Parquet file shall hold.

        Raises:
            KeepingError: the label would not do, or another collector keeps under it.
            RecordingError: the store cannot be opened.
        """
        if not _LABEL.fullmatch(host_label):
            raise KeepingError(f"label {host_label!r}: expected up to 64 letters, digits, '.', '_' or '-'")
        self._say = say or _to_stderr
        self._label, self._memory_bytes, self._rows_of_part = host_label, memory_bytes, rows_of_part
        self._store = Store.create(store_folder)
        local = self._store.files.local
        if local is None:
            raise KeepingError(
                f"{os.fspath(store_folder)}: a collector keeps in a folder of its own machine, where its journal is. "
                "Name a folder, and copy what it holds"
            )
        self._folder = local / FOLDER / host_label
        self._descriptor = _lock(self._folder, host_label)
        self._journals = {(one.table, one.hour): one for one in journal.found_in(self._folder)}
        self._latest: dict[str, pl.DataFrame | Reading] = dict(memory.read(self._folder))
        self._guard = threading.Lock()
        self._waiting: list[tuple[str, pl.DataFrame]] = []
        self._polls: list[tuple[object, ...]] = []
        self._bytes = self._lost = 0
        self._minute: int | None = None
        self._trouble = ""
        self._closed = False
        self._disk = Background("whydrop keeping", self._carry_out, self._failed, PATIENCE_S)

    @property
    def folder(self) -> Path:
        """For what this collector has to find again when it starts anew; nobody else writes there."""
        return self._folder

    def remembered(self, clock: Clock | None = None) -> dict[str, Remembered]:
        """The last state of each switch known to the previous collector; call it before anything is kept.

        Of a switch of which the store has newer rows, nothing: what it grew by is known already.
        """
        frames = {switch: frame for switch, frame in self._latest.items() if isinstance(frame, pl.DataFrame)}
        clock = clock or SystemClock()
        found = memory.remembered(frames, clock.wall_ns(), clock.steady_ns())
        if not found:
            return {}
        try:
            newest = memory.newest_kept(self._folder.parent.parent, min(one.at.at_ns for one in found.values()))
        except (pl.exceptions.PolarsError, OSError):
            return {}  # Nobody knows what is in a part that cannot be read.
        return {switch: one for switch, one in found.items() if newest.get(switch, 0) <= one.at.at_ns}

    def keep(self, reading: Reading, samples: pl.DataFrame) -> None:
        """Take a poll, made or not, and the rows of ``counters`` that it gave."""
        poll = (reading.due_ns, reading.start_ns, reading.end_ns, reading.switch, reading.status, reading.message)
        with self._guard:
            self._polls.append(poll)
            self._bytes += 200
            if samples.height:
                self._waiting.append(("counters", samples))
                self._latest[reading.switch] = reading
                self._bytes += int(samples.estimated_size())
            if self._bytes > self._memory_bytes:
                self._drop_oldest()

    def tick(self, now_ns: int) -> None:
        """Let a minute's rows go to the disk when the minute is over; call it at least every few seconds.

        Args:
            now_ns: wall clock.
        """
        minute = now_ns // MINUTE_NS
        if minute != self._minute:
            self._disk.order(Order(now_ns))
        self._minute = minute

    def flush(self, now_ns: int | None = None) -> None:
        """Let everything go to the disk, and wait for it.

        Args:
            now_ns: wall clock, by which hours are over; ``None``: the hours stay as they are.
        """
        self._disk.wait(Order(now_ns))

    def close(self) -> None:
        """Put everything into the store, that of the hour that is going on too, and end.

        Raises:
            KeepingError: something that was read could not be written anywhere, and is lost.
        """
        if self._closed:
            return
        self._closed = True
        self._disk.wait(Order(last=True))
        os.close(self._descriptor)
        with self._guard:
            lost = self._lost + sum(frame.height for _, frame in self._waiting) + len(self._polls)
        if lost:
            raise KeepingError(f"{self._trouble}; {lost} samples and polls that waited in memory for it are lost")

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drop_oldest(self) -> None:
        """Forget what waited longest; the caller holds the guard."""
        before = self._lost
        while self._waiting and self._bytes > self._memory_bytes:
            _, frame = self._waiting.pop(0)
            self._bytes -= int(frame.estimated_size())
            self._lost += frame.height
        while self._polls and self._bytes > self._memory_bytes:
            self._polls.pop(0)
            self._bytes -= 200
            self._lost += 1
        if before == 0 and self._lost:
            self._say(
                f"{self._memory_bytes // 2**20} MiB of samples wait for the disk, no more will be held: "
                "the oldest are being lost"
            )

    def _failed(self, reason: BaseException) -> None:
        self._in_trouble(f"{type(reason).__name__}: {_one_line(reason)}")

    def _carry_out(self, order: Order) -> None:
        gone = self._folder_is_gone(order.last)
        trouble = gone or self._write_journals()
        for one in () if gone else list(self._journals.values()):
            over = order.now_ns is not None and (one.hour + 1) * HOUR_NS + _GRACE_NS <= order.now_ns
            if order.last or over or one.rows >= self._rows_of_part:
                trouble = self._put_into_store(one) or trouble
        if trouble and order.last:
            self._trouble = trouble  # which `close` tells, with what it costs
            if self._journals and not gone:
                self._say(f"{trouble}; what is in {self._folder} goes into the store when the collector starts again")
        elif trouble:
            self._in_trouble(trouble)
        elif self._trouble:
            lost = f"; {self._lost} samples were lost" if self._lost else ""
            self._say(f"the disk takes samples again{lost}")
            self._trouble, self._lost = "", 0

    def _in_trouble(self, what: str) -> None:
        if what != self._trouble:
            self._trouble = what
            limit = self._memory_bytes // 2**20
            self._say(f"{what}; what is read waits in memory (up to {limit} MiB) until there is room")

    def _folder_is_gone(self, last: bool) -> str:
        """Make the journals' folder anew where somebody removed it; return what prevents it.

        Where the whole store is gone its disk may not be mounted any more, and nothing shall be hidden under the place
        where it will be again. But in the end anything is better than to lose what waits.
        """
        if self._folder.is_dir():
            return ""
        store = self._store.files
        try:
            if not last and not store.exists(DESCRIPTION):
                return f"{store.shown}: the store is gone (removed, or its disk is no longer mounted)"
            self._store = Store.create(store)
            again = _lock(self._folder, self._label)
        except (OSError, RecordingError) as reason:
            return _one_line(reason)
        os.close(self._descriptor)
        self._descriptor = again
        self._say(f"{self._folder}: was removed; it was made again")
        return ""

    def _write_journals(self) -> str:
        """Make durable what waits; return what prevents it."""
        with self._guard:
            waiting, polls = self._waiting, self._polls
            self._waiting, self._polls, self._bytes = [], [], 0
            latest = dict(self._latest)
        if polls:
            waiting.append(("polls", pl.DataFrame(polls, schema=tables.POLLS, orient="row")))
        if any(table == "counters" for table, _ in waiting) and (trouble := self._remember(latest)):
            with self._guard:
                self._waiting[:0] = waiting
                self._bytes += sum(int(frame.estimated_size()) for _, frame in waiting)
            return trouble
        left: list[tuple[str, pl.DataFrame]] = []
        trouble = ""
        for table in ("counters", "polls"):
            frames = [frame for name, frame in waiting if name == table]
            for hour, rows in journal.by_hour(table, frames).items() if frames else ():
                one = self._journals.setdefault((table, hour), Journal(self._folder, table, hour))
                try:
                    one.append(rows)
                except BaseException as reason:
                    # Whatever it was (memory, a panic of polars'), the rows are not to be lost by it.
                    trouble = f"{one.path}: {_why(reason)}"
                    # In pieces: where no more fits into memory, not all of them go at once.
                    left += [(table, piece) for piece in rows.iter_slices(_ROWS_OF_PIECE)]
        with self._guard:
            self._waiting[:0] = left
            self._bytes += sum(int(frame.estimated_size()) for _, frame in left)
        return trouble

    def _remember(self, latest: dict[str, pl.DataFrame | Reading]) -> str:
        """Have the collector that starts next know what the counters were; return what prevents it.

        Before the rows are written, so that after a crash no growth is in two rows.
        """
        frames = (one if isinstance(one, pl.DataFrame) else memory.frame_of(one) for one in latest.values())
        try:
            memory.write(self._folder, frames)
        except OSError as reason:
            return f"{self._folder / memory.NAME}: {_why(reason)}"
        return ""

    def _put_into_store(self, one: Journal) -> str:
        """Make a part of an hour's rows, and forget its journal; return what prevents it."""
        try:
            rows, damage = one.read()
            if damage:
                self._say(damage)
            if one.doubtful:
                rows = rows.unique(tables.KEYS[one.table], keep="first", maintain_order=True)
            day, hour = _day_and_hour(one.hour)
            count = -(-rows.height // self._rows_of_part)
            # Each part is sorted and compressed in memory: as many as it takes for that to be bounded.
            for number in range(count):
                first, end = rows.height * number // count, rows.height * (number + 1) // count
                self._write_part(one, day, f"{hour:02d}-{self._label}", rows[first:end])
            one.remove()
        except Exception as reason:
            # One journal's trouble must not keep the others from the store.
            return _one_line(reason)
        del self._journals[one.table, one.hour]
        return ""

    def _write_part(self, one: Journal, day: str, name: str, rows: pl.DataFrame) -> None:
        """Write rows as a part of their own, or with those of a part that was begun and has room."""
        number, room, there = 1, 0, None
        while (path := self._path(one.table, day, _numbered(name, number))).exists():
            try:
                if one.doubtful:
                    rows = _not_in(one.table, rows, path)
                elif room:
                    break
                if not room and _height(path) + rows.height <= self._rows_of_part:
                    room, there = number, _read(one.table, path)
            except (pl.exceptions.PolarsError, OSError, KeyError) as reason:
                self._say(f"{path}: cannot be read ({_one_line(reason)}); it stays as it is, and another is written")
            number += 1
        if rows.height:
            rows = rows if there is None else pl.concat([there, rows])
            self._store.write_part(one.table, day, _numbered(name, room or number), rows)

    def _path(self, table: str, day: str, name: str) -> Path:
        return Path(self._store.files.path(f"{parts.folder(table, day)}/{name}.parquet"))


def _height(path: Path) -> int:
    return int(pl.scan_parquet(path, hive_partitioning=False).select(pl.len()).collect().item())


def _not_in(table: str, rows: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Rows that a part has not yet."""
    keys = tables.KEYS[table]
    there = pl.scan_parquet(path, hive_partitioning=False).select(keys).collect()
    return rows.join(there, on=keys, how="anti", nulls_equal=True)


def _read(table: str, path: Path) -> pl.DataFrame:
    return tables.conform(table, pl.read_parquet(path, hive_partitioning=False))


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}+{number}"


def _day_and_hour(hour: int) -> tuple[str, int]:
    """Of an hour since the epoch.

    >>> _day_and_hour(421_697)
    ('2018-02-08', 17)
    """
    day, in_day = divmod(hour, 24)
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat(), in_day


def _lock(folder: Path, label: str) -> int:
    """Be the only one that keeps under a label; the kernel ends it with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as reason:
        raise KeepingError(f"{folder}: {reason.strerror}") from reason
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise KeepingError(
            f"{folder}: another collector keeps samples here under the label {label}. Stop it, or choose another label"
        ) from None
    return descriptor


def _one_line(reason: BaseException) -> str:
    if isinstance(reason, OSError) and reason.filename is not None:
        return f"{os.fsdecode(reason.filename)}: {reason.strerror}"
    return " ".join(str(reason).split())


def _why(reason: BaseException) -> str:
    known = isinstance(reason, OSError) and reason.strerror
    return str(known or f"{type(reason).__name__}: {_one_line(reason)}")


def _to_stderr(line: str) -> None:
    # Names of files must not command the terminal.
    sys.stderr.write(f"whydrop: {line if line.isprintable() else ascii(line)}\n")
