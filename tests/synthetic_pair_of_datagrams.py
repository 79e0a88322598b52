"""Two captures of UDP datagrams before and behind a policer of 60 Mbit/s with a bucket of 51.2 kB."""

from __future__ import annotations

import random
import struct
from pathlib import Path

RATE_BPS, BURST_BYTES = 60e6, 51_200
_IP_BYTES = 1500
_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)


def write(near: Path, far: Path, packets: int) -> int:
    """Write both captures, in which bursts at 1 Gbit/s follow each other; return the number of packets lost."""
    drawn = random.Random(3)
    time_ns = last_ns = 1_700_000_000_000_000_000
    level, lost, number = float(BURST_BYTES), 0, 0
    before, behind = [_HEADER], [_HEADER]
    while number < packets:
        time_ns += int(drawn.expovariate(1 / 12e6))
        for _ in range(min(drawn.randrange(5, 90), packets - number)):
            time_ns, number = time_ns + 12_200, number + 1
            packet = _datagram(number, drawn.getrandbits(63))
            before.append(_record(time_ns, packet))
            level = min(BURST_BYTES, level + (time_ns - last_ns) * RATE_BPS / 8e9)
            last_ns = time_ns
            if level < _IP_BYTES:
                lost += 1
                continue
            level -= _IP_BYTES
            behind.append(_record(time_ns + 5_000_000 + drawn.randrange(200_000), packet))
    near.write_bytes(b"".join(before))
    far.write_bytes(b"".join(behind))
    return lost


def _record(time_ns: int, packet: bytes) -> bytes:
    return struct.pack("<IIII", *divmod(time_ns, 10**9), len(packet), _IP_BYTES + 14) + packet


def _datagram(number: int, content: int) -> bytes:
    """The start of a datagram: the rest was not captured."""
    payload = struct.pack(">QQ", number, content) + bytes(18)
    udp = struct.pack(">HHHH", 5000, 6000, _IP_BYTES - 20, 0)
    ends = bytes([10, 0, 0, 1]), bytes([10, 0, 9, 1])
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, _IP_BYTES, number & 0xFFFF, 0x4000, 64, 17, 0, *ends)
    total = sum(struct.unpack(">10H", header))
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    return bytes(12) + b"\x08\x00" + header[:10] + struct.pack(">H", checksum) + header[12:] + udp + payload
