"""Any file that a measurement platform has published, as pieces of the store's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.formats.archives import Found, Piece, disco, kinds, ndt, opening, web100, web100_rows
from whydrop.formats.archives.companions import MOST_BYTES as MOST_META_BYTES
from whydrop.formats.archives.companions import Companions
from whydrop.formats.archives.names import Host, host, plain
from whydrop.formats.archives.noting import counted
from whydrop.formats.archives.opening import Member
from whydrop.recording.errors import RecordingError
from whydrop.store.tables import NDT, TCP

# Rows of small files are given together, in pieces of about this size.
_MOST_ROWS = 50_000
_MOST_OBJECTS = 10_000  # measurements of NDT7 and snapshots of tcp-info, before they are rows

_CAP = web100_rows.MLAB_LAST_INDEX
_BEYOND_CAP = "snaplogs beyond the cap"
# What is noted of a whole file: of its members, by kind, and of what was found in them.
_COUNTED = {
    "capture": "Captures of packets left out",
    "cputime": "Logs of CPU time left out",
    "unknown": "Files of kinds not known here left out",
    "meta": ".meta files without a snaplog",
    "empty": "Empty files",
    ndt.NDT5_WITHOUT: ndt.NDT5_WITHOUT,
    ndt.NDT5_FAILED: ndt.NDT5_FAILED,
    _BEYOND_CAP: f"Snaplogs of more than {_CAP + 1} records",
}

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
        self._objects: dict[Callable[[list[Any]], pl.DataFrame], list[Any]] = {}  # by what makes rows of them
        self._tests: list[dict[str, Any]] = []
        self._counts: Counter[str] = Counter()  # of kinds of files, and of what readers count
        self._first_unknown = ""

    @property
    def has_rows(self) -> bool:
        """True if rows are waiting for `rest`."""
        return bool(self._tcp or any(self._objects.values()) or self._tests)

    def take(self, member: Member) -> Iterator[Piece]:
        """Read a member. What is ready is given: all of a damaged one, and gathered rows once they are many."""
        if not member.name:
            yield self._piece("tcp", [], damage=member.damage)
            return
        self.members += 1
        kind = kinds.kind(member.content, member.name)
        of = self._host or host(member.name)
        if kind == "disco":
            for piece in disco.pieces_of(member.content, opening.label(self._path, member), plain(member.name)):
                yield replace(piece, damage=_damage(member, piece.damage))
            return
        reader = kinds.READERS.get(kind)
        found = self._snaplog(member, of) if kind == "snaplog" else None
        if reader is not None:
            found = reader(member.content, member.name, of)
        if found is None:
            # JSON with names of NDT's and without a result of it is no file that is known here.
            yield from self._leave_out(member, "unknown" if kind == "ndt" else kind)
            return
        self._counts[kind] += 1
        yield from self._keep(member, found)
        yield from self._ready()

    def rest(self) -> Iterator[Piece]:
        """Yield what is still gathered, and the notes on the whole file."""
        notes = list(self._notes())
        for piece in self._ready(all_of_it=True):
            yield replace(piece, notes=notes)
            notes = []
        if notes:
            yield self._piece("tcp", [], notes=notes)

    def _snaplog(self, member: Member, of: Host | None) -> Found:
        try:
            log = web100.decode(member.content)
        except web100.SnaplogError as reason:
            return Found(damage=str(reason))
        companion = self._companions_of(member).of(member.name)
        named = host(companion.server) if companion and companion.server else None
        rows = web100_rows.of_snaplog(log, member.name, named or of)
        test = web100_rows.ndt_row(log, rows, member.name, companion, of, self._last_record)
        self._counts[_BEYOND_CAP] += rows.height > web100_rows.MLAB_LAST_INDEX + 1
        return Found([rows], [test] if test else [], damage=web100.damage(log))

    def _leave_out(self, member: Member, kind: str) -> Iterator[Piece]:
        if not member.archived and kind == "unknown":
            begins = f"begins with {member.content[:12]!r}: {_EXPECTED}"
            raise RecordingError(f"{self._source}: " + (f"{member.damage}; {begins}" if member.damage else begins))
        self._counts[kind] += 1
        if kind == "unknown":
            self._first_unknown = self._first_unknown or member.name
        if member.damage and kind != "capture":
            yield self._piece("tcp", [], member, damage=member.damage)

    def _keep(self, member: Member, found: Found) -> Iterator[Piece]:
        self._counts += found.counts
        if found.notes:
            yield self._piece("tcp", [], member, found.notes)
        damage = _damage(member, found.damage)
        if damage is None:
            self._tcp += [frame for frame in found.tcp if frame.height]
            self._tests += found.tests
            if found.as_rows is not None:
                self._objects.setdefault(found.as_rows, []).extend(found.objects)
            return
        made = [found.as_rows(found.objects)] if found.as_rows is not None and found.objects else []
        frames = [frame for frame in (*found.tcp, *made) if frame.height]
        # The damage is reported once, with the first piece.
        if frames or not found.tests:
            yield self._piece("tcp", frames, member, damage=damage)
        if found.tests:
            notes = ["Its totals are those before the damage."]
            yield self._piece("ndt", _ndt_frames(found.tests), member, notes, damage=None if frames else damage)

    def _ready(self, *, all_of_it: bool = False) -> Iterator[Piece]:
        least = 1 if all_of_it else _MOST_ROWS
        for as_rows, objects in self._objects.items():
            if len(objects) >= (1 if all_of_it else _MOST_OBJECTS):
                self._tcp.append(as_rows(objects))
                self._objects[as_rows] = []
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
        last = "the true last" if self._last_record is None else f"that of index {self._last_record} at most"
        examples = {
            "capture": "`whydrop explain` reads them",
            "unknown": self._first_unknown,
            _BEYOND_CAP: f"M-Lab's tables take the record of index {_CAP} for a test's last, here it is {last}",
        }
        for kind, sentence in _COUNTED.items():
            # A .meta beside snaplogs is read with them.
            if self._counts[kind] and not (kind == "meta" and self._counts["snaplog"]):
                yield counted(sentence, self._counts[kind], examples.get(kind, ""))


def _damage(member: Member, inner: str | None) -> str | None:
    return "; ".join(filter(None, (member.damage, inner))) or None


def _ndt_frames(tests: list[dict[str, Any]]) -> list[pl.DataFrame]:
    columns = {name: [test.get(name) for test in tests] for name in NDT}
    return [pl.DataFrame(columns, schema=NDT)]
