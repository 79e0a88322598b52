"""Packets to each hop of a path, with what became of them; and the hops themselves."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES
from whydrop.measure.depth.tracing.packets import Answer, Echoes, Markers, Packet

_MOST_HOPS = 30
_DISCOVERIES = 3
# A router far away answers within this time, or never.
ANSWER_S = 1.0
# Routers that answer so many packets in so short a time do not limit what is asked of them here.
RATE_TEST_PACKETS = 10
_RATE_TEST_EVERY_S = 0.1
# Linux answers one packet a second of each host when it has answered six (icmp(7), icmp_ratelimit).
_LIMITED_EVERY_S = 1.1
_UNLIMITED_EVERY_S = 0.15
_GAP_S = 0.01

# A UDP packet and an echo request for each hop.
MOST_DISCOVERING_PACKETS = 2 * _DISCOVERIES * _MOST_HOPS
MOST_PACKETS_BEFORE = MOST_DISCOVERING_PACKETS + RATE_TEST_PACKETS * _MOST_HOPS
"""Packets before the first burst, at most."""


@dataclass
class Marker:
    """A packet with a time to live that ends at a hop.

    Attributes:
        hop: that hop; 0: the packet is for the host, and nothing is expected to answer it.
        in_burst: it was among the last of a burst.
        left_ns: when it left this host; ``None``: it did not, as far as the kernel reports.
        answered_ns: when the answer came.
        by_host: the host itself answered.
    """

    hop: int
    in_burst: bool = False
    left_ns: int | None = None
    answered_ns: int | None = None
    by_host: bool = False


class Prober:
    """Sends packets to the hops of one path.

    Attributes:
        addresses: of the hops that answer, by number.
        host_hop: the number of the host; ``None``: unknown.
        can_echo: the host answers echo requests, and this host may send them.
        refusals: answers of the host to packets of bursts.
        wanderers: answers by another router than the one that answered before from the same hop.
    """

    def __init__(self, family: int, address: Any, ip_bytes: int) -> None:
        self.address = str(address[0])
        version = 6 if family == socket.AF_INET6 else 4
        payload_bytes = ip_bytes - UDP_BYTES - IP_BYTES[version]
        token = os.urandom(8)
        self.packets = Markers(family, address, payload_bytes, token)
        self._echoes: Echoes | None = None
        # Where users may not send echo requests (ping_group_range), the host's own answers are missing.
        with contextlib.suppress(OSError):
            self._echoes = Echoes(family, address, payload_bytes, token)
        self.addresses: dict[int, str] = {}
        self.host_hop: int | None = None
        self.can_echo = False
        self.refusals = 0
        self.wanderers = 0
        self._numbers = itertools.count()
        self._sent: dict[int, Marker] = {}
        self._echoed: set[int] = set()

    def close(self) -> None:
        """Close its sockets."""
        self.packets.close()
        if self._echoes is not None:
            self._echoes.close()

    @property
    def length(self) -> int:
        """The number of the host, or of the last router that answers."""
        return self.host_hop or max(self.addresses, default=0)

    def asked(self) -> list[int]:
        """The hops that answer: a turn sends one packet to each."""
        return [hop for hop in sorted(self.addresses) if hop != self.host_hop or self.can_echo]

    def markers(self) -> list[Marker]:
        """The packets that were sent since the last :meth:`forget`."""
        return list(self._sent.values())

    def forget(self) -> None:
        """Start counting from zero; answers to earlier packets are not counted."""
        self._sent.clear()
        self._echoed.clear()
        self.packets.left_ns.clear()
        if self._echoes is not None:
            self._echoes.left_ns.clear()

    def discover(self) -> None:
        """Find the routers, and the number of the host."""
        for _ in range(_DISCOVERIES):
            for hop in range(1, (self.host_hop or _MOST_HOPS + 1)):
                if hop not in self.addresses:
                    self.send([self.marked(hop)])
                    self.echo(hop)
                    self.collect(_GAP_S)
            self.collect(ANSWER_S)
            ends = [marker.hop for marker in self._sent.values() if marker.by_host]
            if ends:
                self.host_hop = min(ends)
                self.addresses[self.host_hop] = self.address
        self.addresses = {hop: at for hop, at in self.addresses.items() if hop <= self.length}
        self.forget()

    def allowed_every_s(self) -> float:
        """The time between two packets to a hop that all routers allow, as far as a short test shows."""
        for _ in range(RATE_TEST_PACKETS):
            for hop in self.asked():
                self.send_one(hop)
                self.collect(_GAP_S)
            self.collect(_RATE_TEST_EVERY_S)
        self.collect(ANSWER_S)
        all_answered = all(marker.answered_ns is not None for marker in self._sent.values())
        self.forget()
        if all_answered:
            return _UNLIMITED_EVERY_S
        self.collect(_LIMITED_EVERY_S)
        return _LIMITED_EVERY_S

    def send_one(self, hop: int, *, in_burst: bool = False) -> None:
        """Send a packet that ends at a hop; an echo request if that is the host."""
        if hop == self.host_hop:
            self.echo(hop, in_burst=in_burst)
        else:
            self.send([self.marked(hop, in_burst=in_burst)])

    def send(self, packets: Sequence[Packet], within_s: float = 1.0) -> None:
        """Send UDP packets."""
        self.packets.send(packets, time.monotonic() + within_s)

    def marked(self, hop: int, *, in_burst: bool = False) -> Packet:
        """A packet that ends at a hop, to be sent; hop 0: as far as the host."""
        return Packet(self._numbered(hop, in_burst), hop or None)

    def echo(self, hop: int, *, in_burst: bool = False) -> None:
        """Send an echo request to the host with this time to live."""
        if self._echoes is not None:
            number = self._numbered(hop, in_burst)
            self._echoed.add(number)
            self._echoes.send(number, hop)

    def _numbered(self, hop: int, in_burst: bool) -> int:
        number = next(self._numbers)
        self._sent[number] = Marker(hop, in_burst)
        return number

    def collect(self, wait_s: float) -> None:
        """Take answers for so long."""
        for answer in self.packets.answers(wait_s):
            self._note(answer)
        for echoed in () if self._echoes is None else self._echoes.answers():
            self.can_echo = True
            self._note(echoed)
        left_ns = dict(self.packets.left_ns) | ({} if self._echoes is None else self._echoes.left_ns)
        for number, at_ns in left_ns.items():
            if number in self._sent:
                self._sent[number].left_ns = at_ns

    def _note(self, answer: Answer) -> None:
        if answer.kind == "no-port":
            self.refusals += 1
        marker = self._answered(answer)
        if marker is None or marker.answered_ns is not None:
            return
        if answer.kind == "echo" or (answer.kind == "no-port" and answer.address == self.address):
            marker.answered_ns, marker.by_host = answer.time_ns, True
        elif answer.kind == "time-exceeded":
            marker.answered_ns = answer.time_ns
            self.wanderers += self.addresses.setdefault(marker.hop, answer.address) != answer.address

    def _answered(self, answer: Answer) -> Marker | None:
        """The packet that an answer is for: by the number that it quotes, or else the last one to that router."""
        if answer.marker is not None:
            return self._sent.get(answer.marker)
        hops = [hop for hop, address in self.addresses.items() if address == answer.address]
        waiting = [
            marker
            for number, marker in self._sent.items()
            if marker.hop in hops and marker.answered_ns is None and number not in self._echoed
        ]
        return waiting[-1] if len(hops) == 1 and waiting else None
