"""Keeps polls: in a database within a minute, in the store as Parquet by the hour, and in files of DISCO.

The database (`pending`) holds what is not in the store yet. A part of the store is written from all rows that the
database has of its hour, and the rows are removed afterwards: if the collector dies in between, the next one writes the
same part again. So no row is lost and none is in the store twice.

A thread of its own does all that waits for a disk, so no poll is late because of it. Polls that the disk does not take
wait in memory, up to a limit.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import os
import re
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from whydrop.monitoring.switches import pending
from whydrop.monitoring.switches.disco_files import DiscoFile, DiscoFiles, DiscoSample
from whydrop.monitoring.switches.pending import LastReading, Part, Pending
from whydrop.monitoring.switches.readings import Reading
from whydrop.monitoring.switches.schedule import Clock
from whydrop.recording.errors import RecordingError
from whydrop.store import parts, tables
from whydrop.store.store import DESCRIPTION, Store

MINUTE_NS = 60_000_000_000
HOUR_NS = 60 * MINUTE_NS
FOLDER = ".collecting"  # of the store: a folder for each collector
_FLUSH_S = 60.0
# Readings of the last seconds of an hour may come after it.
_GRACE_NS = MINUTE_NS
# So many rows are sorted in memory at once (some 100 MiB with all copies); an hour with more becomes several parts.
_ROWS_OF_PART = parts.ROWS_OF_A_GROUP // 2
_MEMORY_BYTES = 256 * 2**20
_POLL_BYTES, _SAMPLE_BYTES = 200, 500  # of memory: a row of `polls`, a sample of DISCO
# Samples for files of DISCO that cannot be written are kept so long.
_DISCO_PATIENCE_NS = 24 * HOUR_NS
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class KeepingError(RecordingError):
    """A collector cannot keep polls in this store; the message says why and what to do."""


@dataclass
class _Poll:
    """A poll that waits in memory."""

    row: tuple[object, ...]  # of `polls`
    samples: pl.DataFrame
    disco: list[tuple[DiscoFile, DiscoSample]]

    @property
    def bytes(self) -> int:
        """Of memory."""
        return int(self.samples.estimated_size()) + _POLL_BYTES + _SAMPLE_BYTES * len(self.disco)


class Keeper:
    """Keeps the polls of one collector in a store. Several may write to one store, each under a label of its own."""

    def __init__(
        self,
        store_folder: str | os.PathLike[str],
        host_label: str,
        *,
        disco: DiscoFiles | None = None,
        say: Callable[[str], None] | None = None,
        clock: Clock | None = None,
        memory_bytes: int = _MEMORY_BYTES,
        rows_of_part: int = _ROWS_OF_PART,
        flush_s: float = _FLUSH_S,
    ) -> None:
        """Open the store, and the database of this label.

        Args:
            store_folder: a store, or where one is to be made.
            host_label: of this collector, part of its files' names: letters, digits, ``.``, ``_`` and ``-``.
            disco: also writes files of DISCO.
            say: takes one line for the operator; the default writes it to stderr.
            clock: of this machine.
            memory_bytes: the most that polls may take while the disk is full.
            rows_of_part: about the most that a Parquet file holds.
            flush_s: how often polls are written to the disk.

        Raises:
            KeepingError: the label is not valid, or another collector uses it.
            RecordingError: the store cannot be opened.
        """
        if not _LABEL.fullmatch(host_label):
            raise KeepingError(f"label {host_label!r}: expected up to 64 letters, digits, '.', '_' or '-'")
        self._say, self._clock, self._disco = say or _to_stderr, clock or Clock(), disco
        self._label, self._memory_bytes, self._rows_of_part = host_label, memory_bytes, rows_of_part
        self._store = Store.create(store_folder)
        local = self._store.files.local
        if local is None:
            raise KeepingError(
                f"{os.fspath(store_folder)}: a collector needs a folder of this machine, for its database. "
                "Name a folder, and copy its content to the object store"
            )
        self._folder = local / FOLDER / host_label
        self._lock = _locked(self._folder, host_label)
        self._pending = self._opened()
        self._guard = threading.Lock()
        self._waiting: deque[_Poll] = deque()
        self._latest: dict[str, Reading] = {}
        self._bytes = self._lost = 0
        self._troubles: dict[str, str] = {}
        self._flush_s = flush_s
        self._writing = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="whydrop keeper", daemon=True)
        self._thread.start()

    def _opened(self) -> Pending:
        if former := next(self._folder.rglob("*.journal"), None):
            raise KeepingError(
                f"{former}: polls that an earlier version of whydrop has not put into the store. "
                "Start that version once and stop it with Ctrl-C, or remove the file"
            )
        path = self._folder / pending.NAME
        try:
            return Pending(path)
        except sqlite3.OperationalError as reason:
            raise KeepingError(f"{path}: {reason}") from reason
        except sqlite3.DatabaseError as reason:
            aside = path.with_name(f"{pending.NAME}.damaged")
            path.rename(aside)
            self._say(f"{path}: damaged ({reason}). It is now {aside.name}; a new one begins without its polls")
            return Pending(path)

    def last_readings(self) -> dict[str, LastReading]:
        """The last reading of each switch by an earlier collector; call it before the first poll.

        A switch of which the store has newer rows is left out: its growth is known already.
        """
        found = pending.recent(self._pending.last_readings(), self._clock.wall_ns(), self._clock.steady_ns())
        if not found:
            return {}
        others = [path for path in self._folder.parent.glob(f"*/{pending.NAME}") if path != self._pending.path]
        try:
            known = [pending.newest_in_database(path) for path in others]
            known.append(pending.newest_in_parts(
                self._folder.parent.parent, min(one.at.at_ns for one in found.values())
            ))  # fmt: skip
        except (pl.exceptions.PolarsError, OSError, sqlite3.Error):
            return {}  # A part that cannot be read may have newer rows.
        return {
            switch: one
            for switch, one in found.items()
            if all(newest.get(switch, 0) <= one.at.at_ns for newest in known)
        }

    def take(self, reading: Reading, samples: pl.DataFrame) -> None:
        """Take a poll, made or not, and the rows of ``counters`` that it gave."""
        row = (reading.due_ns, reading.start_ns, reading.end_ns, reading.switch, reading.status, reading.message)
        poll = _Poll(row, samples, self._disco.samples(reading, samples) if self._disco else [])
        with self._guard:
            self._waiting.append(poll)
            self._bytes += poll.bytes
            if samples.height:
                self._latest[reading.switch] = reading
            self._drop_oldest()

    def flush(self, now_ns: int | None = None) -> None:
        """Write everything to the disk, and wait for it.

        Args:
            now_ns: wall clock, by which hours are over; ``None``: no hour is.
        """
        with self._writing:
            try:
                self._write(now_ns)
            except BaseException as reason:
                # polars reports an unexpected state of its Rust code as a panic, which is no Exception.
                self._report(str(self._pending.path), _why(reason), "The collector tries again within a minute")

    def close(self) -> None:
        """Put everything into the store, the current hour too, and end.

        Raises:
            KeepingError: polls could not be written anywhere, and are lost.
        """
        if not self._thread.is_alive():
            return
        self._over.set()
        self._thread.join()
        self._pending.close()
        os.close(self._lock)
        lost = self._lost + sum(poll.samples.height + 1 for poll in self._waiting)
        if lost:
            trouble = self._troubles.get(str(self._pending.path), "")
            raise KeepingError(f"{trouble}; {lost} samples and polls that waited in memory are lost")

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _work(self) -> None:
        while not self._over.wait(self._flush_s):
            self.flush(self._clock.wall_ns())
        self.flush(self._clock.wall_ns())

    def _write(self, now_ns: int | None) -> None:
        path, last = self._pending.path, self._over.is_set()
        gone = self._restore_folder(last)
        trouble = gone or self._write_polls()
        wait = "" if last else f"New polls wait in memory, up to {self._memory_bytes // 2**20} MiB"
        self._report(str(path), trouble, wait)
        if gone:
            return
        wait = f"Its rows wait in {path}" + ("; the next start of the collector writes them" if last else "")
        self._report(self._store.files.shown, self._write_parts(now_ns, last), wait)
        if self._disco:
            self._report(str(self._disco.folder), self._write_disco_files(self._disco, now_ns, last), wait)
        with contextlib.suppress(sqlite3.Error):
            self._pending.settle()

    def _report(self, place: str, trouble: str, meanwhile: str) -> None:
        """Say what prevents writing to a place, once for as long as it does, and when it no longer does."""
        before = self._troubles.pop(place, "")
        if trouble:
            self._troubles[place] = trouble
            if trouble != before and meanwhile:
                self._say(f"{trouble}. {meanwhile}")
        elif before:
            lost, self._lost = self._lost, 0
            self._say(f"{place}: can be written again" + (f"; {lost} samples and polls were lost" if lost else ""))

    def _drop_oldest(self) -> None:
        """Keep within the limit of memory; the caller holds the guard."""
        if self._bytes > self._memory_bytes and not self._lost:
            limit = self._memory_bytes // 2**20
            self._say(f"{limit} MiB of polls wait for the disk, which is the limit: the oldest are being lost")
        while self._bytes > self._memory_bytes and self._waiting:
            poll = self._waiting.popleft()
            self._bytes -= poll.bytes
            self._lost += poll.samples.height + 1

    def _restore_folder(self, last: bool) -> str:
        """Make the database's folder again where someone removed it; return what prevents it.

        Where the whole store is gone, its disk may be unmounted for now: nothing is made below its mount point, except
        in the end, when polls would be lost otherwise.
        """
        if self._pending.path.exists():
            return ""
        store = self._store.files
        try:
            if not last and not store.exists(DESCRIPTION):
                return f"{store.shown}: the store is gone (removed, or its disk is no longer mounted)"
            self._store = Store.create(store)
            lock = _locked(self._folder, self._label)
            os.close(self._lock)
            self._lock = lock
            self._pending.recreate()
        except (OSError, RecordingError, sqlite3.Error) as reason:
            return _why(reason)
        self._say(f"{self._folder}: was removed; it was made again")
        return ""

    def _write_polls(self) -> str:
        """Write the polls that wait to the database; return what prevents it."""
        with self._guard:
            waiting, self._waiting, self._bytes = self._waiting, deque(), 0
            latest, self._latest = self._latest, {}
        if not waiting:
            return ""
        disco: dict[DiscoFile, list[DiscoSample]] = {}
        for poll in waiting:
            for file, sample in poll.disco:
                disco.setdefault(file, []).append(sample)
        try:
            self._pending.add(self._chunks(waiting), latest.values(), disco)
        except BaseException as reason:
            # Whatever it was (the disk, memory, a panic of polars), the polls must not be lost by it.
            with self._guard:
                self._waiting = waiting + self._waiting
                self._bytes += sum(poll.bytes for poll in waiting)
                self._latest = latest | self._latest
                self._drop_oldest()
            return f"{self._pending.path}: {_why(reason)}"
        return ""

    def _chunks(self, polls: deque[_Poll]) -> Iterator[tuple[Part, pl.DataFrame]]:
        """The rows of some polls, each with its part: the hour's last one, or a new one where that is full."""
        newest = {(part.table, part.hour): part for part in self._pending.parts()}
        rows = {
            "counters": pl.concat([poll.samples for poll in polls], rechunk=True),
            "polls": pl.DataFrame([poll.row for poll in polls], schema=tables.POLLS, orient="row"),
        }
        for table, frame in rows.items():
            hours = frame[tables.TIME[table]] // HOUR_NS
            for hour in hours.unique(maintain_order=True):
                # Nearly always all rows are of one hour, which are not copied.
                of_hour = frame if hours.n_unique() == 1 else frame.filter(hours == hour)
                for piece in of_hour.iter_slices(self._rows_of_part):
                    part = newest.get((table, hour))
                    if part is None or part.rows >= self._rows_of_part:
                        part = Part(table, hour, self._unused(table, hour, part.number + 1 if part else 1), 0)
                    newest[table, hour] = replace(part, rows=part.rows + piece.height)
                    yield part, piece

    def _unused(self, table: str, hour: int, number: int) -> int:
        """The first number from this one on under which the store has no file."""
        while True:
            day, name = self._name(Part(table, hour, number, 0))
            if not self._store.files.exists(f"{parts.folder(table, day)}/{name}.parquet"):
                return number
            number += 1

    def _name(self, part: Part) -> tuple[str, str]:
        """The day and the name of a part."""
        day, hour = divmod(part.hour, 24)
        name = f"{hour:02d}-{self._label}" + (f"+{part.number}" if part.number > 1 else "")
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat(), name

    def _write_parts(self, now_ns: int | None, last: bool) -> str:
        """Put hours that are over into the store, and parts that are full; return what prevents it."""
        trouble = ""
        for part in self._pending.parts():
            over = now_ns is not None and (part.hour + 1) * HOUR_NS + _GRACE_NS <= now_ns
            finished = over or part.rows >= self._rows_of_part
            if not finished and not last:
                continue
            try:
                rows, lost = self._pending.rows(part)
                if lost:
                    self._say(f"{self._pending.path}: damaged; {lost} rows of {part.table} are lost")
                day, name = self._name(part)
                self._store.write_part(part.table, day, name, rows)
                if finished:
                    self._pending.forget(part)
            except Exception as reason:
                # The other parts may go well.
                trouble = _why(reason)
        return trouble

    def _write_disco_files(self, disco: DiscoFiles, now_ns: int | None, last: bool) -> str:
        """Write the files of DISCO that are over; return what prevents it."""
        trouble = ""
        for file in self._pending.disco_files():
            if not last and not (now_ns is not None and file.is_over(now_ns)):
                continue
            try:
                disco.write(file.hostname, self._pending.disco_samples(file))
                self._pending.forget_disco(file)
            except Exception as reason:
                trouble = _why(reason)
                if not last and now_ns and file.is_over(now_ns - _DISCO_PATIENCE_NS):
                    lost = len(list(self._pending.disco_samples(file)))
                    self._pending.forget_disco(file)
                    self._say(f"{disco.folder}: {lost} samples that waited for a day are lost to DISCO's files")
        return trouble


def _locked(folder: Path, label: str) -> int:
    """Make the folder, and exclude other collectors of the label from it; the kernel unlocks it with the process."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as reason:
        raise KeepingError(f"{folder}: {reason.strerror}") from reason
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise KeepingError(
            f"{folder}: another collector uses the label {label} in this store. Stop it, or set another `host`"
        ) from None
    return descriptor


def _why(reason: BaseException) -> str:
    if isinstance(reason, OSError) and reason.strerror:
        name = f"{os.fsdecode(reason.filename)}: " if reason.filename is not None else ""
        return f"{name}{reason.strerror}"
    words = " ".join(str(reason).split())
    return words if isinstance(reason, RecordingError | sqlite3.Error) else f"{type(reason).__name__}: {words}"


def _to_stderr(line: str) -> None:
    # Names of files must not command the terminal.
    sys.stderr.write(f"whydrop: {line if line.isprintable() else ascii(line)}\n")
