"""Files as M-Lab's DISCO writes them (https://github.com/m-lab/disco, version 2), for programs that read those.

One file for each polling machine and five minutes, one JSON object a line for each metric. ``value`` is the difference
of ``counter`` to the sample before, in 64 bits without a sign, as in DISCO: where a counter of 32 bits wrapped it is
about 1.8e19, to which readers add 2^32. A counter that was reset has no growth that could be written: its sample is
left out and another file begins, so that no difference reaches across the reset.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from whydrop.errors import Mistake
from whydrop.monitoring.switches.readings import Reading
from whydrop.runtime import durable

if TYPE_CHECKING:
    import polars as pl

SECOND_NS = 1_000_000_000
_WINDOW_S = 300
# A poll that was due in a window may end after it.
_GRACE_S = 15
_MACHINE = re.compile(r"mlab[0-9]")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,253}")

DiscoSample = tuple[str, str, dict[str, int]]  # experiment, metric, the sample


@dataclass(frozen=True)
class DiscoFile:
    """A file that is being collected: the samples of one polling machine in one window of five minutes.

    Attributes:
        hostname: of the machine.
        began_s: the tick of the first sample, seconds since the epoch.
    """

    hostname: str
    began_s: int

    def is_over(self, now_ns: int) -> bool:
        """True if no sample can follow."""
        return (self.began_s // _WINDOW_S + 1) * _WINDOW_S + _GRACE_S <= now_ns // SECOND_NS


class DiscoFiles:
    """Makes DISCO's samples of readings, and files of samples."""

    def __init__(self, folder: str | os.PathLike[str], hostname: str | None = None) -> None:
        """Check that files can be written.

        Args:
            folder: gets ``YYYY/MM/DD/HOSTNAME/...-switch.jsonl``.
            hostname: of the machine that polls, in full; the default is this one's. Ports with a ``machine`` of their
                own are written as if that machine polled them.

        Raises:
            ValueError: the host name cannot be a folder's.
            OSError: the folder cannot be made, or not be written to.
        """
        self._hostname = hostname or socket.getfqdn()
        if not _FILE_NAME.fullmatch(self._hostname):
            raise Mistake(f"host name {self._hostname!r}: expected letters, digits, '.', '_' or '-'")
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.folder))
        self._open: dict[str, DiscoFile] = {}
        self._seen: set[tuple[str, str, str | None, str]] = set()

    def samples(self, reading: Reading, rows: pl.DataFrame) -> list[tuple[DiscoFile, DiscoSample]]:
        """The samples of a reading, each with its file.

        Args:
            reading: a poll.
            rows: of ``counters``, that it gave.
        """
        if not rows.height or reading.start_ns is None or reading.end_ns is None:
            return []
        read = {(p.name, p.machine, c.name): (total, c.bits) for (p, c), total in reading.values.items()}
        found = []
        names = ("port", "machine", "counter", "value")
        grown = list(zip(*(rows[name].to_list() for name in names), strict=True))
        for machine in {machine for _, machine, _, value in grown if value is None}:
            self._open.pop(self._host(machine), None)
        for port, machine, counter, value in grown:
            series = (reading.switch, port, machine, counter)
            # The growth up to the first reading may be in a file of an earlier collector.
            first = series not in self._seen
            self._seen.add(series)
            if first or value is None or (port, machine, counter) not in read:
                continue
            total, bits = read[port, machine, counter]
            sample = {
                "timestamp": reading.due_ns // SECOND_NS,
                "collectstart": reading.start_ns,
                "collectend": reading.end_ns,
                "value": _difference(int(value), total, bits),
                "counter": total,
            }
            file = self._file(self._host(machine), reading.due_ns // SECOND_NS)
            found.append((file, (reading.switch, _metric(port, counter), sample)))
        return found

    def write(self, hostname: str, samples: Iterable[DiscoSample]) -> None:
        """Write a file, whole or not at all. One that exists with the same content was written before a crash.

        Raises:
            OSError: it cannot be written.
        """
        series: dict[tuple[str, str], list[dict[str, int]]] = {}
        for experiment, metric, sample in samples:
            series.setdefault((experiment, metric), []).append(sample)
        content = _lines(hostname, series)
        stem, number = _stem(hostname, [sample["timestamp"] for of in series.values() for sample in of]), 1
        path = self.folder / f"{stem}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        while path.exists():
            if path.read_bytes() == content:
                return
            number += 1
            path = self.folder / f"{stem}.{number}.jsonl"
        durable.write_bytes(path, content)

    def _host(self, machine: str | None) -> str:
        """The name of the host that polls, as DISCO has one on each machine of a site."""
        if machine is None or machine in self._hostname:
            return self._hostname
        if _MACHINE.fullmatch(machine) and _MACHINE.match(self._hostname):
            return _MACHINE.sub(machine, self._hostname, count=1)
        return machine if _FILE_NAME.fullmatch(machine) else self._hostname

    def _file(self, hostname: str, due_s: int) -> DiscoFile:
        one = self._open.get(hostname)
        if one is None or one.began_s // _WINDOW_S != due_s // _WINDOW_S:
            one = self._open[hostname] = DiscoFile(hostname, due_s)
        return one


def _stem(hostname: str, stamps: list[int]) -> str:
    """Below the folder: ``2021/12/14/HOST/2021-12-14T02:37:00-to-2021-12-14T02:41:50-switch``."""
    first, last = (datetime.fromtimestamp(at, UTC) for at in (min(stamps), max(stamps)))
    return f"{first:%Y/%m/%d}/{hostname}/{first:%Y-%m-%dT%H:%M:%S}-to-{last:%Y-%m-%dT%H:%M:%S}-switch"


def _lines(hostname: str, series: dict[tuple[str, str], list[dict[str, int]]]) -> bytes:
    lines = (
        json.dumps(
            {"experiment": experiment, "hostname": hostname, "metric": metric, "sample": samples}, separators=(",", ":")
        )
        for (experiment, metric), samples in series.items()
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _difference(growth: int, total: int, bits: int) -> int:
    """The difference of a counter to the reading before, as DISCO computes it.

    >>> _difference(7, 3, 32) == 2**64 - 2**32 + 7
    True
    """
    before = total - growth
    return (total - before % (1 << bits)) % (1 << 64)


def _metric(port: str, counter: str) -> str:
    """The name of a counter in DISCO: the port is between the kind and the direction.

    >>> _metric("uplink", "octets.tx")
    'switch.octets.uplink.tx'
    """
    kind, _, direction = counter.rpartition(".")
    return f"switch.{kind}.{port}.{direction}" if kind else f"switch.{counter}.{port}"
