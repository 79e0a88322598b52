"""Captures as lists of frames: read, written, and where the headers of a frame are."""

from __future__ import annotations

import gzip
import lzma
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

_PCAP_UNITS_NS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
_SECTION, _INTERFACE, _SIMPLE_PACKET, _ENHANCED_PACKET = 0x0A0D0D0A, 1, 3, 6
_ETHERNET, _RAW, _COOKED, _COOKED_2 = 1, 101, 113, 276
# Where the type of what a frame carries stands, and where that begins.
_NETWORK_AT = {_ETHERNET: (12, 14), _COOKED: (14, 16), _COOKED_2: (0, 20)}
_TCP, _IPV4, _IPV6 = 6, 0x0800, 0x86DD
_LARGEST_NS = (1 << 32) * 1_000_000_000 - 1


@dataclass
class Frame:
    """One packet of a capture."""

    time_ns: int
    wire_bytes: int
    data: bytearray

    def copy(self) -> Frame:
        """Give the same, to be changed by itself."""
        return replace(self, data=bytearray(self.data))


@dataclass
class Frames:
    """A capture of one link type."""

    link_type: int
    frames: list[Frame]

    def copy(self) -> Frames:
        """Give the same, to be changed by itself."""
        return Frames(self.link_type, [frame.copy() for frame in self.frames])


@dataclass(frozen=True)
class Headers:
    """Offsets of the headers of a TCP segment within its frame."""

    ip: int
    is_ipv6: bool
    tcp: int
    options_end: int


def headers(link_type: int, frame: Frame) -> Headers | None:
    """Find the headers of a TCP segment; ``None`` where there is none, or not all of its header."""
    data = frame.data
    ip = 0
    if link_type in _NETWORK_AT:
        kind_at, ip = _NETWORK_AT[link_type]
        if len(data) < ip or struct.unpack_from("!H", data, kind_at)[0] not in (_IPV4, _IPV6):
            return None
    elif link_type != _RAW:
        return None
    if len(data) < ip + 40:
        return None
    is_ipv6 = data[ip] >> 4 == 6
    tcp = ip + (40 if is_ipv6 else 4 * (data[ip] & 15))
    if data[ip + (6 if is_ipv6 else 9)] != _TCP or len(data) < tcp + 20:
        return None
    return Headers(ip, is_ipv6, tcp, min(tcp + 4 * (data[tcp + 12] >> 4), len(data)))


def read(path: Path, most: int) -> Frames | None:
    """Read the first so many frames of a capture; ``None`` where it is none that this reads."""
    raw = _decompressed(path)
    if raw is None or len(raw) < 24:
        return None
    try:
        if struct.unpack_from("<I", raw)[0] == _SECTION:
            return _pcapng(raw, most)
        return _pcap(raw, most)
    except struct.error:
        return None


def _decompressed(path: Path) -> bytes | None:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        return gzip.decompress(raw)
    if raw[:6] == b"\xfd7zXZ\0":
        return lzma.decompress(raw)
    if raw[:4] == b"\x28\xb5\x2f\xfd":
        program = shutil.which("zstd")
        return subprocess.run([program, "-dcq", path], check=True, capture_output=True).stdout if program else None
    return raw


def _pcap(raw: bytes, most: int) -> Frames | None:
    for order in "<>":
        unit_ns = _PCAP_UNITS_NS.get(struct.unpack_from(f"{order}I", raw)[0])
        if unit_ns is None:
            continue
        frames: list[Frame] = []
        at = 24
        while at + 16 <= len(raw) and len(frames) < most:
            seconds, fraction, captured, wire = struct.unpack_from(f"{order}4I", raw, at)
            data = bytearray(raw[at + 16 : at + 16 + captured])
            frames.append(Frame(seconds * 1_000_000_000 + fraction * unit_ns, wire, data))
            at += 16 + captured
        return Frames(struct.unpack_from(f"{order}I", raw, 20)[0] & 0xFFFF, frames)
    return None


def _pcapng(raw: bytes, most: int) -> Frames | None:
    """Read the packets of the first interface of a file in this machine's order of bytes, stamped in microseconds."""
    link_type = None
    frames: list[Frame] = []
    for kind, body in _blocks(raw):
        if kind == _INTERFACE and link_type is None:
            link_type = struct.unpack_from("<H", body)[0]
        elif kind == _ENHANCED_PACKET and len(frames) < most:
            interface, high, low, captured, wire = struct.unpack_from("<5I", body)
            if interface == 0:
                frames.append(Frame((high << 32 | low) * 1000, wire, bytearray(body[20 : 20 + captured])))
    return None if link_type is None else Frames(link_type, frames)


def _blocks(raw: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 12 <= len(raw):
        kind, length = struct.unpack_from("<2I", raw, at)
        if length < 12 or at + length > len(raw):
            return
        yield kind, raw[at + 8 : at + length - 4]
        at += length


def written(capture: Frames) -> bytes:
    """Write a capture as pcap with nanoseconds."""
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, capture.link_type)]
    for frame in capture.frames:
        seconds, fraction = divmod(min(max(frame.time_ns, 0), _LARGEST_NS), 1_000_000_000)
        wire_bytes = min(max(frame.wire_bytes, len(frame.data)), 0xFFFFFFFF)
        parts += [struct.pack("<4I", seconds, fraction, len(frame.data), wire_bytes), bytes(frame.data)]
    return b"".join(parts)
