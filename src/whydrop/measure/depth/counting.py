"""Trains to a server of iperf3 or nuttcp, which counts received packets per second, and reports no single packet."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

from whydrop import _core
from whydrop.measure.depth.result import Depth
from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES, Budget, Round
from whydrop.measure.depth.searching import SIZES, is_narrow
from whydrop.measure.depth.trains import Trains, address_of, run
from whydrop.measure.engine import EngineError, FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tally import Tally

_FIRST_PACKETS = 200
_GROWTH = 4
# Losses that show that the limit was reached: fewer may be chance.
_LEAST_LOSSES = 8
# By default the servers of iperf3 count per second: four whole seconds, two of them after the first losses.
_LONG_S = {"iperf3": 4.3, "nuttcp": 2.1}
_PROBE_S = 0.5
# Faster than the hop drains by this factor, a train fills it three times over before it shows the rate.
_FASTER = 1.5
# Below the line's rate nothing waits for the line.
_BELOW_LINE = 0.97
_MOST_ROUNDS = 2
# A third of them is lost at that rate: enough to count.
_FEWEST_PACKETS = 100
# Each four times as fast as the one before.
_MOST_PROBES = 6
# Small, so that packets leave it at once: iperf3's clients do not report how far they are ahead of the line.
_SEND_BUFFER_BYTES = 16 * 1024
# Without a rate nuttcp sends 1 Mbit/s of UDP. A rate above that of any line means as fast as the line.
_LINE_BPS = 100e9
# The tolerance of the sending intervals that nuttcp reports.
_KEPT = 1.15
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
        long_s: how long a train must last to show a rate.
    """

    large: int
    rate_cap_bps: float | None = None
    long_s: float = _LONG_S["iperf3"]
    line_bps: float | None = None
    longest: int = 0
    # Of a train that lost packets: how many came, and at which rate. What drops drains no faster.
    passed: int | None = None
    passed_bps: float = math.inf
    # A rate near which it may drain, until a train at some rate above it has lost packets.
    guess_bps: float = 0.0
    paced: bool = False
    _rounds: dict[int, int] = field(default_factory=dict)
    _probes: int = 0

    @property
    def small(self) -> int:
        """The size of small packets, IP bytes."""
        return self.large // SIZES

    def first(self) -> Round:
        """A train that fills a shallow queue."""
        return Round(self.large, _FIRST_PACKETS, 1, 1.0, self.rate_cap_bps)

    def note(self, sent: Round, received: int, sending_s: float | None, counted_s: float) -> None:
        """Take note of what came of a train.

        Args:
            sent: the train.
            received: packets of it.
            sending_s: how long it was sent, where that is known.
            counted_s: until the far end stopped counting.
        """
        if sent.ip_bytes != self.large:
            return
        bits = sent.ip_bytes * 8
        self.longest = max(self.longest, sent.packets)
        fastest = sent.rate_bps == self.rate_cap_bps
        if fastest and sending_s:
            self.line_bps = sent.packets * bits / sending_s
        if sent.packets - received >= _LEAST_LOSSES:
            self.paced |= not fastest
            self.passed = received if self.passed is None else min(received, self.passed)
            self.passed_bps = min(sent.rate_bps or math.inf, self.passed_bps)
            if sending_s:
                self.passed_bps = min(received * bits / sending_s, self.passed_bps)
            self.guess_bps = self.guess_bps or received * bits / counted_s
        elif not fastest:
            self.guess_bps *= _GROWTH

    def next(self, found: Depth, analysis: dict[str, Any], budget: Budget) -> Round | None:
        """The next train, or ``None`` where it is enough or nothing more can be afforded."""
        if self.passed is None:
            wanted = self._longer(budget)
        elif not self.paced:
            self._probes += 1
            if self._probes > _MOST_PROBES:
                return None
            wanted = self._train(self.large, min(_FASTER * self.guess_bps, self.passed_bps), _PROBE_S)
        else:
            wanted = self._long(found, analysis)
        return wanted if wanted is not None and budget.affords(wanted) else None

    def _longer(self, budget: Budget) -> Round | None:
        packets = self.longest * _GROWTH
        every_s = 1.0 if self.line_bps is None else packets * self.large * 8 / self.line_bps
        wanted = Round(self.large, packets, 1, every_s, self.rate_cap_bps)
        return wanted if 2 * wanted.cost_bytes < budget.left_bytes else None

    def _long(self, found: Depth, analysis: dict[str, Any]) -> Round | None:
        size = min((self.large, self.small), key=lambda size: self._rounds.get(size, 0))
        done = self._rounds.get(size, 0)
        if done >= _MOST_ROUNDS or (done and is_narrow(found)):
            return None
        self._rounds[size] = done + 1
        drain = analysis["drain_rate_bps"]
        rate_bps = _FASTER * (self.passed_bps if drain is None else drain["value"])
        return self._train(size, rate_bps, self.long_s)

    def _train(self, size: int, rate_bps: float, least_s: float) -> Round:
        """A train below the line's rate, long enough to fill what drops."""
        if self.line_bps is not None:
            rate_bps = min(rate_bps, _BELOW_LINE * self.line_bps)
        # Nearer to the rate at which it drains, it takes up to three times as many to fill it.
        filling = 3 * (self.passed or 0) * self.large // size
        packets = max(math.ceil(rate_bps / 8 / size * least_s), filling, _FEWEST_PACKETS)
        return Round(size, packets, 1, packets * size * 8 / rate_bps, rate_bps)


