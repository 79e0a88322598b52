"""Rounds: bursts of one length and one size, sent in one session with the responder; and caps on what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from whydrop.measure.plan import PlannedFlow
from whydrop.text.quantities import duration, exact_size, plural, rate, size

Direction = Literal["up", "down"]

# What a packet has on the wire beside its IP bytes: Ethernet's header and checksum, preamble and the gap between frames
# (IEEE 802.3). An interface counts 14 of them, 18 with a VLAN tag.
WIRE_BYTES = 38
# What is said of each packet afterwards (arrival, departure), with the headers of the TCP segments that carry it.
ROW_BYTES = 64
# A session: handshake, exchanges of stamps, the far host's metadata.
SESSION_BYTES = 256 * 1024
SESSION_S = 2.0
# The longest that the engine sends.
MOST_PACKETS = 65_536

UDP_BYTES = 8
IP_BYTES = {4: 20, 6: 40}


@dataclass(frozen=True)
class Round:
    """Bursts of one kind.

    Attributes:
        ip_bytes: of each packet, IP header included.
        packets: of each burst.
        bursts: how many.
        every_s: from the start of one burst to that of the next: the path must be idle again.
        rate_bps: at which IP bytes are sent within a burst; ``None``: as fast as the line.
    """

    ip_bytes: int
    packets: int
    bursts: int
    every_s: float
    rate_bps: float | None = None

    def __str__(self) -> str:
        at = "at line rate" if self.rate_bps is None else f"at {rate(self.rate_bps)}"
        return f"{plural(self.bursts, 'burst')} of {plural(self.packets, 'packet')} of {exact_size(self.ip_bytes)} {at}"

    @property
    def cost_bytes(self) -> int:
        """The most that it adds to an interface's counter in the measured direction."""
        return self.packets * self.bursts * (self.ip_bytes + WIRE_BYTES + ROW_BYTES) + SESSION_BYTES

    @property
    def cost_s(self) -> float:
        """How long it takes at most."""
        return self.bursts * self.every_s + SESSION_S

    def flow(self, name: str, host: str, direction: Direction, version: int, *, ecn: bool) -> PlannedFlow:
        """The flow that sends it."""
        payload_bytes = self.ip_bytes - UDP_BYTES - IP_BYTES[version]
        return PlannedFlow(
            name=name,
            kind="burst",
            direction=direction,
            host=host,
            ip_version=version,
            # Before the burst that would be one too many.
            duration_s=(self.bursts - 0.5) * self.every_s,
            packet_payload_bytes=payload_bytes,
            packets_per_burst=self.packets,
            burst_every_s=self.every_s,
            rate_bps=None if self.rate_bps is None else self.rate_bps * payload_bytes / self.ip_bytes,
            ecn=ecn or None,
        )


@dataclass(frozen=True)
class Caps:
    """The most that a measurement may cost.

    Attributes:
        max_bytes: sent in the measured direction, as counted at the interface, headers and the talk with the responder
            included.
        max_time_s: from the first connection to the end of the last burst.
        max_rate_bps: of each burst, headers included; ``None``: as fast as the line.
    """

    max_bytes: float = 200e6
    max_time_s: float = 60.0
    max_rate_bps: float | None = None


class Budget:
    """The rest of the caps. Nothing may be sent that it was not asked for before.

    >>> budget = Budget(Caps(max_bytes=1e6), now=lambda: 0.0)
    >>> budget.affords(Round(1500, 100, 4, 0.2)), budget.affords(Round(1500, 1000, 4, 0.2))
    (True, False)
    """

    def __init__(self, caps: Caps, now: Callable[[], float] = time.monotonic) -> None:
        self.caps = caps
        self.left_bytes = caps.max_bytes
        self._now = now
        self._end_s = now() + caps.max_time_s

    @property
    def left_s(self) -> float:
        """Seconds until everything must have been sent."""
        return self._end_s - self._now()

    def left(self) -> str:
        """The rest in words."""
        return f"{size(self.left_bytes)} and {duration(max(self.left_s, 0.0))}"

    def stretched(self, seconds: float) -> Budget:
        """The same with so much more time."""
        longer = Budget(self.caps, self._now)
        longer.left_bytes, longer._end_s = self.left_bytes, self._end_s + seconds
        return longer

    def affords(self, wanted: Round) -> bool:
        """True if a round fits into what is left."""
        return wanted.cost_bytes <= self.left_bytes and wanted.cost_s <= self.left_s

    def spend(self, wanted: Round) -> None:
        """Take a round out of it, before anything of it is sent.

        Raises:
            ValueError: it does not fit.
        """
        if not self.affords(wanted):
            raise ValueError(f"{wanted} does not fit into the {self.left()} left")
        self.left_bytes -= wanted.cost_bytes

    def take(self, cost_bytes: float) -> None:
        """Take bytes out of it that no round sends."""
        self.left_bytes -= cost_bytes
