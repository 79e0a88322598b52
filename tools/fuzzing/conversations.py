"""Captures of small transfers, drawn: the seeds that need no file."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from random import Random

from fuzzing.frames import Frame, Frames

_FIN, _SYN, _RST, _PSH, _ACK = 1, 2, 4, 8, 16
_START_NS = 1_700_000_000_000_000_000
_RAW = 101


@dataclass
class _Side:
    address: bytes
    port: int
    next: int
    window: int
    scale: int


@dataclass
class _Talk:
    """One connection as a capture between its ends sees it."""

    random: Random
    frames: list[Frame] = field(default_factory=list)
    now_ns: int = _START_NS

    def __post_init__(self) -> None:
        ends = ((b"\xc0\x00\x02\x01", 443), (b"\xc6\x33\x64\x07", self.random.randrange(32768, 60999)))
        self.server, self.client = (
            _Side(address, port, self.random.getrandbits(32), self.random.choice((0, 1460, 8192, 65535)), 7)
            for address, port in ends
        )
        self.has_timestamps = self.random.random() < 0.7
        self.has_sack = self.random.random() < 0.7
        self.is_ipv6 = self.random.random() < 0.2

    def send(
        self,
        source: _Side,
        flags: int,
        payload: int = 0,
        sequence: int | None = None,
        acknowledgment: int | None = None,
        sack: tuple[tuple[int, int], ...] = (),
    ) -> None:
        peer = self.client if source is self.server else self.server
        options = self._options(flags, sack)
        sequence = source.next if sequence is None else sequence
        acknowledgment = (peer.next if flags & _ACK else 0) if acknowledgment is None else acknowledgment
        tcp = struct.pack(
            "!HHIIHHHH",
            source.port,
            peer.port,
            sequence & 0xFFFFFFFF,
            acknowledgment & 0xFFFFFFFF,
            (5 + len(options) // 4) << 12 | flags,
            min(source.window, 65535),
            0,
            0,
        )
        captured = (tcp + options + bytes(payload))[: self.random.choice((60, 96, 1600))]
        whole = len(tcp) + len(options) + payload
        self.frames.append(self._frame(source, peer, captured, whole))
        end = sequence + payload + bool(flags & (_SYN | _FIN))
        source.next = max(source.next, end)

    def _frame(self, source: _Side, peer: _Side, captured: bytes, whole: int) -> Frame:
        if self.is_ipv6:
            ip = struct.pack("!IHBB", 6 << 28, min(whole, 65535), 6, 60)
            ip += b"\x20\x01\x0d\xb8" + bytes(8) + source.address + b"\x20\x01\x0d\xb8" + bytes(8) + peer.address
        else:
            number = self.random.getrandbits(16)
            ip = struct.pack("!BBHHHBBH", 0x45, 0, min(20 + whole, 65535), number, 0x4000, 60, 6, 0)
            ip += source.address + peer.address
        return Frame(self.now_ns, len(ip) + whole, bytearray(ip + captured))

    def _options(self, flags: int, sack: tuple[tuple[int, int], ...]) -> bytes:
        options = b""
        if flags & _SYN:
            options += struct.pack("!BBH", 2, 4, 1460) + bytes((1, 3, 3, 7))
            options += b"\x01\x01\x04\x02" if self.has_sack else b""
        if self.has_timestamps:
            ticks = self.now_ns // 1_000_000 & 0xFFFFFFFF
            options += b"\x01\x01\x08\x0a" + struct.pack("!II", ticks, ticks - 20 & 0xFFFFFFFF)
        if sack and self.has_sack:
            options += bytes((1, 1, 5, 2 + 8 * len(sack)))
            options += b"".join(struct.pack("!II", a & 0xFFFFFFFF, b & 0xFFFFFFFF) for a, b in sack)
        return options

    def wait(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)

    def set_up(self, round_trip_s: float) -> None:
        self.send(self.client, _SYN)
        self.wait(round_trip_s)
        self.send(self.server, _SYN | _ACK)
        self.wait(1e-4)
        self.send(self.client, _ACK)

    def round(self, segments: int, round_trip_s: float, loss: float) -> None:
        """A window of data, its acknowledgments, and what was lost once more."""
        first = self.server.next
        gaps = [number for number in range(segments) if self.random.random() < loss]
        for _ in range(segments):
            self.send(self.server, _ACK | _PSH, 1448)
            self.wait(self.random.expovariate(1 / 2e-4))
        self.wait(round_trip_s)
        lowest = first + 1448 * gaps[0] if gaps else self.server.next
        for number in range(1, segments + 1, 2):
            end = first + 1448 * number
            blocks = ((lowest + 1448, end),) if end > lowest + 1448 else ()
            self.send(self.client, _ACK, acknowledgment=min(end, lowest), sack=blocks)
            self.wait(1e-4)
        for number in gaps:
            self.wait(self.random.choice((1e-3, 0.25, 1.0)))
            self.send(self.server, _ACK, 1448, sequence=first + 1448 * number)
            self.wait(round_trip_s)
        self.send(self.client, _ACK)

    def close_window(self, round_trip_s: float) -> None:
        """The receiver takes no more; the sender probes it."""
        self.client.window, before = 0, self.client.window
        self.send(self.client, _ACK)
        for number in range(self.random.randrange(1, 4)):
            self.wait(0.2 * 2**number)
            self.send(self.server, _ACK, 1)
            self.server.next -= self.random.randrange(2)
            self.wait(round_trip_s)
            self.send(self.client, _ACK)
        self.client.window = before


def drawn(random: Random) -> Frames:
    """Draw a capture of one small transfer, or two that share the time."""
    frames: list[Frame] = []
    for _ in range(random.choice((1, 1, 2))):
        talk = _Talk(random)
        round_trip_s = random.choice((1e-5, 2e-3, 0.03, 0.4))
        if random.random() < 0.8:
            talk.set_up(round_trip_s)
        if random.random() < 0.6:
            talk.send(talk.client, _ACK | _PSH, random.choice((1, 120, 4000)))
            talk.wait(random.choice((1e-4, 0.1, 3.0)))
        for _ in range(random.randrange(4)):
            talk.round(random.randrange(1, 30), round_trip_s, random.choice((0.0, 0.05, 0.4)))
            if random.random() < 0.2:
                talk.close_window(round_trip_s)
            if random.random() < 0.2:
                talk.wait(random.choice((0.3, 2.0, 70.0)))
        for end, flags in ((talk.server, _FIN | _ACK), (talk.client, random.choice((_FIN | _ACK, _RST)))):
            if random.random() < 0.6:
                talk.send(end, flags)
                talk.wait(round_trip_s)
        frames += talk.frames
    frames.sort(key=lambda frame: frame.time_ns)
    return Frames(_RAW, frames)
