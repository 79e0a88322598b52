"""A hop that delays, loses at random and polices, where the kernel has no netem and no policer; a program for a host.

It takes frames from one of two links and puts them on the other, untouched but for their link addresses, in real time:
some thousand a second. Usage: ``python far_hop.py '{"links": [...], "delay_s": 0.025, "jitter_s": 0.002, "loss": 0.01,
"police": [bit/s, bytes]}'``; what is policed is what comes from the first link, counted as IP bytes. Jitter is added
to the delay, between 0 and what is given; no packet overtakes another.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import random
import select
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

SOL_PACKET, PACKET_IGNORE_OUTGOING, ETH_P_ALL, SO_SNDBUFFORCE, SO_RCVBUFFORCE = 263, 23, 3, 32, 33
ETHERNET_BYTES = 14
IP = (b"\x08\x00", b"\x86\xdd")


@dataclass
class TokenBucket:
    """A policer: packets that exceed it are dropped."""

    rate_bps: float
    burst_bytes: float
    tokens: float = 0.0
    last_s: float = 0.0

    def takes(self, size_bytes: int, now_s: float) -> bool:
        """True if a packet passes."""
        self.tokens = min(self.burst_bytes, self.tokens + (now_s - self.last_s) * self.rate_bps / 8)
        self.last_s = now_s
        if self.tokens < size_bytes:
            return False
        self.tokens -= size_bytes
        return True


def opened(name: str) -> socket.socket:
    """All frames that come by a link."""
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    found.bind((name, 0))
    found.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    found.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 8 << 20)
    # Packets that wait in a queue of the link count as this socket's until they leave.
    found.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)
    found.setblocking(False)
    return found


def run(settings: dict[str, Any]) -> None:
    """Carry frames until killed."""
    links = settings["links"]
    sockets = [opened(link["name"]) for link in links]
    heads = [bytes.fromhex(link["to"] + link["from"]) for link in links]
    bucket = TokenBucket(*settings["police"]) if settings.get("police") else None
    chance, numbers = random.Random(1), itertools.count()
    waiting: list[tuple[float, int, int, bytes]] = []
    latest_s = [0.0, 0.0]
    print("carrying", flush=True)
    while True:
        wait_s = max(waiting[0][0] - time.monotonic(), 0) if waiting else None
        for ready in select.select(sockets, [], [], wait_s)[0]:
            link = sockets.index(ready)
            for frame in frames(ready):
                now_s = time.monotonic()
                lost = chance.random() < settings.get("loss", 0.0)
                policed = bucket and link == 0 and not bucket.takes(len(frame) - ETHERNET_BYTES, now_s)
                if not lost and not policed:
                    due_s = now_s + settings["delay_s"] + chance.random() * settings.get("jitter_s", 0.0)
                    latest_s[link] = max(latest_s[link], due_s)
                    heapq.heappush(waiting, (latest_s[link], next(numbers), 1 - link, frame))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, to, frame = heapq.heappop(waiting)
            # A full queue of the link drops the packet, and says so here.
            with contextlib.suppress(OSError):
                sockets[to].send(heads[to] + frame[12:])


def frames(ready: socket.socket) -> list[bytes]:
    """Those that have come, of IP."""
    found = []
    while True:
        try:
            frame = ready.recv(65536)
        except BlockingIOError:
            return found
        if frame[12:14] in IP:
            found.append(frame)


if __name__ == "__main__":
    run(json.loads(sys.argv[1]))
