"""Trains of other programs: probes to an irtt server, and packets to a server of iperf3 or nuttcp.

irtt stamps every packet: the same analysis, by the stamps of two programs. The others count received packets a second,
and report no single packet.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Literal

import polars as pl

from whydrop import _core
from whydrop.measure.depth.responder import PacketTrains
from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES, WIRE_BYTES, Round
from whydrop.measure.depth.searching import CountingSearch, Search, Seen
from whydrop.measure.depth.trains import Trains, address_of, run
from whydrop.measure.engine import EngineError
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
_FEWEST_PROBES = 2 * _WINDOW_PACKETS
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
            host, Search(ip_bytes, rate_bps, first_packets=2 * _FEWEST_PROBES, first_bursts=1, beyond=_BEYOND)
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
        if len(sent_ns) < _FEWEST_PROBES:
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
