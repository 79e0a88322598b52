"""A box on the path that does to packets what boxes on real paths do: a program for a host of the lab with two links.

It takes Ethernet frames from one link, rewrites them, and puts them on the other; the kernel's forwarding must be off.
Both ends are real hosts with the kernel's own TCP. Usage: ``python middlebox.py '{"links": [...], "effect": ...}'``.
"""

from __future__ import annotations

import heapq
import itertools
import json
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

SOL_PACKET, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 23, 3
ETHERNET, IPV4 = 14, 20
FIN, SYN, RST, ACK, ECE, CWR = 1, 2, 4, 16, 64, 128
NOP, WINDOW_SCALE, SACK = 1, 3, 5


def ones_complement(data: bytes) -> int:
    """The sum of RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@dataclass
class Frame:
    """An IPv4 packet; one that carries TCP can be read and written."""

    data: bytearray
    is_damaged: bool = False

    def __post_init__(self) -> None:
        ip = self.data[ETHERNET:]
        self.is_ipv4 = self.data[12:14] == b"\x08\x00" and ip[0] == 0x45
        self.is_tcp = self.is_ipv4 and ip[9] == 6
        self.size = int.from_bytes(ip[2:4], "big") if self.is_tcp else len(ip)
        self.at = ETHERNET + IPV4
        if self.is_tcp:
            del self.data[ETHERNET + self.size :]
            self.header = (self.data[self.at + 12] >> 4) * 4
            self.payload = self.size - IPV4 - self.header
            self.flags = self.data[self.at + 13]
            self.addresses = bytes(self.data[ETHERNET + 12 : ETHERNET + 20])
            self.ports = bytes(self.data[self.at : self.at + 4])

    def word(self, at: int, value: int | None = None) -> int:
        """The 32-bit word at a place of the TCP header; writes it if there is a value."""
        if value is not None:
            struct.pack_into("!I", self.data, self.at + at, value & 0xFFFFFFFF)
        return int(struct.unpack_from("!I", self.data, self.at + at)[0])

    def options(self) -> Iterator[tuple[int, int, int]]:
        """Kind, place in the frame and length of each option."""
        at, end = self.at + 20, self.at + self.header
        while at < end and self.data[at]:
            length = 1 if self.data[at] == NOP else max(self.data[at + 1], 2)
            yield self.data[at], at, length
            at += length

    def strip(self, unwanted: int) -> None:
        """Overwrite an option, as firewalls do."""
        for kind, at, length in list(self.options()):
            if kind == unwanted:
                self.data[at : at + length] = bytes([NOP]) * length

    def sealed(self, hops: int = 1) -> bytes:
        """The frame with a smaller TTL and right checksums."""
        self.data[ETHERNET + 8] -= hops
        self.data[ETHERNET + 10 : ETHERNET + 12] = b"\0\0"
        struct.pack_into("!H", self.data, ETHERNET + 10, ones_complement(bytes(self.data[ETHERNET : self.at])))
        if self.is_tcp:
            struct.pack_into("!H", self.data, self.at + 16, 0)
            tcp = bytes(self.data[self.at :])
            pseudo = bytes(self.data[ETHERNET + 12 : ETHERNET + 20]) + struct.pack("!HH", 6, len(tcp))
            struct.pack_into("!H", self.data, self.at + 16, ones_complement(pseudo + tcp))
        if self.is_damaged:
            self.data[-1] ^= 1
        return bytes(self.data)

    def reset(self, *, back: bool, ttl: int) -> Frame:
        """A reset that claims to be of the other end (``back``), or of the sender of this packet."""
        data = bytearray(self.data[: self.at + 20])
        sequence, acknowledgment = self.word(4), self.word(8)
        if back:
            data[0:6], data[6:12] = data[6:12], data[0:6]
            start = ETHERNET + 12
            data[start : start + 8] = data[start + 4 : start + 8] + data[start : start + 4]
            data[self.at : self.at + 4] = data[self.at + 2 : self.at + 4] + data[self.at : self.at + 2]
            sequence, acknowledgment = acknowledgment, 0
        struct.pack_into("!HH", data, ETHERNET + 2, 40, random.randrange(1, 65536))
        struct.pack_into("!IIBBHHH", data, self.at + 4, sequence, acknowledgment, 0x50, RST, 0, 0, 0)
        data[ETHERNET + 8] = ttl + 1
        return Frame(data)


# What to do with a packet that came from a link (0 or 1): frames for links, each with its delay beyond the box's own.
Effect = Callable[[Frame, int, float], list[tuple[float, int, Frame]]]


class Box:
    """The settings, and one effect on the packets."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.delay_s = settings.get("delay_s", 0.0)
        self.random = random.Random(settings.get("seed", 1))
        self.effect: Effect = getattr(self, settings.get("effect", "nothing"))
        # The others read what only TCP has.
        self.on_all: tuple[Effect, ...] = (self.lose_any, self.police)
        self.began_s: float | None = None
        self.last_s: dict[frozenset[bytes], float] = {}
        self.due_s = 0.0
        self.carried = 0
        self.done = False
        self.numbers = itertools.count(1)
        self.filled_s, self.tokens_bytes = 0.0, float(settings.get("burst_bytes", 0))

    def nothing(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Pass everything on."""
        return [(0.0, 1 - link, frame)]

    def lose(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Lose full packets by chance; of the smaller ones none."""
        lost = frame.payload >= 1000 and self.random.random() < self.settings["share"]
        return [] if lost else self.nothing(frame, link, now_s)

    def lose_any(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Lose packets of every kind and size by chance."""
        return [] if self.random.random() < self.settings["share"] else self.nothing(frame, link, now_s)

    def police(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Drop what exceeds a token bucket, in IP bytes, of the packets that come from the first link."""
        if link != 0:
            return self.nothing(frame, link, now_s)
        burst_bytes, rate_bps = self.settings["burst_bytes"], self.settings["rate_bps"]
        earned_bytes = (now_s - self.filled_s) * rate_bps / 8
        self.filled_s, self.tokens_bytes = now_s, min(burst_bytes, self.tokens_bytes + earned_bytes)
        size_bytes = len(frame.data) - ETHERNET
        if size_bytes > self.tokens_bytes:
            return []
        self.tokens_bytes -= size_bytes
        return self.nothing(frame, link, now_s)

    def outage(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Pass nothing for a while."""
        start_s = self.settings["start_s"]
        down = start_s <= now_s < start_s + self.settings["length_s"]
        return [] if down else self.nothing(frame, link, now_s)

    def black_hole(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Drop packets that are too large, without an ICMP error."""
        return [] if frame.size > self.settings["mtu"] else self.nothing(frame, link, now_s)

    def forget(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Forget connections that are idle; what comes on them later is dropped, or answered by a reset."""
        key = frozenset((frame.ports[:2] + frame.addresses[:4], frame.ports[2:] + frame.addresses[4:]))
        last_s = self.last_s.get(key, now_s if frame.flags & SYN else -1e9)
        if now_s - last_s < self.settings["after_s"]:
            self.last_s[key] = now_s
            return self.nothing(frame, link, now_s)
        if self.settings.get("reset") and not frame.flags & RST:
            return [(0.0, link, frame.reset(back=True, ttl=self.settings["ttl"]))]
        return []

    def reset(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Reset a connection at both ends once it has carried so much."""
        self.carried += frame.payload
        passed = self.nothing(frame, link, now_s)
        if self.done or self.carried < self.settings["after_bytes"] or not frame.payload:
            return passed
        self.done = True
        ttl = self.settings["ttl"]
        return [(0.0, 1 - link, frame.reset(back=False, ttl=ttl)), (0.0, link, frame.reset(back=True, ttl=ttl))]

    def double(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Deliver every so manieth packet with data twice."""
        copy = Frame(bytearray(frame.data))
        twice = frame.payload > 0 and next(self.numbers) % self.settings["each"] == 0
        return [(0.0, 1 - link, frame), (0.0001, 1 - link, copy)] if twice else [(0.0, 1 - link, frame)]

    def strip_scale(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Take the window scale out of SYN/ACKs."""
        if frame.flags & SYN and frame.flags & ACK:
            frame.strip(WINDOW_SCALE)
        return self.nothing(frame, link, now_s)

    def strip_sack(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Take selective acknowledgments out, and lose packets."""
        frame.strip(SACK)
        return self.lose(frame, link, now_s)

    def mangle_sack(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Shift the sequence numbers of one direction, but not those in the option; and lose packets."""
        if link == self.settings["link"]:
            frame.word(4, frame.word(4) + self.settings["shift"])
        elif frame.flags & ACK:
            frame.word(8, frame.word(8) - self.settings["shift"])
        return self.lose(frame, link, now_s)

    def block_ecn(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Drop SYNs that offer ECN."""
        offers = frame.flags & SYN and not frame.flags & ACK and frame.flags & (ECE | CWR)
        return [] if offers else self.nothing(frame, link, now_s)

    def damage(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Change a bit in every so manieth packet with data, and leave the checksum as it is."""
        frame.is_damaged = frame.payload > 0 and next(self.numbers) % self.settings["each"] == 0
        return self.nothing(frame, link, now_s)

    def bleach(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Clear the ECN bits."""
        frame.data[ETHERNET + 1] &= 0xFC
        return self.nothing(frame, link, now_s)

    def mark(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Mark every so manieth packet that is capable of it; the echoes may be taken out."""
        if frame.data[ETHERNET + 1] & 3 and next(self.numbers) % self.settings["each"] == 0:
            frame.data[ETHERNET + 1] |= 3
        if self.settings.get("mute") and not frame.flags & SYN:
            frame.data[frame.at + 13] &= ~ECE
        return self.nothing(frame, link, now_s)

    def vary(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Delay each packet of one direction by a time drawn for it; none overtakes another."""
        if link != self.settings["link"]:
            return self.nothing(frame, link, now_s)
        self.due_s = max(now_s + self.random.uniform(0, self.settings["most_s"]), self.due_s)
        return [(self.due_s - now_s, 1 - link, frame)]

    def gather(self, frame: Frame, link: int, now_s: float) -> list[tuple[float, int, Frame]]:
        """Let the packets of one direction go at certain times only, together."""
        if link != self.settings["link"]:
            return self.nothing(frame, link, now_s)
        each_s = self.settings["each_s"]
        return [(each_s - now_s % each_s, 1 - link, frame)]

    def run(self, links: list[dict[str, str]]) -> None:
        """Carry packets until killed."""
        sockets = []
        for link in links:
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            opened.bind((link["name"], ETH_P_ALL))
            opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
            sockets.append(opened)
        heads = [bytes.fromhex(link["to"] + link["from"]) for link in links]
        waiting: list[tuple[float, int, int, bytes]] = []
        order = itertools.count()
        print("carrying", flush=True)
        while True:
            wait_s = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
            for ready in select.select(sockets, [], [], wait_s)[0]:
                link = sockets.index(ready)
                frame = Frame(bytearray(ready.recv(65536)))
                if not frame.is_ipv4:
                    continue
                now_s = time.monotonic()
                self.began_s = self.began_s or now_s
                effect = self.effect if frame.is_tcp or self.effect in self.on_all else self.nothing
                for later_s, to, out in effect(frame, link, now_s - self.began_s):
                    due_s = now_s + self.delay_s + later_s
                    heapq.heappush(waiting, (due_s, next(order), to, out.sealed()))
            while waiting and waiting[0][0] <= time.monotonic():
                _, _, to, data = heapq.heappop(waiting)
                sockets[to].send(heads[to] + data[12:])


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    Box(given).run(given["links"])
