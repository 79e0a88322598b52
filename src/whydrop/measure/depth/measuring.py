"""One measurement, from the first burst to the recording."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.measure.clocks import Clocks
from whydrop.measure.depth.caps import Budget, Caps
from whydrop.measure.depth.result import Depth, depth
from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES, WIRE_BYTES, Direction, Round
from whydrop.measure.depth.searching import SIZES, Search, Seen
from whydrop.measure.engine import Engine, EngineError, FarHost
from whydrop.measure.plan import Plan
from whydrop.measure.tally import Tally, count
from whydrop.recording import tables
from whydrop.recording.metadata import gather
from whydrop.recording.naming import folder_for
from whydrop.recording.writer import RecordingWriter
from whydrop.runtime.signals import held

NAME = "depth"

_LEAD_S = 0.1
_LOOK_EVERY_S = 0.1
# Behind its planned end: a queue may take so long to empty.
_GRACE_S = 10.0
# For the responder's words on what arrived, after the last packet.
_ROWS_PATIENCE_S = 20.0
# Packets of Ethernet, the largest that nearly every path takes.
_MOST_IP_BYTES = 1500
_IP_MTU = {4: (socket.IPPROTO_IP, 14), 6: (socket.IPPROTO_IPV6, 24)}  # ip(7), ipv6(7): IP_MTU, IPV6_MTU


@dataclass(frozen=True)
class Wanted:
    """The measurement that is wanted.

    Attributes:
        host: the responder.
        direction: ``up`` from here to it, ``down`` from it to here.
        ecn: mark packets ECT(0): a queue may then mark instead of dropping.
        output: the folder in which the recording gets its own.
    """

    host: FarHost
    direction: Direction = "up"
    caps: Caps = field(default_factory=Caps)
    ip_version: int | None = None
    ecn: bool = False
    output: Path = Path()
    title: str = ""


@dataclass(frozen=True)
class Measured:
    """The outcome of a measurement.

    Attributes:
        found: the result.
        rounds: what was sent.
        status: ``complete``, ``failed`` (the last round was not measured; ``problem`` says why), ``interrupted``.
        folder: the recording.
    """

    found: Depth | None
    rounds: list[Round]
    status: str
    problem: str | None
    folder: Path


def measure(wanted: Wanted, tell: Callable[[str], None] = lambda _: None) -> Measured:
    """Measure the queue of a path.

    Args:
        tell: called with what is being done, for people; before each round with what it sends.

    Raises:
        EngineError: the responder cannot be reached, or refuses.
        RecordingError: the recording cannot be written.
    """
    return _Measurement(wanted, tell).run()


class _Measurement:
    def __init__(self, wanted: Wanted, tell: Callable[[str], None]) -> None:
        self.wanted, self.tell = wanted, tell
        self.version, ip_bytes = _path_to(wanted)
        self.search = Search(ip_bytes, _ip_rate(wanted.caps.max_rate_bps, ip_bytes))
        self.budget = Budget(wanted.caps)
        self.rounds: list[Round] = []
        self.tallies: dict[int, Tally] = {}
        self.packets: list[pl.DataFrame] = []
        self.far: dict[str, dict[str, Any]] = {}
        self.found: Depth | None = None

    def run(self) -> Measured:
        writer = self._begin()
        # Time counts from here: what this host tells of itself is gathered.
        self.budget = Budget(self.wanted.caps)
        status, problem = "complete", None
        with held() as signals, contextlib.closing(writer):
            try:
                with signals.let_in():
                    self._search(writer)
            except KeyboardInterrupt:
                status = "interrupted"
            except EngineError as reason:
                if not self.packets:
                    writer.finish("failed")
                    raise
                status, problem = "failed", str(reason)
            writer.append("flows", pl.DataFrame([self._row(one) for one in self.tallies.values()], schema=tables.FLOWS))
            writer.update(
                {
                    "depth": None if self.found is None else self.found.document(),
                    "test": {
                        **writer.metadata["test"],
                        "flows": [tally.flow.settings() for tally in self.tallies.values()],
                    },
                    "hosts": {**writer.metadata["hosts"], **self.far},
                    "failures": [problem] if problem else [],
                }
            )
            folder = writer.finish(status)
        return Measured(self.found, self.rounds, status, problem, folder)

    def _begin(self) -> RecordingWriter:
        started_ns = time.time_ns()
        plan = Plan(NAME, "Depth of the queue", self.wanted.caps.max_time_s, 0.0, 0.1, (self.wanted.host.name,), ())
        metadata = {
            "name": NAME,
            "title": self.wanted.title,
            "started_ns": started_ns,
            "test": plan.as_dict(),
            "hosts": {"local": gather([self.wanted.host.address or self.wanted.host.name])},
        }
        return RecordingWriter(folder_for(self.wanted.output, NAME, started_ns, self.wanted.title), metadata)

    def _search(self, writer: RecordingWriter) -> None:
        first = self.search.first()
        if not self.budget.affords(first):
            raise EngineError(
                f"the first bursts alone may take {first.cost_bytes / 1e6:.1f} MB and {first.cost_s:.0f} s: raise "
                "--max-bytes or --max-time"
            )
        upcoming: Round | None = first
        while upcoming is not None:
            self._send(upcoming, writer)
            told = self._explained()
            self.found = depth(told, self.search.large)
            upcoming = self.search.next(self.found, told, self.budget)

    def _send(self, upcoming: Round, writer: RecordingWriter) -> None:
        number = len(self.rounds)
        name = f"round {number + 1}"
        self.tell(
            f"{name}: {_words(upcoming)}; {self.budget.left_bytes / 1e6:.0f} MB and {self.budget.left_s:.0f} s are left"
        )
        flow = upcoming.flow(name, self.wanted.host.name, self.wanted.direction, self.version, ecn=self.wanted.ecn)
        # Before the first packet of it.
        self.budget.spend(upcoming)
        self.rounds.append(upcoming)
        self.tallies[number] = tally = Tally(number, flow)
        engine = Engine({number: flow}, [self.wanted.host])
        with contextlib.closing(engine):
            engine.prepare()
            rows = _Rows(engine)
            engine.start(time.monotonic_ns() + int(_LEAD_S * 1e9))
            until_s = min(self.budget.left_s, upcoming.bursts * upcoming.every_s + _GRACE_S) + time.monotonic()
            while not engine.done() and time.monotonic() < until_s:
                time.sleep(_LOOK_EVERY_S)
                rows.drain(tally)
            if not engine.done():
                engine.stop()
            # A busy responder may still gather its metadata: what arrived it tells behind that.
            until_s = time.monotonic() + _ROWS_PATIENCE_S
            while rows.packets < upcoming.packets * upcoming.bursts and time.monotonic() < until_s:
                time.sleep(_LOOK_EVERY_S)
                rows.drain(tally)
            engine.finish()
            rows.drain(tally)
            self.far.update(engine.far_ends())
        frames = rows.by_one_clock()
        count({number: tally}, frames)
        tally.settle(interrupted=self.budget.left_s <= 0)
        for table, frame in frames.items():
            writer.append(table, frame)
        writer.flush()
        self._note(upcoming, frames, tally)

    def _note(self, upcoming: Round, frames: dict[str, pl.DataFrame], tally: Tally) -> None:
        """Keep the packets, and what was lost of them."""
        if "bursts" not in frames:
            sent = tally.facts.get("packets_sent", "no")
            raise EngineError(
                f"{self.wanted.host.name}: {tally.message or 'nothing was measured'} ({sent} packets sent)"
            )
        packets = joined(frames["bursts"], frames.get("departures"), upcoming.ip_bytes)
        self.packets.append(packets)
        seen = self.search.seen.setdefault(upcoming.ip_bytes, Seen())
        seen.longest = max(seen.longest, upcoming.packets)
        seen.lost += int(packets["received_ns"].null_count())
        place = pl.col("sequence") % upcoming.packets
        first = packets.filter(pl.col("received_ns").is_null()).select(place.min()).item()
        if first is not None and upcoming.rate_bps == self.search.rate_cap_bps:
            seen.first_lost = first if seen.first_lost is None else min(first, seen.first_lost)

    def _explained(self) -> dict[str, Any]:
        packets = pl.concat(self.packets)
        told = _core.explain_bursts(
            packets["flow"].to_list(),
            packets["burst"].to_list(),
            packets["left_ns"].to_list(),
            packets["received_ns"].to_list(),
            packets["ip_bytes"].to_list(),
            packets["marked"].to_list(),
        )
        if told is None:
            raise EngineError(f"{self.wanted.host.name}: no packet of the bursts arrived: a firewall on the way?")
        return told

    def _row(self, tally: Tally) -> dict[str, Any]:
        end = self.far.get(self.wanted.host.name, {})
        return tally.row(end.get("address"))


class _Rows:
    """The rows that one round measured."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._clocks = Clocks(engine.places())
        self._frames: dict[str, list[pl.DataFrame]] = {}

    def drain(self, tally: Tally) -> None:
        """Take what came since the last call."""
        frames, endings, facts = self._engine.drain()
        conformed = {name: tables.conform(name, frame) for name, frame in frames.items()}
        self._clocks.note(self._engine.clocks_used(), {name: frame.height for name, frame in conformed.items()})
        for name, frame in conformed.items():
            self._frames.setdefault(name, []).append(frame)
        for ended in endings:
            tally.end(ended.status, ended.message)
        for told in facts.values():
            tally.facts.update(told)

    @property
    def packets(self) -> int:
        """Packets of bursts that are known to have arrived, or to be lost."""
        return sum(frame.height for frame in self._frames.get("bursts", ()))

    def by_one_clock(self) -> dict[str, pl.DataFrame]:
        """All of it, by what is known of the far clock at the end."""
        final = self._engine.clocks()
        return {name: self._clocks.corrected(name, pl.concat(frames), final) for name, frames in self._frames.items()}


