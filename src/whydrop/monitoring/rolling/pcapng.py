"""Packets as a pcapng file: its head, and its blocks."""

from __future__ import annotations

import struct

ETHERNET, RAW_IP, LINUX_COOKED_2 = 1, 101, 276
_PACKET = struct.Struct("=IIIIIII")
_WORD = struct.Struct("=I")
_PADDING = (b"", b"\0\0\0", b"\0\0", b"\0")
_PACKET_BLOCK = 6


def head(link_type: int, snap_bytes: int, interface: str) -> bytes:
    """The section header and the description of one interface, with nanoseconds."""
    section = _block(0x0A0D0D0A, struct.pack("=IHHq", 0x1A2B3C4D, 1, 0, -1) + _option(4, b"whydrop") + _option(0, b""))
    options = _option(2, interface.encode()) + _option(9, b"\x09") + _option(0, b"")
    return section + _block(1, struct.pack("=HHI", link_type, 0, snap_bytes) + options)


def packet(time_ns: int, captured: bytes, length: int) -> bytes:
    """The block of a packet, of which ``length`` bytes were on the wire."""
    padding = _PADDING[len(captured) & 3]
    total = 32 + len(captured) + len(padding)
    fields = _PACKET.pack(
        _PACKET_BLOCK, total, 0, time_ns >> 32, time_ns & 0xFFFFFFFF, len(captured), length
    )  # fmt: skip
    return b"".join((fields, captured, padding, _WORD.pack(total)))


def _block(kind: int, body: bytes) -> bytes:
    total = struct.pack("=I", len(body) + 12)
    return struct.pack("=I", kind) + total + body + total


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("=HH", code, len(value)) + value + _PADDING[len(value) & 3]
