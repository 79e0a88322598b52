"""One measurement at a time: a TCP flow to one host, and what came of it in a few numbers.

To a responder the engine sends, and the far end counts what arrives. To another far end a program sends, and this
host's kernel counts what is acknowledged.
"""

from __future__ import annotations

import dataclasses
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from whydrop.act.far_ends import RESPONDER, FarEnd
from whydrop.act.observed import ObservedRunner
from whydrop.act.searching import FINAL_ROUNDS, MOST_MEASUREMENTS
from whydrop.errors import Error
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.plan import Plan, Settings
from whydrop.measure.run import run
from whydrop.measure.runners import Runner
from whydrop.measure.tests import resolve
from whydrop.monitoring.sockets import selection
from whydrop.monitoring.sockets.sampler import INTERVAL_S
from whydrop.recording.metrics.definitions import measure
from whydrop.recording.recording import Recording
from whydrop.runtime.cancelling import interruption

# What a flow does in this share of its time at the beginning is its start, and not what the path carries.
_START_SHARE = 1 / 3
# From the first to the last interval that counts, at least so many.
_FEWEST_INTERVALS = 3
ETHERNET_BYTES = 14
# A server of one test at a time may not be done with the one before.
_BUSY = ("server is busy", "may be busy", "in use")
_BUSY_TRIES, _BUSY_S = 4, 1.0


class NoMeasurementError(Error):
    """The path could not be measured; the message says why."""


@dataclass(frozen=True)
class Reading:
    """Measurements of one flow, without its start.

    Attributes:
        goodput_bps: of payload, at the receiver.
        retransmitted: share of the segments that were retransmitted; NaN where it is not known.
        mss_bytes: payload of a full segment.
        frame_bytes: what tc counts of it: with headers, without preamble and checksum.
        min_rtt_s: the smallest round trip that its sender saw; NaN where it is not known.
        recording: everything about it.
    """

    goodput_bps: float
    retransmitted: float
    mss_bytes: float
    frame_bytes: float
    min_rtt_s: float
    recording: Path


@dataclass(frozen=True)
class Judged:
    """The source of the numbers of a proof.

    Attributes:
        far_end: what took the data, or ``connections``.
        words: how they came about, in sentences; empty where a responder counted.
        wider: how much wider intervals are than with load of one's own; ``None`` where the load is one's own.
    """

    far_end: str = "responder"
    words: str = ""
    wider: float | None = None

    def as_json(self) -> dict[str, Any]:
        """For the documents of pacing and fixing."""
        return {"far_end": self.far_end, "judged_by": self.words or None, "intervals_wider": self.wider}


RESPONDER_JUDGED = Judged()


class Measuring(ABC):
    """Measures how well packets reach one host; the search, the plan and the proof need no more of it.

    Attributes:
        host: the far end.
        output: the folder of the recordings.
        length_s: of one measurement.
        say: called with the current step, for people.
        sends: load of its own.
        most_measurements: that a search may take; and rounds in which it measures its last candidates.
    """

    host: FarHost
    output: Path
    length_s: float
    say: Callable[[str], None]
    sends: bool = True
    most_measurements: int = MOST_MEASUREMENTS
    final_rounds: int = FINAL_ROUNDS

    @abstractmethod
    def reading(self, title: str, **parameters: Any) -> Reading:
        """Measure once; raises :class:`NoMeasurementError`."""

    @abstractmethod
    def loaded(self, title: str, *, probes: bool | None = None, **parameters: Any) -> Path:
        """Measure under load; the folder of the recording. Raises :class:`NoMeasurementError`."""

    @abstractmethod
    def lasts_at_least(self, length_s: float) -> None:
        """Make the following measurements as long as this."""

    @abstractmethod
    def judged(self) -> Judged:
        """The source of the numbers, after the measurements."""

    @property
    def cannot_pace(self) -> str | None:
        """The reason why nothing can be paced without a change of this host; ``None`` where a socket paces itself."""
        return None


