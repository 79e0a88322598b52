"""One run of each program on the wire, and its results: whydrop beside iperf3 and irtt."""

from __future__ import annotations

import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from wire import FAR, Running, Wire, WireError

from whydrop.measure.runners.parsing.irtt import IrttParser
from whydrop.recording.recording import Recording

TESTS = Path(__file__).with_name("engine")
# As whydrop counts by default.
STEP_S = 0.2
# root may schedule threads in real time, which whydrop does with those that send probes; other users may not.
_WITHOUT_PRIORITY = ("setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice", "--")
# The same for all, whatever the machine prefers.
CONGESTION_CONTROL = "cubic"


@dataclass(frozen=True)
class Transfer:
    """One bulk transfer, counted at its receiver; processor time of both ends, user and system."""

    bits_per_s: float
    payload_bytes: int
    cpu_s: float

    def cpu_s_per_gigabyte(self, without_s: float = 0.0) -> float:
        """Less what the program takes without a transfer."""
        return (self.cpu_s - without_s) / self.payload_bytes * 1e9


@dataclass(frozen=True)
class Punctuality:
    """How far from their time probes were sent."""

    errors_ns: list[int]
    not_sent: int

    def percentile_us(self, percent: int) -> float:
        """Of the sizes of the errors, early or late, microseconds."""
        sizes = sorted(map(abs, self.errors_ns))
        return statistics.quantiles(sizes, n=100, method="inclusive")[percent - 1] / 1000


@dataclass(frozen=True)
class Crowd:
    """The losses of many flows at once."""

    flows: int
    intervals: int
    missed_intervals: int
    probes: int
    not_sent: int
    late: int
    worst_error_ms: float


class Whydrop:
    """``whydrop run`` against ``whydrop responder``."""

    name = "whydrop"

    def __init__(self, wire: Wire, command: Sequence[str], *, real_time: bool) -> None:
        self._wire = wire
        self._command = [*(() if real_time else _WITHOUT_PRIORITY), *command]

    def transfer(self, direction: str, seconds: float) -> Transfer:
        """One TCP flow as fast as it goes."""
        with self._recorded(TESTS / f"tcp-{direction}.toml", seconds) as (recording, cpu_s):
            return _of_intervals(recording.table("intervals"), cpu_s)

    def nothing_s(self) -> float:
        """Processor time of both ends without a transfer to speak of."""
        with self._recorded(TESTS / "nothing.toml", 1) as (_, cpu_s):
            return cpu_s

    def punctuality(self, interval_s: float, seconds: float) -> Punctuality:
        """One stream of probes."""
        extra = ["--set", f"probe_interval_s={interval_s:g}"]
        with self._recorded(TESTS / "probes.toml", seconds, extra) as (recording, _):
            return _of_probes(recording.table("probes"))

    def crowd(self, seconds: float) -> Crowd:
        """64 TCP flows and 10 streams of probes each 5 ms."""
        with self._recorded(TESTS / "many.toml", seconds) as (recording, _):
            return _of_crowd(recording, seconds)

    @contextmanager
    def _recorded(self, test: Path, seconds: float, extra: Sequence[str] = ()) -> Iterator[tuple[Recording, float]]:
        with tempfile.TemporaryDirectory(prefix="whydrop-bench-") as folder:
            secret = Path(folder) / "secret"
            secret.write_text("of this measurement only, and longer than it need be\n")
            secret.chmod(0o600)
            far = Running(
                self._wire.at(
                    self._wire.far, [*self._command, "responder", "--secret-file", str(secret), "--listen", FAR]
                )
            )
            try:
                far.wait_for("port")
                run = ["run", str(test), "--to", FAR, "--secret-file", str(secret), "--duration", f"{seconds:g}"]
                run += ["--output", folder, "--no-plot", "--no-counters", *extra]
                run += ["--set", f"congestion_control={CONGESTION_CONTROL}"]
                near = Running(self._wire.at(self._wire.near, [*self._command, *run])).ended(within_s=seconds + 60)
            finally:
                far.stop()
                far_ended = far.ended(within_s=20)
            if near.status != 0:
                raise WireError(f"whydrop {' '.join(run)} ended with status {near.status}: {near.output[-500:]}")
            recordings = list(Path(folder).glob("*.recording"))
            yield Recording.open(recordings[0]), near.cpu_s + far_ended.cpu_s


