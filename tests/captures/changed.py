"""Captures changed as captures of the same packets differ: what records contain, how they are stamped,
where they were copied, in what they are wrapped."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow

ETHERNET, RAW, LINUX_COOKED_2 = 1, 101, 276
MS = 1_000_000
ETHERNET_BYTES = 14


class Record(NamedTuple):
    """One captured frame, its time in nanoseconds, and its length on the wire."""

    time_ns: int
    frame: bytes
    wire_bytes: int


Records = list[Record]


@dataclass(frozen=True)
class Tcp:
    """Where the parts of an Ethernet frame with IPv4 and TCP are, and what they say."""

    at: int
    options_end: int
    payload_bytes: int
    sequence: int
    acknowledgment: int
    flags: int
    flow: bytes

    @property
    def back(self) -> bytes:
        """The key of the other direction."""
        flow = self.flow
        return flow[4:8] + flow[:4] + flow[10:12] + flow[8:10]


def tcp_of(frame: bytes) -> Tcp:
    """The TCP header of a frame; the examples hold nothing else."""
    at = ETHERNET_BYTES + (frame[ETHERNET_BYTES] & 15) * 4
    header_bytes = (frame[at + 12] >> 4) * 4
    (total,) = struct.unpack_from(">H", frame, ETHERNET_BYTES + 2)
    sequence, acknowledgment = struct.unpack_from(">II", frame, at + 4)
    payload_bytes = ETHERNET_BYTES + total - at - header_bytes
    flow = frame[26:34] + frame[at : at + 4]
    return Tcp(at, at + header_bytes, payload_bytes, sequence, acknowledgment, frame[at + 13], flow)


def read(path: Path) -> Records:
    """The records of a capture packed with zstd, Ethernet, stamped in micro- or nanoseconds."""
    with pyarrow.CompressedInputStream(str(path), "zstd") as packed:
        raw = packed.read()
    unit_ns = {0xA1B23C4D: 1, 0xA1B2C3D4: 1000}[struct.unpack_from("<I", raw)[0]]
    records, at = [], 24
    while at < len(raw):
        seconds, rest, captured, wire = struct.unpack_from("<IIII", raw, at)
        at += 16
        records.append(Record(seconds * 10**9 + rest * unit_ns, raw[at : at + captured], wire))
        at += captured
    return records


def write(path: Path, records: Records, link: int = ETHERNET) -> Path:
    """A file of records in this order."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, link))
        for record in records:
            seconds, rest = divmod(record.time_ns, 10**9)
            file.write(struct.pack("<IIII", seconds, rest, len(record.frame), record.wire_bytes) + record.frame)
    return path


def lose(share: float, together: int) -> Callable[[Records], Records]:
    """Records that the capturing host missed, so many in a row."""

    def change(records: Records) -> Records:
        chance, left, kept = random.Random(together), 0, []
        for record in records:
            if left == 0 and chance.random() < share / together:
                left = together
            if left > 0:
                left -= 1
            else:
                kept.append(record)
        return kept

    return change


def cut(frame_bytes: int) -> Callable[[Records], Records]:
    """A shorter snapshot length."""
    return lambda records: [record._replace(frame=record.frame[:frame_bytes]) for record in records]


def stamped(clock: Callable[[int, int], int]) -> Callable[[Records], Records]:
    """Other stamps: of the time since the first record and the time that the capture lasts."""

    def change(records: Records) -> Records:
        first, last = records[0].time_ns, records[-1].time_ns
        return [record._replace(time_ns=first + clock(record.time_ns - first, last - first)) for record in records]

    return change


def stepped(by_ns: int) -> Callable[[Records], Records]:
    """A clock that is set in the middle of the capture."""
    return stamped(lambda since_ns, lasts_ns: since_ns + (by_ns if 2 * since_ns > lasts_ns else 0))


