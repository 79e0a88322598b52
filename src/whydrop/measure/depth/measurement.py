"""One measurement, from the first burst to the recording."""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import polars as pl

from whydrop.measure.depth.programs import CountedTrains, ProbedTrains
from whydrop.measure.depth.responder import ResponderTrains, UnusableRoundError
from whydrop.measure.depth.result import Depth, depth
from whydrop.measure.depth.rounds import IP_BYTES, UDP_BYTES, WIRE_BYTES, Budget, Caps, Direction, Round
from whydrop.measure.depth.searching import SIZES, CountingSearch, Search
from whydrop.measure.depth.tracing.place import Place
from whydrop.measure.depth.tracing.turns import trace
from whydrop.measure.depth.trains import Trains
from whydrop.measure.engine import EngineError, looked_up
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.host import gather
from whydrop.measure.plan import Plan
from whydrop.measure.tally import Tally, count
from whydrop.recording import tables
from whydrop.recording.writer import RecordingWriter, folder_for
from whydrop.runtime.cancelling import deferred
from whydrop.text.quantities import duration, long_duration, size

NAME = "depth"

# Rounds that are sent once more, as the receiving host was too busy for them.
_MOST_UNUSABLE = 2

FarEnd = Literal["responder", "irtt", "iperf3", "nuttcp"]

# Packets of Ethernet, the largest that nearly every path takes.
_MOST_IP_BYTES = 1500
_IP_MTU = {4: (socket.IPPROTO_IP, 14), 6: (socket.IPPROTO_IPV6, 24)}  # ip(7), ipv6(7): IP_MTU, IPV6_MTU


@dataclass(frozen=True)
class Wanted:
    """The measurement that is wanted.

    Attributes:
        host: the far end.
        far_end: the server that runs there. Those of other tools measure upwards only, without ECN.
        direction: ``up`` from here to it, ``down`` from it to here.
        ecn: mark packets ECT(0): a queue may then mark instead of dropping.
        trace: look for the hop of the queue, too.
        output: the folder in which the recording gets its own.
    """

    host: FarHost
    far_end: FarEnd = "responder"
    direction: Direction = "up"
    caps: Caps = field(default_factory=Caps)
    ip_version: int | None = None
    ecn: bool = False
    trace: bool = False
    output: Path = Path()
    title: str = ""


@dataclass(frozen=True)
class Measured:
    """The outcome of a measurement.

    Attributes:
        found: the result.
        rounds: what was sent.
        whole_rounds: those of them that were measured to their end; ``found`` is of these.
        status: ``complete``, ``failed`` (the last round was not measured; ``problem`` says why), ``interrupted``.
        folder: the recording.
    """

    found: Depth | None
    rounds: list[Round]
    whole_rounds: int
    status: str
    problem: str | None
    folder: Path


def measure(wanted: Wanted, say: Callable[[str], None] = lambda _: None) -> Measured:
    """Measure the queue of a path.

    Args:
        say: called with the current step, for people; before each round with what it sends.

    Raises:
        EngineError: the responder cannot be reached, or refuses.
        RecordingError: the recording cannot be written.
    """
    return _Measurement(wanted, say).run()


def _trains(wanted: Wanted) -> Trains:
    if wanted.trace and wanted.direction == "down":
        raise EngineError(
            "the hop of the queue is found only in the direction from this host: leave out --reverse or --trace"
        )
    version, ip_bytes = _path_to(wanted)
    cap_bps = _ip_rate(wanted.caps.max_rate_bps, ip_bytes)
    if wanted.far_end == "responder":
        return ResponderTrains(wanted.host, Search(ip_bytes, cap_bps), wanted.direction, version, ecn=wanted.ecn)
    if wanted.direction == "down" or wanted.ecn:
        raise EngineError(f"{wanted.far_end} measures neither the download direction nor ECN: both need a responder")
    if wanted.far_end == "irtt":
        return ProbedTrains(wanted.host, ip_bytes, cap_bps, version)
    return CountedTrains(wanted.host, CountingSearch(ip_bytes, cap_bps), wanted.far_end, version)