class Iperf3:
    """``iperf3 -c`` against ``iperf3 -s -1``."""

    name = "iperf3"

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        # Newer ones leave received data in the kernel if asked, as whydrop does.
        known = subprocess.run(["iperf3", "--help"], capture_output=True, text=True, check=False).stdout
        self._fast = ["--skip-rx-copy"] if "--skip-rx-copy" in known else []

    def transfer(self, direction: str, seconds: float) -> Transfer:
        """One TCP flow as fast as it goes."""
        document, cpu_s = self._run(["-t", f"{seconds:.0f}", *(["-R"] if direction == "down" else [])])
        received = document["end"]["sum_received"]
        return Transfer(received["bits_per_second"], int(received["bytes"]), cpu_s)

    def nothing_s(self) -> float:
        """Processor time of both ends without a transfer to speak of."""
        return self._run(["-t", "1", "-b", "10K", "-l", "1K"])[1]

    def _run(self, words: Sequence[str]) -> tuple[dict[str, dict[str, dict[str, float]]], float]:
        far = Running(self._wire.at(self._wire.far, ["iperf3", "-s", "-1", "-B", FAR, "--forceflush"]))
        try:
            far.wait_for("listening")
            client = ["iperf3", "-c", FAR, "-i", f"{STEP_S:g}", "-J", "-C", CONGESTION_CONTROL, *self._fast, *words]
            near = Running(self._wire.at(self._wire.near, client)).ended()
        finally:
            far_ended = far.ended(within_s=5)
        if near.status != 0:
            raise WireError(f"{' '.join(client)} ended with status {near.status}: {near.output[-300:]}")
        return json.loads(near.output), near.cpu_s + far_ended.cpu_s


class Irtt:
    """``irtt client`` against ``irtt server``."""

    name = "irtt"

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def punctuality(self, interval_s: float, seconds: float) -> Punctuality:
        """One stream of probes."""
        far = Running(self._wire.at(self._wire.far, ["irtt", "server", "-b", FAR, "-i", "1ms"]))
        with tempfile.TemporaryDirectory(prefix="whydrop-bench-") as folder:
            result = Path(folder) / "result.json"
            try:
                far.wait_for("listener")
                client = ["irtt", "client", "-i", f"{interval_s * 1e3:g}ms", "-d", f"{seconds:g}s", "-Q"]
                near = Running(self._wire.at(self._wire.near, [*client, "-o", str(result), FAR])).ended()
            finally:
                far.stop()
                far.ended(within_s=5)
            if near.status != 0:
                raise WireError(f"{' '.join(client)} ended with status {near.status}: {near.output[-300:]}")
            parser = IrttParser(0, host=FAR, interval_ns=round(interval_s * 1e9), timeout_ns=5_000_000_000)
            parser.document(result.read_text())
        found = _of_probes(parser.rows.take()["probes"])
        return Punctuality(found.errors_ns, found.not_sent + int(parser.facts.get("timer_misses", 0)))


@contextmanager
def loaded(wire: Wire, connections: int = 4) -> Iterator[None]:
    """TCP in both directions at full speed beside the measurement: the same load for every program."""
    far = Running(wire.at(wire.far, ["iperf3", "-s", "-1", "-p", "5299", "--forceflush"]))
    far.wait_for("listening")
    words = ["iperf3", "-c", FAR, "-p", "5299", "-t", "600", "--bidir", "-P", str(connections // 2), "--forceflush"]
    words += ["-C", CONGESTION_CONTROL]
    near = Running(wire.at(wire.near, words))
    try:
        near.wait_for("bits/sec")
        yield
    finally:
        for one in (near, far):
            one.stop()
        for one in (near, far):
            one.ended(within_s=5)


def _of_intervals(intervals: pl.DataFrame, cpu_s: float) -> Transfer:
    payload_bytes = int(intervals["payload_bytes"].sum())
    begun_ns, ended_ns = intervals.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return Transfer(payload_bytes * 8e9 / (ended_ns - begun_ns), payload_bytes, cpu_s)


def _of_probes(probes: pl.DataFrame) -> Punctuality:
    sent = probes.filter(pl.col("fate") != "not-sent", pl.col("sent_ns").is_not_null())
    return Punctuality((sent["sent_ns"] - sent["scheduled_ns"]).to_list(), probes.height - sent.height)


def _of_crowd(recording: Recording, seconds: float) -> Crowd:
    flows, intervals, probes = (recording.table(name) for name in ("flows", "intervals", "probes"))
    loads = flows.filter(kind="tcp")["flow"].unique()
    missed = 0
    for flow in loads:
        missed += missed_intervals(intervals.filter(flow=flow), STEP_S, seconds)
    punctual = _of_probes(probes)
    interval_ns = 5_000_000
    return Crowd(
        flows=loads.len(),
        intervals=intervals.height,
        missed_intervals=missed,
        probes=probes.height,
        not_sent=punctual.not_sent,
        late=sum(error > interval_ns for error in punctual.errors_ns),
        worst_error_ms=max(map(abs, punctual.errors_ns), default=0) / 1e6,
    )


def missed_intervals(intervals: pl.DataFrame, step_s: float, seconds: float) -> int:
    """Steps of one flow that have no row of their own: one that is twice as long stands for two."""
    ordered = intervals.sort("start_ns")
    lengths_s: list[float] = ((ordered["end_ns"] - ordered["start_ns"]) / 1e9).to_list()
    merged: int = sum(max(0, round(length_s / step_s) - 1) for length_s in lengths_s)
    gaps_s: list[float] = ((ordered["start_ns"].shift(-1) - ordered["end_ns"]).drop_nulls() / 1e9).to_list()
    between: int = sum(round(max(0.0, gap_s) / step_s) for gap_s in gaps_s)
    covered_s = sum(lengths_s) + sum(gaps_s)
    outside = max(0, round((seconds - covered_s) / step_s))
    return merged + between + outside
