"""Trains of probes to an irtt server, which stamps every one: the same analysis, by the stamps of two programs."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import polars as pl

from whydrop.measure.depth.responder import PacketTrains
from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES, WIRE_BYTES, Round
from whydrop.measure.depth.searching import Search, Seen
from whydrop.measure.depth.trains import address_of, run
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tally import Tally
from whydrop.recording import tables

# Faster than that irtt's client sends no packets of full size, bit/s.
_MOST_BPS = 400e6
# Packets that a socket takes before it blocks its program: 208 KiB by default, 2304 bytes for each full packet (ss(8)).
_SOCKET_PACKETS = 92
# A blocked program continues when half of that is free: of so many packets its bursts make an eighth.
_WINDOW_PACKETS = 4 * _SOCKET_PACKETS
# Fewer packets do not show whether the line delayed them.
_FEWEST_PACKETS = 2 * _WINDOW_PACKETS
# The line delayed a train if the packets that a socket takes at once left faster than any window of its later half.
_HELD_UP = 1.5
# A busy host leaves out what was due while it did something else.
_BEYOND = 2.5
# Below the line's rate by so much nothing waits for the line.
_BELOW_LINE = 0.95


class ProbedTrains(PacketTrains):
    """Trains of irtt's client.

    It stamps a packet before it hands it to the kernel. So a delay before this host's own line would look like a delay
    on the path: a train that the line delayed only shows the line's rate, and later ones are sent a little slower.
    """

    def __init__(self, host: FarHost, ip_bytes: int, rate_cap_bps: float | None, version: int) -> None:
        rate_bps = min(rate_cap_bps or _MOST_BPS, _MOST_BPS)
        super().__init__(
            host, Search(ip_bytes, rate_bps, first_packets=2 * _FEWEST_PACKETS, first_bursts=1, beyond=_BEYOND)
        )
        self._version = version
        # True once trains are known not to be delayed by the line.
        self._is_clear = False

    def flow(self, upcoming: Round, name: str) -> PlannedFlow:
        """A round, as a flow of the recording."""
        flow = upcoming.flow(name, self.host.name, "up", self._version, ecn=False)
        return dataclasses.replace(flow, runner="irtt")

    def send(self, upcoming: Round, tally: Tally, left_s: float) -> dict[str, pl.DataFrame]:
        """Send a round, each burst by a client of its own."""
        rows: list[pl.DataFrame] = []
        until_s = time.monotonic() + left_s
        for burst in range(upcoming.bursts):
            if rows and time.monotonic() + upcoming.every_s > until_s:
                break
            frames = run(self._probes(upcoming, f"{tally.flow.name}.{burst + 1}"), tally)
            # A client that got no turn in the time of its train sent nothing.
            probes = tables.conform("probes", frames.get("probes", pl.DataFrame()))
            rows.append(_as_burst(probes, tally.number, burst, upcoming, self._version))
        bursts = tables.conform("bursts", pl.concat(rows))
        if self._is_clear or self._passes_the_line(upcoming, bursts):
            self._note(upcoming, bursts, None)
        return {"bursts": bursts}

    def _probes(self, upcoming: Round, name: str) -> PlannedFlow:
        assert upcoming.rate_bps is not None
        # The line's rate, an upper bound for trains, is known for large packets: small ones carry more headers.
        large = self.search.large
        headers = (upcoming.ip_bytes + WIRE_BYTES) / upcoming.ip_bytes * large / (large + WIRE_BYTES)
        gap_s = upcoming.ip_bytes * 8 / upcoming.rate_bps * headers
        return PlannedFlow(
            name=name,
            kind="probe",
            runner="irtt",
            host=address_of(self.host),
            port=self.host.port,
            ip_version=self._version,
            interval_s=gap_s,
            # It sends in the slots that begin within this time, and leaves out what it misses.
            duration_s=(upcoming.packets - 0.5) * gap_s,
            packet_payload_bytes=upcoming.ip_bytes - UDP_BYTES - IP_BYTES[self._version],
            # Its other timers wake up once in a millisecond.
            options={"timer": "busy"},
        )

    def _passes_the_line(self, upcoming: Round, train: pl.DataFrame) -> bool:
        """True if this host's line did not delay the first train. If it did, later ones are sent below its rate."""
        sent_ns = train["sent_ns"].sort().to_numpy()
        if len(sent_ns) < _FEWEST_PACKETS:
            # A busy host left out most of it: send a longer one.
            self.search.seen.setdefault(upcoming.ip_bytes, Seen()).longest = upcoming.packets
            return False
        self._is_clear = True
        late_ns = sent_ns[len(sent_ns) // 2 :]
        if _fastest_pps(sent_ns, _SOCKET_PACKETS // 2) <= _HELD_UP * _fastest_pps(late_ns, _WINDOW_PACKETS - 1):
            return True
        # The socket's packets keep the line busy while the program stalls, so the mean is the line's rate.
        line_pps = (len(late_ns) - 1) * 1e9 / (late_ns[-1] - late_ns[0])
        self.search.slow_down(_BELOW_LINE * line_pps * upcoming.ip_bytes * 8)
        return False


def _fastest_pps(sent_ns: Any, packets: int) -> float:
    """The most packets a second over so many in a row."""
    return packets * 1e9 / max(float((sent_ns[packets:] - sent_ns[:-packets]).min()), 1.0)


def _as_burst(probes: pl.DataFrame, flow: int, burst: int, upcoming: Round, version: int) -> pl.DataFrame:
    """Rows of table ``bursts`` of irtt's probes.

    Left out are probes lost in an unknown direction, and probes with a lost answer: their time of arrival is not known.
    """
    return probes.filter(pl.col("fate").is_in(["ok", "late", "lost-up"]) & pl.col("sent_ns").is_not_null()).select(
        flow=pl.lit(flow, pl.UInt32),
        burst=pl.lit(burst, pl.UInt32),
        sequence=pl.col("sequence").cast(pl.UInt64) + burst * upcoming.packets,
        sent_ns="sent_ns",
        received_ns=pl.col("sent_ns") + pl.col("up_ns"),
        payload_bytes=pl.lit(upcoming.ip_bytes - UDP_BYTES - IP_BYTES[version], pl.UInt32),
        marked=pl.lit(None, pl.Boolean),
    )