@dataclass
class Meter(Measuring):
    """Measures one host with load of its own.

    Attributes:
        host: the far end.
        output: the folder of the recordings.
        length_s: of one measurement.
        flows: that load the path where delays are looked at, too.
        say: called with the current step, for people.
        runs: how many have been made.
        far_end: what takes the data.
        keeps: the recordings outlive the measurements.
    """

    host: FarHost
    output: Path
    length_s: float
    ip_version: int | None = None
    flows: int = 1
    say: Callable[[str], None] = lambda _: None
    runs: int = 0
    far_end: FarEnd = RESPONDER
    keeps: bool = True

    def __post_init__(self) -> None:
        self.length_s = self.far_end.length_s(self.length_s)

    def lasts_at_least(self, length_s: float) -> None:
        """Make the following measurements as long as this."""
        self.length_s = self.far_end.length_s(max(self.length_s, length_s))

    def reading(self, title: str, **parameters: Any) -> Reading:
        """Let one flow run, and read what came of it.

        Args:
            title: of the recording.
            parameters: of the test ``tcp_nup``, such as ``pacing_rate_bps`` and ``congestion_control``.

        Raises:
            NoMeasurementError: nothing arrived, or the host cannot be measured.
        """
        folder = self.run(title, "tcp_nup", upload_streams=1, pings=False, delay_s=0.0, **parameters)
        return read(Recording.open(folder))

    def loaded(self, title: str, *, probes: bool | None = None, **parameters: Any) -> Path:
        """Load the path; raises as :meth:`run`.

        Args:
            title: of the recording.
            probes: send probes beside the load; by default where a responder answers them.
            parameters: of the test ``tcp_nup``.
        """
        pings = self.far_end.kind == "responder" if probes is None else probes
        return self.run(title, "tcp_nup", upload_streams=self.flows, pings=pings, **parameters)

    @property
    def cannot_pace(self) -> str | None:
        """The program has no such option."""
        if self.far_end.paces_its_socket:
            return None
        return (
            f"{self.far_end.program} cannot pace its own socket (SO_MAX_PACING_RATE), so nothing can be searched for "
            "without a change of this host: leave out --dry-run, give --rate, or use --far-end iperf3"
        )

    def judged(self) -> Judged:
        """By the kernel of this host, where no responder counts."""
        if self.far_end.kind == "responder":
            return Judged()
        return Judged(
            str(self.far_end),
            f"Measured from this end alone, by TCP_INFO of uploads to {self.far_end}: goodput is what was "
            "acknowledged, and round-trip times are those of the load's own packets.",
        )

    def run(self, title: str, test: str, **parameters: Any) -> Path:
        """Run a test to the host; the folder of the recording.

        Raises:
            NoMeasurementError: a flow failed; the recording is there.
            whydrop.measure.engine.EngineError: the host cannot be reached.
        """
        self.runs += 1
        self.say(title)
        given = {"length_s": self.length_s, "step_s": self._step_s, **parameters}
        if self.ip_version is not None:
            given["ip_version"] = self.ip_version
        resolved = resolve(test, [self.host.name], given, title=title)
        settings = Settings(output=self.output, hosts=[self.host], title=title)
        for attempt in range(1, _BUSY_TRIES + 1):
            finished = run(self._measured_here(resolved), settings, around=self._around)
            if finished.status == "interrupted":
                raise interruption()
            if finished.status == "complete":
                return finished.folder
            why = "; ".join(map(str, finished.failures)) or finished.status
            if (other := self.far_end.otherwise(why)) is not None:
                self.far_end = other
            elif attempt == _BUSY_TRIES or not any(words in why for words in _BUSY):
                break
            else:
                time.sleep(_BUSY_S)
        kept = f" (recording: {finished.folder})" if self.keeps else ""
        raise NoMeasurementError(f"{title}: {self.far_end.advice(why)}{kept}")

    @property
    def _step_s(self) -> float:
        return 0.1 if self.far_end.kind == "responder" else INTERVAL_S

    def _measured_here(self, plan: Plan) -> Plan:
        """The plan with flows that need no responder, where there is none."""
        if self.far_end.kind == "responder":
            return plan
        address = self.host.address or self.host.name
        flows = [self.far_end.flow(one, address) for one in plan.flows if one.kind == "tcp"]
        flows += [dataclasses.replace(one, runner="ping", optional=True) for one in plan.flows if one.kind == "icmp"]
        return dataclasses.replace(plan, flows=tuple(flows))

    def _around(self, runner: Runner) -> Runner:
        if self.far_end.kind == "responder" or runner.flow.kind != "tcp":
            return runner
        return ObservedRunner(runner, tuple(selection.networks(self.host.address or self.host.name)))


def read(recording: Recording) -> Reading:
    """Measure the flow of a recording, without its start.

    Raises:
        NoMeasurementError: nothing arrived.
    """
    intervals = recording.table("intervals").sort("start_ns")
    if intervals.height < _FEWEST_INTERVALS:
        raise NoMeasurementError(f"{recording.path}: too few packets arrived to measure a rate")
    first, last = int(intervals["start_ns"][0]), int(intervals["end_ns"][-1])
    begin = first + round((last - first) * _START_SHARE)
    steady = intervals.filter(pl.col("start_ns") >= begin)
    span_ns = int(steady["end_ns"][-1]) - int(steady["start_ns"][0])
    info = recording.table("tcp_info").sort("time_ns")
    later = info.filter(pl.col("time_ns") >= begin)
    return Reading(
        float(steady["payload_bytes"].sum()) * 8e9 / span_ns,
        _retransmitted(later),
        _last(info, "mss_bytes", 1448.0),
        _last(info, "path_mtu_bytes", 1500.0) + ETHERNET_BYTES,
        _last(info, "min_rtt_ns", math.nan) / 1e9,
        recording.path,
    )


def _retransmitted(info: pl.DataFrame) -> float:
    rows = info.drop_nulls(["retransmitted_packets", "sent_data_packets"])
    if rows.height < 2:
        return math.nan
    sent = int(rows["sent_data_packets"][-1]) - int(rows["sent_data_packets"][0])
    retransmitted = int(rows["retransmitted_packets"][-1]) - int(rows["retransmitted_packets"][0])
    return retransmitted / sent if sent > 0 else math.nan


def _last(info: pl.DataFrame, column: str, otherwise: float) -> float:
    known = info[column].drop_nulls()
    return float(known[-1]) if len(known) else otherwise


def metrics(recording: Recording) -> dict[str, float]:
    """The metrics by which a change is judged, by key (see :mod:`whydrop.recording.metrics.definitions`).

    Without probes, the round-trip time is that of the load's own packets, as TCP smooths it.
    """
    found = {key: one.value for key, one in measure(recording).items()}
    if "rtt-median" not in found:
        smoothed_ns = recording.table("tcp_info")["srtt_ns"].drop_nulls()
        if len(smoothed_ns):
            found["rtt-median"] = float(smoothed_ns.median()) / 1e6  # type: ignore[arg-type]
    return found