class _Measurement:
    def __init__(self, wanted: Wanted, say: Callable[[str], None]) -> None:
        self.wanted, self.say = wanted, say
        self.trains = _trains(wanted)
        self.budget = Budget(wanted.caps)
        self.rounds: list[Round] = []
        self.tallies: dict[int, Tally] = {}
        self.whole_rounds = 0
        self.stalls = Stalls()
        self.found: Depth | None = None

    def run(self) -> Measured:
        writer = self._begin()
        # The time limit counts from here, after the metadata of this host is collected.
        self.budget = Budget(self.wanted.caps)
        problem = None
        with deferred() as signals, contextlib.closing(writer), self.stalls.watched():
            try:
                with signals.ending_block(), signals.allowed():
                    self._search(writer)
                    self._trace()
                status = "interrupted" if signals.received else "complete"
            except EngineError as reason:
                status, problem = "failed", self._with_stalls(str(reason))
                if not self.whole_rounds:
                    self._note(writer, problem)
                    writer.finish("failed")
                    raise
            self._note(writer, problem)
            folder = writer.finish(status)
        return Measured(self.found, self.rounds, self.whole_rounds, status, problem, folder)

    def _note(self, writer: RecordingWriter, problem: str | None = None) -> None:
        """Write what is known so far, so that it survives a kill."""
        for tally in self.tallies.values():
            if tally.status is None:
                # The round in which it ended.
                tally.end("stopped" if problem is None else "failed", problem)
        writer.append("flows", pl.DataFrame([self._row(one) for one in self.tallies.values()], schema=tables.FLOWS))
        writer.update(
            {
                "depth": None if self.found is None else {**self.found.document(), "whole_rounds": self.whole_rounds},
                "test": {
                    **writer.metadata["test"],
                    "flows": [tally.flow.settings() for tally in self.tallies.values()],
                },
                "hosts": {**writer.metadata["hosts"], **self.trains.far},
                "failures": [problem] if problem else [],
            }
        )
        writer.flush()

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
        search = self.trains.search
        first = search.first()
        if not self.budget.affords(first):
            raise EngineError(
                f"the first bursts alone may take {size(first.cost_bytes)} and {duration(first.cost_s)}: raise "
                "--max-bytes or --max-duration"
            )
        upcoming: Round | None = first
        unusable = 0
        while upcoming is not None:
            try:
                self._send(upcoming, writer)
            except UnusableRoundError as reason:
                unusable += 1
                if unusable > _MOST_UNUSABLE or not self.budget.affords(upcoming):
                    raise
                self.say(f"{reason}; once more")
                continue
            analysis = self.trains.analysis()
            self.found, self.whole_rounds = depth(analysis, search.large), self.whole_rounds + 1
            self._note(writer)
            upcoming = search.next(self.found, analysis, self.budget)
        stood_s = self.stalls.stood_s
        longer = self.budget.stretched(stood_s)
        if stood_s and self.found is not None and search.next(self.found, analysis, longer) is not None:
            raise EngineError("the time was over before all was measured")

    def _trace(self) -> None:
        """Look for the hop of the queue, where that is wanted; without success, the result says why."""
        if not self.wanted.trace or self.found is None:
            return
        host = self.wanted.host.address or self.wanted.host.name
        self.found = dataclasses.replace(self.found, trace=Place(reason="the trace was interrupted"))
        try:
            place = trace(host, self.wanted.ip_version, self.found, self.budget, self.say)
        except EngineError as reason:
            place = Place(reason=str(reason))
        self.found = dataclasses.replace(self.found, trace=place)

    def _with_stalls(self, problem: str) -> str:
        """A problem, with the time that this host stood still, which is not the far end's fault."""
        stood_s = self.stalls.stood_s
        return f"{problem}; this host stood still for {long_duration(stood_s)} in the meantime" if stood_s else problem

    def _send(self, upcoming: Round, writer: RecordingWriter) -> None:
        number = len(self.rounds)
        name = f"round {number + 1}"
        self.say(f"{name}: {upcoming}; {self.budget.left()} are left")
        flow = self.trains.flow(upcoming, name)
        # Before the first packet of it.
        self.budget.spend(upcoming)
        self.rounds.append(upcoming)
        self.tallies[number] = tally = Tally(number, flow)
        try:
            frames = self.trains.send(upcoming, tally, self.budget.left_s)
        except (KeyboardInterrupt, EngineError) as reason:
            # Its rows are kept; no conclusion is drawn from part of a round.
            if isinstance(reason, UnusableRoundError):
                tally.end("failed", str(reason))
            self._keep(number, tally, self.trains.kept(tally), writer)
            raise
        self._keep(number, tally, frames, writer)
        tally.settle(interrupted=self.budget.left_s <= 0)

    def _keep(self, number: int, tally: Tally, frames: dict[str, pl.DataFrame], writer: RecordingWriter) -> None:
        count({number: tally}, frames)
        for table, frame in frames.items():
            writer.append(table, frame)

    def _row(self, tally: Tally) -> dict[str, Any]:
        end = self.trains.far.get(self.wanted.host.name, {})
        return tally.row(end.get("address"))


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
    found, address = looked_up(name, wanted.ip_version, 9)
    version = 6 if found == socket.AF_INET6 else 4
    with socket.socket(found, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(address)
            mtu = probe.getsockopt(*_IP_MTU[version])
        except OSError as reason:
            raise EngineError(f"{name}: no route to this host: {reason.strerror}") from None
    return version, max(min(mtu, _MOST_IP_BYTES), 4 * (64 + UDP_BYTES + IP_BYTES[version]))


# A busy host gives a program its turn within this time.
_LONG_STALL_S = 2.0
_LOOK_EVERY_S = 0.2


def _awake_or_not_s() -> float:
    """Seconds that go on while a machine sleeps, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Stalls:
    """Times in which this process did not run.

    >>> now = iter([0.0, 0.1, 62.3, 62.4])
    >>> stalls = Stalls(lambda: next(now))
    >>> [stalls.look() for _ in range(3)]
    [None, None, None]
    >>> round(stalls.stood_s, 1)
    62.2

    Attributes:
        stood_s: all of them together, seconds.
    """

    def __init__(self, now: Callable[[], float] = _awake_or_not_s) -> None:
        self._now = now
        self._last_s = now()
        self.stood_s = 0.0

    def look(self) -> None:
        """To be called several times a second."""
        last_s, self._last_s = self._last_s, self._now()
        if self._last_s - last_s > _LONG_STALL_S:
            self.stood_s += self._last_s - last_s

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Have a thread look in the meantime."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_LOOK_EVERY_S):
                self.look()

        watcher = threading.Thread(target=watch, name="stalls", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