def joined(bursts: pl.DataFrame, departures: pl.DataFrame | None, ip_bytes: int) -> pl.DataFrame:
    """Packets with the time at which they left, of table ``bursts`` and ``departures`` of one flow.

    Where the sender's kernel stamps none, that is when they were sent. Single stamps that are missing are between their
    neighbours'; what comes behind the last one was never sent.
    """
    packets = bursts.with_columns(ip_bytes=pl.lit(ip_bytes), marked=pl.col("marked").fill_null(value=False))
    if departures is None or not departures.height:
        return packets.rename({"sent_ns": "left_ns"}).select(_PACKETS)
    stamps = departures.unique("sequence", keep="first").select("sequence", "left_ns")
    return (
        packets.join(stamps, on="sequence", how="left")
        .sort("sequence")
        .with_columns(pl.col("left_ns").interpolate().over("burst").round().cast(pl.Int64))
        .drop_nulls("left_ns")
        .select(_PACKETS)
    )


_PACKETS = ["flow", "burst", "sequence", "left_ns", "received_ns", "ip_bytes", "marked"]


def _words(upcoming: Round) -> str:
    at = "at line rate" if upcoming.rate_bps is None else f"at {upcoming.rate_bps / 1e6:.1f} Mbit/s"
    plural = "s" if upcoming.bursts > 1 else ""
    return f"{upcoming.bursts} burst{plural} of {upcoming.packets} packets of {upcoming.ip_bytes} bytes {at}"


