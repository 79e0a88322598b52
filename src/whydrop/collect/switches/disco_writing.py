"""Files as M-Lab's DISCO writes them (https://github.com/m-lab/disco, version 2), for those who read them already.

One file for each polling machine and five minutes, one JSON object a line for each metric. ``value`` is the difference
of ``counter`` to the sample before, in 64 bits without a sign, as DISCO has it: where a counter of 32 bits wrapped it
is some 1.8e19, to which readers add 2^32. A counter that began anew has no growth that could be written: its sample is
left out and another file begins, so that no difference reaches across it.

A file is written when its five minutes are over. Until then its samples are in a journal, which is on the disk before
the next minute is over: what a collector that was killed has left there becomes a file when the next one starts.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whydrop.collect.switches import framing
from whydrop.collect.switches.background import Background, Order
from whydrop.collect.switches.reading import Reading
from whydrop.runtime import durable

if TYPE_CHECKING:
    import polars as pl

SECOND_NS = 1_000_000_000
WINDOW_NS = 300 * SECOND_NS
MINUTE_NS = 60 * SECOND_NS
# A poll that was due in a window may end after it.
_GRACE_NS = 15 * SECOND_NS
# So many samples wait for a disk that is full; each is about 300 B.
_MOST_SAMPLES = 500_000
_MACHINE = re.compile(r"mlab[0-9]")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,253}")

_Key = tuple[str, str]  # experiment, metric
_Series = dict[_Key, list[dict[str, int]]]


class _File:
    """Samples of one polling machine that go into one file."""

    def __init__(self, hostname: str, window: int) -> None:
        self.hostname, self.window = hostname, window
        self.series: _Series = {}
        self.fresh: _Series = {}  # in no journal yet
        self.count = 0
        self.journal: Path | None = None
        self.taken_up = False  # of a writer before this one

    def add(self, key: _Key, sample: dict[str, int]) -> None:
        self.series.setdefault(key, []).append(sample)
        self.fresh.setdefault(key, []).append(sample)
        self.count += 1

    def path(self) -> str:
        """Below the folder: ``2021/12/14/HOST/2021-12-14T02:37:00-to-2021-12-14T02:41:50-switch.jsonl``."""
        stamps = [sample["timestamp"] for samples in self.series.values() for sample in samples]
        first, last = (datetime.fromtimestamp(at, UTC) for at in (min(stamps), max(stamps)))
        return f"{first:%Y/%m/%d}/{self.hostname}/{first:%Y-%m-%dT%H:%M:%S}-to-{last:%Y-%m-%dT%H:%M:%S}-switch"

    def content(self) -> bytes:
        """The lines."""
        return _lines(self.hostname, self.series)

    @classmethod
    def found(cls, journal: Path) -> _File | None:
        """The content of a journal, as far as it is whole.

        Raises:
            OSError: it cannot be read.
        """
        one: _File | None = None
        for _, content in framing.unpacked(journal.read_bytes()):
            for text in [] if isinstance(content, str) else content.splitlines():
                line = json.loads(text)
                one = one or cls(line["hostname"], 0)
                for sample in line["sample"]:
                    one.add((line["experiment"], line["metric"]), sample)
        if one is not None:
            one.fresh, one.journal, one.taken_up = {}, journal, True
        return one


def _lines(hostname: str, series: _Series) -> bytes:
    lines = []
    for (experiment, metric), samples in series.items():
        line = {"experiment": experiment, "hostname": hostname, "metric": metric, "sample": samples}
        lines.append(json.dumps(line, separators=(",", ":")))
    return "".join(f"{line}\n" for line in lines).encode()


class DiscoWriter:
    """Writes samples into files of five minutes."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        hostname: str | None = None,
        journals: Path | None = None,
        *,
        say: Callable[[str], None] | None = None,
        most_samples: int = _MOST_SAMPLES,
    ) -> None:
        """Begin.

        Args:
            folder: gets ``YYYY/MM/DD/HOSTNAME/...-switch.jsonl``.
            hostname: of the machine that polls, in full; the default is this one's. Ports that have a machine of their
                own are written as if that one polled them.
            journals: folder of this writer alone for what is in no file yet; without one, that is lost in a crash.
            say: takes one line about what the operator must know; the default writes it to stderr.
            most_samples: that may wait for a disk that does not take them.

        Raises:
            ValueError: the host name would not do as a folder's.
            OSError: the folder cannot be made, or not be written to.
        """
        self._hostname = hostname or socket.getfqdn()
        if not _FILE_NAME.fullmatch(self._hostname):
            raise ValueError(f"host name {self._hostname!r}: expected letters, digits, '.', '_' or '-'")
        self._folder, self._say, self._most = Path(folder), say or _to_stderr, most_samples
        self._folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self._folder))
        self._guard = threading.Lock()
        self._open: dict[str, _File] = {}
        self._full: list[_File] = []
        self._seen: set[tuple[str, str, str | None, str]] = set()
        self._due: tuple[int, int] | None = None
        self._journals, self._numbers = journals, itertools.count(1)
        self._take_up()
        self._trouble, self._lost = "", 0
        self._disk = Background("whydrop disco", self._carry_out, self._failed)

    def keep(self, reading: Reading, samples: pl.DataFrame) -> None:
        """Take the rows of ``counters`` that a reading gave."""
        if not samples.height or reading.start_ns is None or reading.end_ns is None:
            return
        window, stamp = reading.due_ns // WINDOW_NS, reading.due_ns // SECOND_NS
        read = {(p.name, p.machine, c.name): (total, c.bits) for (p, c), total in reading.values.items()}
        names = ("port", "machine", "counter", "value")
        rows = list(zip(*(samples[name].to_list() for name in names), strict=True))
        with self._guard:
            for machine in {row[1] for row in rows if row[3] is None}:
                self._end(self._host(machine))
            for port, machine, counter, value in rows:
                series = (reading.switch, port, machine, counter)
                # What it was before is in a file of the collector before this one, or in none.
                first = series not in self._seen
                self._seen.add(series)
                if first or value is None or (port, machine, counter) not in read:
                    continue
                total, bits = read[port, machine, counter]
                sample = {
                    "timestamp": stamp, "collectstart": reading.start_ns, "collectend": reading.end_ns,
                    "value": _difference(int(value), total, bits), "counter": total,
                }  # fmt: skip
                self._file(self._host(machine), window).add((reading.switch, _metric(port, counter)), sample)
            if sum(one.count for one in self._full) > self._most:
                self._drop_oldest()

    def tick(self, now_ns: int) -> None:
        """Let files that are complete go to the disk, and others into journals; call it at least every few seconds.

        Args:
            now_ns: wall clock.
        """
        due = now_ns // MINUTE_NS, (now_ns - _GRACE_NS) // WINDOW_NS
        if due != self._due:
            self._due = due
            self._disk.order(Order(now_ns))

    def flush(self, now_ns: int) -> None:
        """Write the files that are complete by now, and wait for it."""
        self._disk.wait(Order(now_ns))

    def close(self) -> None:
        """Write what there is, and end.

        Raises:
            OSError: something could be written neither into a file nor into a journal, and is lost.
        """
        self._disk.wait(Order(last=True))
        with self._guard:
            left, self._full = self._full, []
        lost = sum(len(samples) for one in left for samples in one.fresh.values())
        if lost:
            raise OSError(f"{self._trouble}; {lost} samples are lost to DISCO's files")
        if left:
            self._say(f"{self._trouble}; what is in {self._journals} becomes files when the collector starts again")

    def __enter__(self) -> DiscoWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _host(self, machine: str | None) -> str:
        """The name of the host that polls, as DISCO has one on each machine of a site."""
        if machine is None or machine in self._hostname:
            return self._hostname
        if _MACHINE.fullmatch(machine) and _MACHINE.match(self._hostname):
            return _MACHINE.sub(machine, self._hostname, count=1)
        return machine if _FILE_NAME.fullmatch(machine) else self._hostname

    def _file(self, hostname: str, window: int) -> _File:
        one = self._open.get(hostname)
        if one is not None and one.window != window:
            self._end(hostname)
            one = None
        if one is None:
            one = self._open[hostname] = _File(hostname, window)
        return one

    def _end(self, hostname: str) -> None:
        one = self._open.pop(hostname, None)
        if one is not None and one.count:
            self._full.append(one)

    def _drop_oldest(self) -> None:
        first = self._lost == 0
        while self._full and sum(one.count for one in self._full) > self._most:
            self._lost += self._full.pop(0).count
        if first:
            self._say(
                f"{self._folder}: {self._most} samples wait for the disk: the oldest are being lost to DISCO's files"
            )

    def _take_up(self) -> None:
        """Make files of what a writer before this one has left in its journals."""
        for path in sorted(self._journals.glob("*.journal")) if self._journals else ():
            try:
                one = _File.found(path)
            except (OSError, ValueError, KeyError, TypeError) as reason:
                self._say(f"{path}: {_why(reason)}; what it holds is in no file of DISCO")
                continue
            if one is None:
                path.unlink(missing_ok=True)
            else:
                self._full.append(one)

    def _carry_out(self, order: Order) -> None:
        with self._guard:
            for hostname, one in list(self._open.items()):
                over = order.now_ns is not None and (one.window + 1) * WINDOW_NS + _GRACE_NS <= order.now_ns
                if order.last or over:
                    self._end(hostname)
            full, self._full = self._full, []
            still_open = list(self._open.values())
        troubles = [self._into_journal(one) for one in (*full, *still_open)]
        for place, one in enumerate(full):
            try:
                self._write(one)
            except Exception as reason:
                # Whatever it was, the samples are not to be lost by it.
                with self._guard:
                    self._full[:0] = full[place:]
                troubles.append(f"{self._folder}: {_why(reason)}")
                break
        if trouble := next(filter(None, reversed(troubles)), ""):
            self._in_trouble(trouble, order.last)
            return
        if self._trouble:
            lost = f"; {self._lost} samples were lost to them" if self._lost else ""
            self._say(f"{self._folder}: DISCO's files can be written again{lost}")
            self._trouble, self._lost = "", 0

    def _into_journal(self, one: _File) -> str:
        """Make durable what is in no journal yet; return what prevents it."""
        if self._journals is None:
            return ""
        with self._guard:
            fresh, one.fresh = one.fresh, {}
        if not fresh:
            return ""
        try:
            # Only this folder: where the store is gone, its disk may not be mounted any more.
            self._journals.mkdir(exist_ok=True)
            if one.journal is None:
                one.journal = self._unused()
            framing.append(one.journal, framing.packed(_lines(one.hostname, fresh)))
            durable.sync_folder(self._journals)
        except OSError as reason:
            with self._guard:
                for key, samples in one.fresh.items():
                    fresh.setdefault(key, []).extend(samples)
                one.fresh = fresh
            return f"{self._journals}: {_why(reason)}"
        return ""

    def _unused(self) -> Path:
        assert self._journals is not None
        names = (self._journals / f"{number}.journal" for number in self._numbers)
        return next(path for path in names if not path.exists())

    def _write(self, one: _File) -> None:
        stem, number, content = one.path(), 1, one.content()
        path = self._folder / f"{stem}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        while path.exists():
            if one.taken_up and path.read_bytes() == content:
                break  # It had been written, and only its journal was still there.
            # Of a collector before this one, or of another.
            number += 1
            path = self._folder / f"{stem}.{number}.jsonl"
        else:
            durable.write_bytes(path, content)
        one.fresh = {}
        if one.journal is not None:
            one.journal.unlink(missing_ok=True)

    def _failed(self, reason: BaseException) -> None:
        self._in_trouble(f"{self._folder}: {_why(reason)}", last=False)

    def _in_trouble(self, what: str, last: bool) -> None:
        if what != self._trouble:
            self._trouble = what
            if not last:
                self._say(f"{what}; samples wait in memory until DISCO's files can be written")


def _why(reason: BaseException) -> str:
    known = isinstance(reason, OSError) and reason.strerror
    return str(known or f"{type(reason).__name__}: {reason}")


def _difference(growth: int, total: int, bits: int) -> int:
    """Of a counter to what it was before, as DISCO computes it.

    >>> _difference(7, 3, 32) == 2**64 - 2**32 + 7
    True
    """
    before = total - growth
    return (total - before % (1 << bits)) % (1 << 64)


def _metric(port: str, counter: str) -> str:
    """As DISCO names it: the port between what is counted and the direction.

    >>> _metric("uplink", "octets.tx")
    'switch.octets.uplink.tx'
    """
    kind, _, direction = counter.rpartition(".")
    return f"switch.{kind}.{port}.{direction}" if kind else f"switch.{counter}.{port}"


def _to_stderr(line: str) -> Any:
    sys.stderr.write(f"whydrop: {line if line.isprintable() else ascii(line)}\n")
