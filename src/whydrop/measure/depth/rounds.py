"""Rounds: bursts of one length and one size, sent in one session with the responder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from whydrop.measure.plan import PlannedFlow

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