def _ip_rate(max_rate_bps: float | None, ip_bytes: int) -> float | None:
    """A cap on the rate, all headers included, as one of IP bytes: of small packets, which carry most headers."""
    small = ip_bytes // SIZES
    return None if max_rate_bps is None else max_rate_bps * small / (small + WIRE_BYTES)


def _path_to(wanted: Wanted) -> tuple[int, int]:
    """The version of IP, and the largest packets that leave this host unfragmented, up to those of Ethernet.

    Raises:
        EngineError: its name has no address.
    """
    name = wanted.host.address or wanted.host.name
    family = {4: socket.AF_INET, 6: socket.AF_INET6}.get(wanted.ip_version or 0, socket.AF_UNSPEC)
    try:
        found, _, _, _, address = socket.getaddrinfo(name, 9, family, socket.SOCK_DGRAM)[0]
    except OSError as reason:
        raise EngineError(f"{name}: cannot find the address of this host: {reason.strerror}") from None
    version = 6 if found == socket.AF_INET6 else 4
    with socket.socket(found, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)
            mtu = probe.getsockopt(*_IP_MTU[version])
        except OSError as reason:
            raise EngineError(f"{name}: no route to this host: {reason.strerror}") from None
    return version, max(min(mtu, _MOST_IP_BYTES), 4 * (64 + UDP_BYTES + IP_BYTES[version]))
