"""Trains to a server of iperf3 or nuttcp, which counts what came in each second or tenth of one, and tells no single packet."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from whydrop import _core
from whydrop.measure.depth.caps import Budget
from whydrop.measure.depth.programs import address_of, run
from whydrop.measure.depth.result import Depth
from whydrop.measure.depth.responder import NOTHING
from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES, Round
from whydrop.measure.depth.searching import SIZES, is_narrow
from whydrop.measure.engine import EngineError, FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tally import Tally

_FIRST_PACKETS = 200
_GROWTH = 4
# Losses that tell that what drops was reached: fewer may be chance.
_LEAST_LOSSES = 8
# The servers of iperf3 count by the second unless told otherwise: four whole ones, two of them behind the first losses.
_LONG_S = {"iperf3": 4.3, "nuttcp": 2.1}
# Faster than the hop drains by so much a train fills it three times over before it tells the rate.
_FASTER = 1.5
# Below the line's rate nothing waits for the line.
_BELOW_LINE = 0.97
_MOST_ROUNDS = 2
# Nothing waits there for long: iperf3's clients give a program no other way to tell how far it is ahead of the line.
_SEND_BUFFER_BYTES = 16 * 1024
# iperf3 sends what is due once in a millisecond, and looks at its clock as often.
_SENDING_ERROR_S = 0.001
# From the server's word that the test begins to the first packet: a round trip, and what both programs take.
_PROGRAMS_S = 0.003
_UNKNOWN_ROUND_TRIP_S = 0.2


@dataclass
class CountingSearch:
    """Longer trains until some packets are lost, then long ones of both sizes, a little faster than what drops drains.

    Attributes:
        large, small: the two sizes, IP bytes.
        long_s: how long a train must be to tell a rate.
    """

    large: int
    rate_cap_bps: float | None = None
    long_s: float = _LONG_S["iperf3"]
    line_bps: float | None = None
    longest: int = 0
    lost: int = 0
    # Of a train that lost packets: how many came, and at which rate. What drops drains no faster.
    passed: int | None = None
    passed_bps: float = math.inf
    _rounds: dict[int, int] = field(default_factory=dict)

    @property
    def small(self) -> int:
        """The size of small packets, IP bytes."""
        return self.large // SIZES

    def first(self) -> Round:
        """A train that fills a shallow queue."""
        return Round(self.large, _FIRST_PACKETS, 1, 1.0, self.rate_cap_bps)

    def note(self, sent: Round, received: int, sending_s: float) -> None:
        """Take note of what came of a train."""
        lost = sent.packets - received
        bits = sent.ip_bytes * 8
        if sent.ip_bytes == self.large:
            self.longest, self.lost = max(self.longest, sent.packets), max(self.lost, lost)
            if sent.rate_bps == self.rate_cap_bps and sending_s > 0:
                self.line_bps = sent.packets * bits / sending_s
        if lost >= _LEAST_LOSSES and sent.ip_bytes == self.large and sending_s > 0:
            self.passed = received if self.passed is None else min(received, self.passed)
            self.passed_bps = min(received * bits / sending_s, self.passed_bps)

    def next(self, found: Depth, told: dict[str, Any], budget: Budget) -> Round | None:
        """The next train, or ``None`` where it is enough or nothing more can be afforded."""
        wanted = self._long(found, told) if self.passed is not None else self._longer(budget)
        return wanted if wanted is not None and budget.affords(wanted) else None

    def _longer(self, budget: Budget) -> Round | None:
        packets = self.longest * _GROWTH
        every_s = 1.0 if self.line_bps is None else packets * self.large * 8 / self.line_bps
        wanted = Round(self.large, packets, 1, every_s, self.rate_cap_bps)
        return wanted if 2 * wanted.cost_bytes < budget.left_bytes else None

    def _long(self, found: Depth, told: dict[str, Any]) -> Round | None:
        size = min((self.large, self.small), key=lambda size: self._rounds.get(size, 0))
        done = self._rounds.get(size, 0)
        if done >= _MOST_ROUNDS or (done and is_narrow(found)):
            return None
        self._rounds[size] = done + 1
        drain = told["drain_rate_bps"]
        rate_bps = _FASTER * (self.passed_bps if drain is None else drain["value"])
        if self.line_bps is not None:
            rate_bps = min(rate_bps, _BELOW_LINE * self.line_bps)
        if self.rate_cap_bps is not None:
            rate_bps = min(rate_bps, self.rate_cap_bps)
        # In its first half it must have filled what holds no more than came of the shortest train that lost any.
        filling = 2 * 3 * (self.passed or 0) * self.large // size
        packets = max(math.ceil(rate_bps / 8 / size * self.long_s), filling)
        return Round(size, packets, 1, packets * size * 8 / rate_bps, rate_bps)


class CountedTrains:
    """Trains of the clients of iperf3 or nuttcp.

    Attributes:
        far: what far hosts tell of themselves: these tell nothing.
    """

    def __init__(
        self, host: FarHost, search: CountingSearch, program: Literal["iperf3", "nuttcp"], version: int
    ) -> None:
        self.host, self.search = host, search
        self.far: dict[str, dict[str, Any]] = {}
        search.long_s = _LONG_S[program]
        self._program, self._version = program, version
        self._trains: list[tuple[int, int, int, tuple[float, float, float], list[tuple[float, int]]]] = []
        self._late_s: float | None = None

    def flow(self, upcoming: Round, name: str) -> PlannedFlow:
        """The flow that sends a train."""
        payload_bytes = upcoming.ip_bytes - UDP_BYTES - IP_BYTES[self._version]
        return PlannedFlow(
            name=name,
            kind="udp",
            direction="up",
            runner=self._program,
            host=address_of(self.host),
            port=self.host.port,
            ip_version=self._version,
            interval_s=0.1,
            rate_bps=None if upcoming.rate_bps is None else upcoming.rate_bps * payload_bytes / upcoming.ip_bytes,
            send_buffer_bytes=_SEND_BUFFER_BYTES,
            payload_bytes=upcoming.packets * payload_bytes,
            packet_payload_bytes=payload_bytes,
            options={"json": True, "server_output": True} if self._program == "iperf3" else {},
        )

    def send(self, upcoming: Round, tally: Tally, left_s: float) -> dict[str, pl.DataFrame]:
        """Send a train; its rows by table.

        Raises:
            EngineError: the program is not installed, its server cannot be reached, or tells nothing of what came.
        """
        if self._late_s is None:
            self._late_s = 1.5 * self._round_trip_s() + _PROGRAMS_S
        frames = run(tally.flow, tally)
        counted = _iperf3(tally) if self._program == "iperf3" else _nuttcp(frames, tally, upcoming)
        if counted is None:
            raise EngineError(f"{self.host.name}: the {self._program} server does not tell what came of a train")
        sending_s, intervals = counted
        received = min(sum(packets for _, packets in intervals), upcoming.packets)
        times = (sending_s, _SENDING_ERROR_S, self._late_s)
        # The last interval ends with the test, whenever that is.
        self._trains.append((upcoming.ip_bytes, upcoming.packets, received, times, intervals[:-1]))
        self.search.note(upcoming, received, sending_s)
        return frames

    def told(self) -> dict[str, Any]:
        """The analysis of all of them.

        Raises:
            EngineError: nothing arrived.
        """
        told = _core.explain_counted_trains(self._trains)
        if told is None:
            raise EngineError(f"{self.host.name}: no packet of the trains arrived: a firewall on the way?")
        return told

    def _round_trip_s(self) -> float:
        flow = PlannedFlow(
            "round trips", "icmp", runner="ping", host=address_of(self.host), interval_s=0.1, duration_s=0.5,
            ip_version=self._version,
        )  # fmt: skip
        try:
            probes = run(flow).get("probes")
        except EngineError:
            return _UNKNOWN_ROUND_TRIP_S
        longest = None if probes is None else probes["rtt_ns"].max()
        return _UNKNOWN_ROUND_TRIP_S if longest is None else float(longest) / 1e9  # type: ignore[arg-type]


def _iperf3(tally: Tally) -> tuple[float, list[tuple[float, int]]] | None:
    """How long the client sent, seconds, and what its server counted: seconds and packets."""
    sending_s, intervals = tally.facts.get("sending_s"), tally.facts.get("server_intervals")
    if not sending_s or not intervals:
        return None
    return sending_s, [(end_s - start_s, packets) for start_s, end_s, packets in intervals]


def _nuttcp(frames: dict[str, pl.DataFrame], tally: Tally, upcoming: Round) -> tuple[float, list[tuple[float, int]]] | None:
    """The same of nuttcp, whose sender keeps to the rate that it was given, where its line takes that."""
    intervals = frames.get("intervals")
    sending_s = tally.facts.get("sending_s")
    if intervals is None or not sending_s:
        return None
    seconds = ((intervals["end_ns"] - intervals["start_ns"]) / 1e9).to_list()
    return sending_s, list(zip(seconds, intervals["packets"].fill_null(0).to_list(), strict=True))
