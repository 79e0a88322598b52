"""Any file that a measurement platform has published, as pieces of the store's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.archives import (
    Piece,
    bcc,
    json_text,
    ndt5,
    ndt7,
    netlink,
    opening,
    sidestream,
    sock_diag,
    ss_log,
    tcp_info,
    web100,
    web100_rows,
)
from whydrop.formats.archives.companions import MOST_BYTES as MOST_META_BYTES
from whydrop.formats.archives.companions import Companions
from whydrop.formats.archives.kinds import Kind, kind
from whydrop.formats.archives.names import Host, host, plain
from whydrop.formats.archives.noting import counted
from whydrop.formats.archives.opening import Member
from whydrop.recording.errors import RecordingError
from whydrop.store.tables import NDT, TCP

# Rows of small files are given together, in pieces of about this size.
_MOST_ROWS = 50_000
_MOST_OBJECTS = 10_000  # measurements of NDT7 and snapshots of tcp-info, before they are rows

_EXPECTED = (
    "expected a web100 snaplog, SideStream's .web100, tcp-info's .jsonl, a result of NDT5 or NDT7, DISCO's switch "
    "telemetry, a log of ss, tcpretrans or tcpdrop, or an archive of them"
)


def pieces(path: Path, *, last_record: int | None = None) -> Iterator[Piece]:
    """Read a file or an archive, whatever its name says of compression.

    Rows of an archive's whole members are gathered: their pieces name the archive as source. A damaged member is a
    piece of its own, with the rows that were before the damage. Members of no consequence (captures, CPU times, ...)
    are counted in a note.

    Args:
        path: the file.
        last_record: largest index of a snaplog's record that may be taken for the test's last. M-Lab's tables have
            `web100_rows.MLAB_LAST_INDEX`; by default the true last is taken.

    Raises:
        RecordingError: the file cannot be opened, is of no known kind, or damaged so that nothing of it can be read.
    """
    gathering = _Gathering(path, last_record)
    archived = False
    given = 0
    damage: str | None = None
    for member in opening.members(path):
        archived |= member.archived
        for piece in gathering.take(member):
            given += piece.frame.height
            damage = damage or piece.damage
            if member.archived or piece.frame.height or not piece.damage:
                yield piece
    if damage and not given and not gathering.has_rows and (not archived or not gathering.members):
        raise RecordingError(f"{opening.printed(path)}: {damage}")
    yield from gathering.rest()


class _Gathering:
    """The rows of a file's members, until they are enough for a piece."""

    def __init__(self, path: Path, last_record: int | None) -> None:
        self.members = 0
        self._path = path
        self._last_record = last_record
        self._source = opening.printed(path)
        self._host = host(path.name)
        self._companions: Companions | None = None
        self._tcp: list[pl.DataFrame] = []
        self._measurements: list[ndt7.Row] = []
        self._snapshots: list[sock_diag.Snapshot] = []
        self._tests: list[dict[str, Any]] = []
        self._left_out: Counter[Kind] = Counter()
        self._first_unknown = ""
        self._snaplogs = self._beyond_cap = self._failed = self._without_test = 0

    @property
    def has_rows(self) -> bool:
        """True if rows are waiting for `rest`."""
        return bool(self._tcp or self._measurements or self._snapshots or self._tests)

    def take(self, member: Member) -> Iterator[Piece]:
        """Read a member. What is ready is given: all of a damaged one, and gathered rows once they are many."""
        if not member.name:
            yield self._piece("tcp", [], damage=member.damage)
            return
        self.members += 1
        found = kind(member.content, member.name)
        if found in ("meta", "capture", "cputime", "empty", "unknown"):
            yield from self._leave_out(member, found)
            return
        of = self._host or host(member.name)
        if found == "disco":
            yield from self._disco(member)
        elif found == "snaplog":
            yield from self._snaplog(member, of)
        elif found == "ndt":
            yield from self._ndt(member, of)
        elif found == "sidestream":
            rows, damage = sidestream.read(member.content, member.name, of)
            yield from self._keep(member, [rows], [], _damage(member, damage))
        elif found in ("ss", "bcc"):
            log = ss_log if found == "ss" else bcc
            rows, notes, damage = log.read(member.content, member.name, of)
            if notes:
                yield self._piece("tcp", [], member, notes)
            yield from self._keep(member, [rows], [], _damage(member, damage))
        else:
            yield from self._sockets(member, found, of)
        yield from self._ready()

    def rest(self) -> Iterator[Piece]:
        """Yield what is still gathered, and the notes on the whole file."""
        notes = list(self._notes())
        for piece in self._ready(all_of_it=True):
            yield replace(piece, notes=notes)
            notes = []
        if notes:
            yield self._piece("tcp", [], notes=notes)

    # What each kind of file gives.

    def _snaplog(self, member: Member, of: Host | None) -> Iterator[Piece]:
        self._snaplogs += 1
        try:
            log = web100.decode(member.content)
        except web100.SnaplogError as reason:
            yield self._piece("tcp", [], member, damage=_damage(member, str(reason)))
            return
        companion = self._companions_of(member).of(member.name)
        named = host(companion.server) if companion and companion.server else None
        rows = web100_rows.tcp_rows(log, member.name, named or of)
        test = web100_rows.ndt_row(log, rows, member.name, companion, of, self._last_record)
        self._beyond_cap += rows.height > web100_rows.MLAB_LAST_INDEX + 1
        yield from self._keep(member, [rows], [test] if test else [], _damage(member, _of_snaplog(log)))

    def _ndt(self, member: Member, of: Host | None) -> Iterator[Piece]:
        document, damage = json_text.load(member.content)
        damage = _damage(member, damage)
        name = plain(member.name)
        if ndt7.is_ndt7(document):
            tests = ndt7.ndt_rows(document, name, of)
            measurements = ndt7.tcp_measurements(document, name, of)
            if damage:
                yield from self._keep(member, [ndt7.tcp_rows(measurements)], tests, damage)
            else:
                self._tests += tests
                self._measurements += measurements
        elif ndt5.is_ndt5(document):
            tests, failed = ndt5.ndt_rows(document, name, of)
            self._failed += failed
            self._without_test += not tests
            yield from self._keep(member, [], tests, damage)
        elif damage:
            yield self._piece("ndt", [], member, damage=damage)
        else:
            yield from self._leave_out(member, "unknown")

    def _sockets(self, member: Member, found: Kind, of: Host | None) -> Iterator[Piece]:
        if found == "netlink":
            read = netlink.read(member.content, member.name, of)
        else:
            read = tcp_info.read(member.content, member.name, of)
        if damage := _damage(member, read.damage):
            yield from self._keep(member, [sock_diag.rows(read.taken)], [], damage)
        else:
            self._snapshots += read.taken

    def _disco(self, member: Member) -> Iterator[Piece]:
        from whydrop.formats.archives import disco

        for piece in disco.pieces_of(member.content, opening.label(self._path, member), plain(member.name)):
            yield replace(piece, damage=_damage(member, piece.damage))

    def _leave_out(self, member: Member, found: Kind) -> Iterator[Piece]:
        if member.archived or found in ("capture", "empty", "meta", "cputime"):
            self._left_out[found] += 1
            if found == "unknown" and not self._first_unknown:
                self._first_unknown = member.name
            if member.damage and found != "capture":
                yield self._piece("tcp", [], member, damage=member.damage)
            return
        begins = f"begins with {member.content[:12]!r}: {_EXPECTED}"
        raise RecordingError(f"{self._source}: " + (f"{member.damage}; {begins}" if member.damage else begins))

    # Gathering.

    def _keep(
        self, member: Member, frames: list[pl.DataFrame], tests: list[dict[str, Any]], damage: str | None
    ) -> Iterator[Piece]:
        frames = [frame for frame in frames if frame.height]
        if damage is None:
            self._tcp += frames
            self._tests += tests
            return
        # The damage is reported once, with the first piece.
        if frames or not tests:
            yield self._piece("tcp", frames, member, damage=damage)
        if tests:
            notes = ["Its totals are those before the damage."]
            yield self._piece("ndt", _ndt_frames(tests), member, notes, damage=None if frames else damage)

    def _ready(self, *, all_of_it: bool = False) -> Iterator[Piece]:
        least = 1 if all_of_it else _MOST_ROWS
        if len(self._measurements) >= (1 if all_of_it else _MOST_OBJECTS):
            self._tcp.append(ndt7.tcp_rows(self._measurements))
            self._measurements = []
        if len(self._snapshots) >= (1 if all_of_it else _MOST_OBJECTS):
            self._tcp.append(sock_diag.rows(self._snapshots))
            self._snapshots = []
        if sum(frame.height for frame in self._tcp) >= least:
            yield self._piece("tcp", self._tcp)
            self._tcp = []
        if len(self._tests) >= least:
            yield self._piece("ndt", _ndt_frames(self._tests))
            self._tests = []

    def _piece(
        self,
        table: str,
        frames: list[pl.DataFrame],
        member: Member | None = None,
        notes: list[str] | None = None,
        damage: str | None = None,
    ) -> Piece:
        frame = pl.concat(frames) if frames else pl.DataFrame(schema=NDT if table == "ndt" else TCP)
        source = opening.label(self._path, member) if member else self._source
        return Piece(source, table, frame, notes or [], damage)

    def _companions_of(self, member: Member) -> Companions:
        """The archive's ``.meta`` files, read once, when the first snaplog is met: they may be behind it."""
        if self._companions is None:
            self._companions = Companions()
            if member.archived:
                for meta in opening.members(self._path, lambda name: plain(name).endswith(".meta")):
                    if meta.name:
                        self._companions.add(meta.name, meta.content[:MOST_META_BYTES])
        return self._companions

    def _notes(self) -> Iterator[str]:
        if not self.members:
            yield "An archive without a file in it."
        cap = web100_rows.MLAB_LAST_INDEX
        last = "the true last" if self._last_record is None else f"that of index {self._last_record} at most"
        kinds = [
            ("Captures of packets left out", self._left_out["capture"], "`whydrop explain` reads them"),
            ("Logs of CPU time left out", self._left_out["cputime"], ""),
            ("Files of kinds not known here left out", self._left_out["unknown"], self._first_unknown),
            (".meta files without a snaplog", 0 if self._snaplogs else self._left_out["meta"], ""),
            ("Empty files", self._left_out["empty"], ""),
            ("Results of NDT5 without a test", self._without_test, ""),
            ("Tests of NDT5 that ended with an error", self._failed, ""),
            (
                f"Snaplogs of more than {cap + 1} records",
                self._beyond_cap,
                f"M-Lab's tables take the record of index {cap} for a test's last, here it is {last}",
            ),
        ]
        yield from (counted(kind, count, example) for kind, count, example in kinds if count)


def _of_snaplog(log: web100.Snaplog) -> str | None:
    said = []
    if log.misplaced:
        said.append(f"{log.misplaced} records lack their mark, the first at offset {log.misplaced_offset}")
    if log.trailing_bytes:
        whole = len(log.records) + log.misplaced
        offset = log.body_offset + whole * log.record_bytes
        if log.trailing_bytes < log.record_bytes:
            said.append(f"cut off within a record: {log.trailing_bytes} of {log.record_bytes} bytes at offset {offset}")
        else:
            said.append(f"more than {whole} records: those from offset {offset} on were not read")
    return "; ".join(said) or None


def _damage(member: Member, inner: str | None) -> str | None:
    return "; ".join(filter(None, (member.damage, inner))) or None


def _ndt_frames(tests: list[dict[str, Any]]) -> list[pl.DataFrame]:
    columns = {name: [test.get(name) for test in tests] for name in NDT}
    return [pl.DataFrame(columns, schema=NDT)]
