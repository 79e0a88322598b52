"""Trains to a server of iperf3 or nuttcp, which counts received packets per second, and reports no single packet."""

from __future__ import annotations

from typing import Any, Literal

import polars as pl

from whydrop import _core
from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES, Round
from whydrop.measure.depth.searching import CountingSearch
from whydrop.measure.depth.trains import Trains, address_of, run
from whydrop.measure.engine import EngineError
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tally import Tally

# By default the servers of iperf3 count per second: four whole seconds, two of them after the first losses.
_LONG_S = {"iperf3": 4.3, "nuttcp": 2.1}
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