class CountedTrains(Trains):
    """Trains of the clients of iperf3 or nuttcp."""

    search: CountingSearch

    def __init__(
        self, host: FarHost, search: CountingSearch, program: Literal["iperf3", "nuttcp"], version: int
    ) -> None:
        super().__init__(host, search)
        search.long_s = _LONG_S[program]
        self._program, self._version = program, version
        self._trains: list[tuple[int, int, int, tuple[float, float, float], list[tuple[float, int]]]] = []
        self._late_s: float | None = None

    def flow(self, upcoming: Round, name: str) -> PlannedFlow:
        """The flow that sends a train."""
        payload_bytes = upcoming.ip_bytes - UDP_BYTES - IP_BYTES[self._version]
        rate_bps = upcoming.rate_bps
        if rate_bps is None and self._program == "nuttcp":
            rate_bps = _LINE_BPS
        return PlannedFlow(
            name=name,
            kind="udp",
            direction="up",
            runner=self._program,
            host=address_of(self.host),
            port=self.host.port,
            ip_version=self._version,
            interval_s=0.1,
            rate_bps=None if rate_bps is None else rate_bps * payload_bytes / upcoming.ip_bytes,
            send_buffer_bytes=_SEND_BUFFER_BYTES,
            payload_bytes=upcoming.packets * payload_bytes,
            packet_payload_bytes=payload_bytes,
            options={"json": True, "server_output": True} if self._program == "iperf3" else {},
        )

    def send(self, upcoming: Round, tally: Tally, left_s: float) -> dict[str, pl.DataFrame]:
        """Send a train; the program must be installed, and its server report what arrived."""
        if self._late_s is None:
            self._late_s = 1.5 * self._round_trip_s() + _PROGRAMS_S
        frames = run(tally.flow, tally, left_s)
        counted = _iperf3(tally) if self._program == "iperf3" else _nuttcp(frames, tally, upcoming)
        if counted is None:
            raise EngineError(
                f"{self.host.name}: the {self._program} server did not report how many packets of a train arrived"
            )
        sending_s, intervals = counted
        received = min(sum(packets for _, packets in intervals), upcoming.packets)
        # The last interval ends with the test, whenever that is.
        self._trains.append(
            (
                upcoming.ip_bytes,
                upcoming.packets,
                received,
                (sending_s or 0.0, _SENDING_ERROR_S, self._late_s),
                intervals[:-1] if sending_s else [],
            )
        )
        self.search.note(upcoming, received, sending_s, sum(seconds for seconds, _ in intervals))
        return frames

    def analysis(self) -> dict[str, Any]:
        """The analysis of all trains."""
        return self.arrived(_core.explain_counted_trains(self._trains))

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


# How long a client sent, seconds, where that is known; and what its server counted: seconds and packets.
_Counted = tuple[float | None, list[tuple[float, int]]]


def _iperf3(tally: Tally) -> _Counted | None:
    intervals = tally.facts.get("server_intervals")
    if not intervals:
        return None
    return tally.facts.get("sending_s"), [(end_s - start_s, packets) for start_s, end_s, packets in intervals]


def _nuttcp(frames: dict[str, pl.DataFrame], tally: Tally, upcoming: Round) -> _Counted | None:
    """The same of nuttcp. Its sender keeps to its rate; where it could not, the duration is not known."""
    intervals = frames.get("intervals")
    if intervals is None:
        return None
    sending_s, asked_s = tally.facts.get("sending_s"), upcoming.every_s
    kept = upcoming.rate_bps is not None and sending_s is not None and sending_s < _KEPT * asked_s
    seconds = ((intervals["end_ns"] - intervals["start_ns"]) / 1e9).to_list()
    counted = list(zip(seconds, intervals["packets"].fill_null(0).to_list(), strict=True))
    return asked_s if kept else None, counted
