"""Trains of probes to an irtt server, which stamps every one: the same analysis, by the stamps of two programs."""

from __future__ import annotations

import dataclasses
import time

import polars as pl

from whydrop.measure.depth.programs import address_of, run
from whydrop.measure.depth.responder import PacketTrains
from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES, Round
from whydrop.measure.depth.searching import Search
from whydrop.measure.engine import EngineError, FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tally import Tally
from whydrop.recording import tables

# Faster than that irtt's client sends no packets of full size, bit/s.
_MOST_BPS = 400e6
# A train whose first packets left faster than its later ones by so much was held up: its own line is slower.
_HELD_UP = 1.1
# What a socket takes before it holds its program up: 208 KiB by default, a full packet counting as 2304 (ss(8), skmem).
_SOCKET_PACKETS = 92
# Below the line's rate by so much nothing waits for the line.
_BELOW_LINE = 0.95


class ProbedTrains(PacketTrains):
    """Trains of irtt's client.

    It stamps a packet before it hands it to the kernel. So what waits for this host's own line would seem to wait in
    the path: trains that the line held up tell its rate, and nothing else, and later ones are sent a little slower.
    """

    def __init__(self, host: FarHost, ip_bytes: int, rate_cap_bps: float | None, version: int) -> None:
        rate_bps = min(rate_cap_bps or _MOST_BPS, _MOST_BPS)
        # The first train must be longer than what a socket takes: then it tells whether the line holds it up.
        super().__init__(host, Search(ip_bytes, rate_bps, first_packets=4 * _SOCKET_PACKETS, first_bursts=1))
        self._version = version

    def flow(self, upcoming: Round, name: str) -> PlannedFlow:
        """A round, as the recording tells it."""
        flow = upcoming.flow(name, self.host.name, "up", self._version, ecn=False)
        return dataclasses.replace(flow, runner="irtt")

    def send(self, upcoming: Round, tally: Tally, left_s: float) -> dict[str, pl.DataFrame]:
        """Send a round, each burst by a client of its own; its rows by table.

        Raises:
            EngineError: irtt is not installed, its server cannot be reached or restricts what may be sent.
        """
        rows: list[pl.DataFrame] = []
        until_s = time.monotonic() + left_s
        for burst in range(upcoming.bursts):
            if rows and time.monotonic() + upcoming.every_s > until_s:
                break
            frames = run(self._probes(upcoming, f"{tally.flow.name}.{burst + 1}"), tally)
            probes = frames.get("probes")
            if probes is None:
                raise EngineError(f"{self.host.name}: {tally.message or 'irtt measured nothing'}")
            rows.append(_as_burst(probes, tally.number, burst, upcoming, self._version))
        bursts = tables.conform("bursts", pl.concat(rows))
        if not self._held_up(upcoming, bursts):
            self._note(upcoming, bursts, None)
        return {"bursts": bursts}

    def _probes(self, upcoming: Round, name: str) -> PlannedFlow:
        assert upcoming.rate_bps is not None
        gap_s = upcoming.ip_bytes * 8 / upcoming.rate_bps
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

    def _held_up(self, upcoming: Round, bursts: pl.DataFrame) -> bool:
        """True if this host's own line was slower than the train; later ones are then sent below its rate."""
        bits = upcoming.ip_bytes * 8
        for _, train in bursts.sort("sequence").group_by("burst", maintain_order=True):
            sent_ns = train["sent_ns"].drop_nulls()
            if sent_ns.len() < 2 * _SOCKET_PACKETS:
                continue
            early, late = sent_ns[: _SOCKET_PACKETS // 2], sent_ns[sent_ns.len() // 2 :]
            early_bps, late_bps = ((part.len() - 1) * bits / max(part[-1] - part[0], 1) * 1e9 for part in (early, late))
            if early_bps > _HELD_UP * late_bps:
                self.search.slow_down(_BELOW_LINE * late_bps)
                # Shorter trains before it may have been held up as well, unseen.
                self._packets.clear()
                return True
        return False


def _as_burst(probes: pl.DataFrame, flow: int, burst: int, upcoming: Round, version: int) -> pl.DataFrame:
    """Rows of table ``bursts`` of irtt's probes.

    A probe that was lost somewhere on its way there and back tells nothing, nor does one whose answer was lost: it
    came, nobody says when.
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
