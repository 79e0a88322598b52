"""Packets of an interface from the kernel: an AF_PACKET socket with a ring of blocks (TPACKET_V3).

The kernel writes packets into memory that it shares with this process, and counts those for which there was no room.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from whydrop.errors import Error
from whydrop.monitoring.rolling import filters, pcapng

ANY = "any"

# linux/if_packet.h
_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING, _TPACKET_V3 = 263, 5, 6, 10, 23, 2
_USER, _VLAN_VALID, _VLAN_TPID_VALID = 1, 0x10, 0x40
_OUTGOING = 4
_SO_ATTACH_FILTER = 26
_ALL_PROTOCOLS = 3
# linux/if_arp.h
_ETHERNET, _LOOPBACK = 1, 772

_BLOCK_BYTES, _BLOCKS = 1 << 20, 16
# A block that is not full is handed over after this time.
_WAIT_MS = 100
# Of a block: version, offset of private data; status, number of packets, offset of the first one.
_STATUS_AT = 8
_BLOCK = struct.Struct("=III")
# Of a packet: offset of the next one, time, captured and original length, status, offset of its data (and of its
# network header); then its hash, and the tag of a VLAN.
_HEAD = struct.Struct("=IIIIIIHHIII")
# sockaddr_ll behind it: protocol (in network order), interface, hardware type, kind, address.
_LINK_AT = 48
_LINK = struct.Struct("=HHiHBB8s")
# LINKTYPE_LINUX_SLL2
_COOKED = struct.Struct(">HHIHBB8s")


class CaptureError(Error):
    """Packets cannot be captured; the message says why, and what to type."""


# Its time, what was captured of it, and its length on the wire. Objects would cost more than all the rest.
Packet = tuple[int, bytes, int]


class PacketSocket:
    """The packets of one interface, or of any.

    Attributes:
        link_type: of the packets, as pcapng numbers it.
        dropped: packets for which the kernel had no room.
    """

    def __init__(self, interface: str, term: filters.Term | None, snap_bytes: int) -> None:
        """Begin to capture.

        Raises:
            CaptureError: the interface does not exist, or this process may not capture.
        """
        self.dropped = 0
        self._interface, self._wrong = interface, ""
        hardware = _hardware(interface)
        # Other links have headers of their own: the kernel removes them, and says the protocol.
        self._is_cooked = interface == ANY or hardware not in (_ETHERNET, _LOOPBACK)
        self.link_type = pcapng.LINUX_COOKED_2 if self._is_cooked else pcapng.ETHERNET
        base = 0 if self._is_cooked else 14
        count, code = filters.program(term, base=base, snap_bytes=snap_bytes)
        kind = socket.SOCK_DGRAM if self._is_cooked else socket.SOCK_RAW
        try:
            # Of one interface nothing comes in before it is bound; of any, what comes before the filter is there is
            # thrown away when the ring is made.
            protocol = socket.htons(_ALL_PROTOCOLS) if interface == ANY else 0
            self._socket = socket.socket(socket.AF_PACKET, kind, protocol)
        except OSError as reason:
            raise CaptureError(_in_words(reason)) from reason
        try:
            self._set_up(count, code)
            if interface != ANY:
                self._socket.bind((interface, _ALL_PROTOCOLS))
        except OSError as reason:
            self._socket.close()
            raise CaptureError(f"the packets of {interface} cannot be captured: {reason.strerror}") from reason
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN | select.POLLERR)
        self._next = 0

    def _set_up(self, count: int, code: bytes) -> None:
        memory = ctypes.create_string_buffer(code)
        self._socket.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", count, ctypes.addressof(memory))
        )
        self._socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
        frame = 2048
        ring = struct.pack(
            "=7I", _BLOCK_BYTES, _BLOCKS, frame, _BLOCK_BYTES // frame * _BLOCKS, _WAIT_MS, 0, 0
        )  # fmt: skip
        self._socket.setsockopt(_SOL_PACKET, _RX_RING, ring)
        self._memory = mmap.mmap(self._socket.fileno(), _BLOCK_BYTES * _BLOCKS)

    def wait(self, time_s: float) -> bool:
        """Wait for packets, no longer than this; True if there may be some."""
        for _, seen in self._poll.poll(time_s * 1000):
            if seen & select.POLLIN:
                return True
            # An interface that is down is always ready to say so.
            time.sleep(time_s)
        return False

    def take(self, most_blocks: int = _BLOCKS) -> Iterator[list[Packet]]:
        """The packets that have come, in order; the memory of each list is the kernel's again."""
        for _ in range(most_blocks):
            at = self._next * _BLOCK_BYTES
            status, count, first = _BLOCK.unpack_from(self._memory, at + _STATUS_AT)
            if not status & _USER:
                return
            found = list(self._packets(at + first, count))
            self._memory[at + _STATUS_AT : at + _STATUS_AT + 4] = b"\0\0\0\0"
            self._next = (self._next + 1) % _BLOCKS
            self._wrong = ""
            yield found

    def _packets(self, at: int, count: int) -> Iterator[Packet]:
        memory, head, link, htons = self._memory, _HEAD.unpack_from, _LINK.unpack_from, socket.htons
        for _ in range(count):
            onward, second, ns, snapped, length, status, start, _net, _hash, tag, kind = head(memory, at)
            _family, protocol, index, hardware, direction, size, address = link(memory, at + _LINK_AT)
            # What goes out on the loopback interface comes in there, too.
            if not (hardware == _LOOPBACK and direction == _OUTGOING):
                captured = memory[at + start : at + start + snapped]
                if self._is_cooked:
                    captured = _COOKED.pack(htons(protocol), 0, index, hardware, direction, size, address) + captured
                    length += _COOKED.size
                elif status & _VLAN_VALID:
                    captured, length = _tagged(captured, status, tag, kind), length + 4
                yield second * 1_000_000_000 + ns, captured, length
            at += onward

    def count_drops(self) -> int:
        """The packets that the kernel has dropped so far, since there was no room for them."""
        # Reading the counts resets them.
        _seen, dropped, _frozen = struct.unpack("=III", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 12))
        self.dropped += dropped
        return self.dropped

    def problem(self) -> str:
        """Why no packets come in, where the interface says so; empty otherwise."""
        # The kernel says it once: that it is over is seen when packets come again.
        reason = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if reason:
            self._wrong = f"no packets come from {self._interface}: {os.strerror(reason)}"
        return self._wrong

    def close(self) -> None:
        """End the capture."""
        self._memory.close()
        self._socket.close()


def _tagged(captured: bytes, status: int, tag: int, kind: int) -> bytes:
    """An Ethernet frame with the tag of its VLAN, which the kernel has removed."""
    kind = kind & 0xFFFF if status & _VLAN_TPID_VALID else 0x8100
    return captured[:12] + struct.pack(">HH", kind, tag & 0xFFFF) + captured[12:]


def _hardware(interface: str) -> int:
    if interface == ANY:
        return 0
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        raise CaptureError(f"there is no interface {interface!r}; there are any, {', '.join(names)}")
    try:
        return int(Path("/sys/class/net", interface, "type").read_text())
    except (OSError, ValueError):
        return 0


def _in_words(reason: OSError) -> str:
    if reason.errno in (errno.EPERM, errno.EACCES):
        return (
            "this process may not capture packets: it lacks the capability CAP_NET_RAW. Start whydrop as root, or type "
            f"`sudo setcap cap_net_raw+ep {Path(sys.executable).resolve()}`; the latter lets every program of this "
            "Python capture"
        )
    return f"packets cannot be captured here: {reason.strerror}"