def rounded(tick_ns: int) -> Callable[[Records], Records]:
    """Stamps of a coarse clock."""
    return lambda records: [record._replace(time_ns=record.time_ns // tick_ns * tick_ns) for record in records]


def part(begin: float, end: float) -> Callable[[Records], Records]:
    """A capture that began late, or ended early."""

    def change(records: Records) -> Records:
        first, last = records[0].time_ns, records[-1].time_ns
        bounds = [first + share * (last - first) for share in (begin, end)]
        return [record for record in records if bounds[0] <= record.time_ns <= bounds[1]]

    return change


def _of_data(records: Records) -> set[bytes]:
    sent: dict[bytes, int] = {}
    for record in records:
        tcp = tcp_of(record.frame)
        sent[tcp.flow] = sent.get(tcp.flow, 0) + tcp.payload_bytes
        sent.setdefault(tcp.back, 0)
    return {flow for flow, payload in sent.items() if payload > sent[flow[4:8] + flow[:4] + flow[10:12] + flow[8:10]]}


def one_way(*, data: bool) -> Callable[[Records], Records]:
    """The data alone, or what acknowledges it."""

    def change(records: Records) -> Records:
        flows = _of_data(records)
        return [record for record in records if (tcp_of(record.frame).flow in flows) == data]

    return change


def copied(later_ns: int, change: Callable[[bytes], bytes] = bytes) -> Callable[[Records], Records]:
    """A tap that sees each packet twice."""

    def both(records: Records) -> Iterator[Record]:
        for record in records:
            frame = change(record.frame)
            yield record
            yield Record(record.time_ns + later_ns, frame, record.wire_bytes + len(frame) - len(record.frame))

    return lambda records: sorted(both(records), key=lambda record: record.time_ns)


def tagged(frame: bytes) -> bytes:
    """The frame in a VLAN."""
    return frame[:12] + b"\x81\0\0\7" + frame[12:]


def hopped(frame: bytes) -> bytes:
    """The frame behind a router."""
    return frame[:22] + bytes([frame[22] - 1]) + frame[23:]


def version_6(frame: bytes) -> bytes:
    """The packet as IPv6, which numbers none."""
    at = ETHERNET_BYTES + (frame[ETHERNET_BYTES] & 15) * 4
    (total,) = struct.unpack_from(">H", frame, ETHERNET_BYTES + 2)
    length = total - at + ETHERNET_BYTES
    network = bytes.fromhex("20010db80000000000000000")
    head = struct.pack(">IHBB", 6 << 28, length, frame[23], frame[22])
    return frame[:12] + b"\x86\xdd" + head + network + frame[26:30] + network + frame[30:34] + frame[at:]


def framed(change: Callable[[bytes], bytes]) -> Callable[[Records], Records]:
    """Each frame changed or wrapped."""

    def of(record: Record) -> Record:
        frame = change(record.frame)
        return record._replace(frame=frame, wire_bytes=record.wire_bytes + len(frame) - len(record.frame))

    return lambda records: [of(record) for record in records]


def disordered(by_ns: int) -> Callable[[Records], Records]:
    """Records of several queues, written a little out of order."""

    def change(records: Records) -> Records:
        chance = random.Random(by_ns)
        written = [(record.time_ns + chance.randrange(by_ns), record) for record in records]
        return [record for _, record in sorted(written, key=lambda pair: pair[0])]

    return change


def _options(frame: bytes, tcp: Tcp) -> Iterator[tuple[int, int, int]]:
    at = tcp.at + 20
    while at + 1 < tcp.options_end and frame[at] != 0:
        length = 1 if frame[at] == 1 else frame[at + 1]
        yield frame[at], at, length
        at += length


def without_options(*kinds: int) -> Callable[[bytes], bytes]:
    """Options that a middlebox made no-operations of."""

    def change(frame: bytes) -> bytes:
        changed = bytearray(frame)
        for kind, at, length in _options(frame, tcp_of(frame)):
            if kind in kinds:
                changed[at : at + length] = b"\1" * length
        return bytes(changed)

    return change


def wrapping(records: Records) -> Records:
    """Sequence numbers that begin again in the midst of each flow."""
    ends: dict[bytes, list[int]] = {}
    for record in records:
        tcp = tcp_of(record.frame)
        low, high = ends.setdefault(tcp.flow, [tcp.sequence, tcp.sequence])
        ends[tcp.flow] = [low, max(high, tcp.sequence)]
    return renumbered({flow: 2**32 - sum(both) // 2 for flow, both in ends.items()})(records)


def renumbered(added: Mapping[bytes, int], *, sack: bool = True) -> Callable[[Records], Records]:
    """Sequence numbers changed by a constant for each flow, and what acknowledges them, selectively too or not."""

    def change(frame: bytes) -> bytes:
        tcp, changed = tcp_of(frame), bytearray(frame)
        back = added.get(tcp.back, 0)

        def move(at: int, by: int) -> None:
            struct.pack_into(">I", changed, at, (struct.unpack_from(">I", frame, at)[0] + by) % 2**32)

        move(tcp.at + 4, added.get(tcp.flow, 0))
        if tcp.flags & 0x10:
            move(tcp.at + 8, back)
        for kind, at, length in _options(frame, tcp):
            for edge in range(at + 2, at + length, 4) if kind == 5 and sack else ():
                move(edge, back)
        return bytes(changed)

    return framed(change)


def joined(gap_ns: int) -> Callable[[Records], Records]:
    """Segments that follow each other at once are one, as segmentation offload hands them over."""

    def change(records: Records) -> Records:
        kept: list[Record] = []
        latest: dict[bytes, tuple[int, int, int]] = {}  # place, time and end of a flow's last data
        for record in records:
            tcp = tcp_of(record.frame)
            place, last_ns, end = latest.get(tcp.flow, (-1, 0, -1))
            follows = tcp.payload_bytes > 0 and tcp.sequence == end and record.time_ns - last_ns < gap_ns
            if follows and kept[place].wire_bytes + tcp.payload_bytes < 60_000:
                frame = bytearray(kept[place].frame)
                (total,) = struct.unpack_from(">H", frame, ETHERNET_BYTES + 2)
                struct.pack_into(">H", frame, ETHERNET_BYTES + 2, total + tcp.payload_bytes)
                wire_bytes = kept[place].wire_bytes + tcp.payload_bytes
                kept[place] = Record(kept[place].time_ns, bytes(frame), wire_bytes)
            else:
                place = len(kept)
                kept.append(record)
            if tcp.payload_bytes > 0:
                latest[tcp.flow] = (place, record.time_ns, (tcp.sequence + tcp.payload_bytes) % 2**32)
        return kept

    return change


def vxlan(frame: bytes) -> bytes:
    """The frame in a tunnel."""
    inner = struct.pack(">HHHH", 50_000, 4789, 16 + len(frame), 0) + b"\x08\0\0\0\0\0\x2a\0" + frame
    outer = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 0, 0, 64, 17, 0) + bytes([10, 254, 0, 1, 10, 254, 0, 2])
    return frame[:12] + b"\x08\0" + outer + inner


def cooked(frame: bytes) -> bytes:
    """Linux cooked capture, version 2, as of ``-i any``."""
    return frame[12:14] + b"\0\0" + struct.pack(">IHBB", 2, 1, 0, 6) + frame[6:12] + b"\0\0" + frame[14:]
