"""Responsiveness under working conditions, by the method of draft-ietf-ippm-responsiveness: docs/grades.md.

Three flows of a plan make one measurement of a direction: the load, of kind ``tcp``, which also leads; and the probes
inside its connections and those on new connections, of kind ``http``, which name the load in ``probes_of``. Load and
probes on new connections are made by a process each (:mod:`.worker`), so that neither waits for the other, nor for the
program that records them.
"""

from __future__ import annotations

import dataclasses
import logging
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Rows, Runner, ThreadRunner
from whydrop.measure.runners.registry import SUPPORT
from whydrop.measure.runners.responsiveness import configuration
from whydrop.measure.runners.responsiveness.processes import ROLES, WorkerEndedError, Workers
from whydrop.recording.metrics.responsiveness import Parameters, assess, probes_of
from whydrop.runtime.masking import masked
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import written_path

# Before its time, so that its processes are ready then.
_STARTS_BEFORE_NS = 1_500_000_000
# What the processes have measured in an interval is here so long after its end.
_SETTLES_NS = 100_000_000
# Between two directions, for queues to empty.
_REST_S = 2.0
# Until the goodput is known: so few pairs of probes take little of any path.
_FIRST_PAIRS_PER_S = 2.0
_TICK_S = 0.05

_log = logging.getLogger(__name__)


class _Options(BaseModel):
    """The options of a flow; the first ones are the parameters of the method."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    interval_s: float = Field(1.0, ge=0.2, le=60)
    moving_average_intervals: int = Field(4, ge=2, le=100)
    trimmed_mean_percent: float = Field(95.0, ge=50, le=100)
    tolerance_percent: float = Field(5.0, gt=0, le=100)
    first_connections: int = Field(1, ge=1, le=256)
    further_connections: int = Field(1, ge=0, le=256)
    most_connections: int = Field(16, ge=1, le=256)
    most_probes_per_s: float = Field(100.0, gt=0, le=1000)
    probe_share_percent: float = Field(5.0, gt=0, le=100)
    verify: bool = True
    other_host: bool = False
    configuration_path: str = Field(configuration.WELL_KNOWN, pattern=r"^/[!-~]*$")
    after: str | None = None
    probes_of: str | None = None
    probe: str | None = Field(None, pattern="^(self|foreign)$")

    def parameters(self) -> Parameters:
        """Those of the method."""
        return Parameters(**{one.name: getattr(self, one.name) for one in dataclasses.fields(Parameters)})


class ResponsivenessRunner(ThreadRunner):
    """The load of one direction, which leads; or the probes of one kind, which the runner of the load adds."""

    name = "responsiveness"
    ends_within_s = 3.0

    def __init__(self, flow: PlannedFlow, number: int) -> None:
        super().__init__(flow, number)
        self._measured = Rows()
        self.ended = threading.Event()
        self._others: list[ResponsivenessRunner] = []
        self._pings: list[Runner] = []
        self._failed = self._answered = 0
        self._last_error = ""
        self._facts: dict[str, Any] = {}

    # The contract.

    def meet(self, others: Sequence[Runner]) -> None:
        """Know the other flows of the test."""
        self._others = [one for one in others if isinstance(one, ResponsivenessRunner) and one is not self]
        self._pings = [one for one in others if one.flow.kind == "icmp"]

    def check(self) -> str | None:
        """Faults of the options; the server is asked when the test runs."""
        if complaint := SUPPORT[self.name].complaint(self.flow):
            return complaint
        where = f"flow {self.flow.name!r}"
        options, mistakes = validating.validate(_Options, self.flow.options)
        if mistakes or options is None:
            return f"{where}: " + "; ".join(f"{written_path(('options', *key))}: {what}" for key, what in mistakes)
        if self.flow.kind == "http":
            if options.probe is None or self._named(options.probes_of, "tcp") is None:
                return f"{where}: options.probes_of must name a flow of kind tcp, and options.probe be self or foreign"
        elif options.after is not None and self._named(options.after, "tcp") is None:
            return f"{where}: options.after is {options.after!r}; expected a flow of kind tcp"
        if self.flow.duration_s is None:
            return f"{where}: it needs duration_s, the longest time that it may take"
        return None

    def _patience_s(self, timeout_s: float) -> float:
        # Its processes have to end too, however little time there is.
        return max(timeout_s, self.ends_within_s)

    def _told(self) -> dict[str, Any]:
        own = {"answered": self._answered, "failed": self._failed} if self.flow.kind == "http" else {}
        return {**self._facts, **own}

    def _result(self) -> tuple[str, str | None]:
        if self.flow.kind != "http" or self._answered:
            return "complete", None
        if self._failed:
            return "failed", f"all {self._failed} probes failed, the last one so: {self._last_error}"
        return "no-data", "no probe was sent"

    def _rows(self) -> Rows:
        return self._measured

    # Its thread.

    def _supervise(self) -> None:
        try:
            options = _Options.model_validate(self.flow.options)
            if self.flow.kind == "http":
                self._follow(options)
            else:
                self._wait_for(options)
                if not self._stopping.is_set():
                    self._measure(options)
        except (configuration.ConfigurationError, WorkerEndedError) as reason:
            self._broken = masked(str(reason))
        except Exception as reason:
            _log.exception("runner responsiveness of flow %s", self.flow.name)
            self._broken = masked(f"measuring failed: {reason!r}")
        finally:
            self.ended.set()
        self._end_pings()

    def _end_pings(self) -> None:
        """After the last direction, and some idle time, pings beside it have nothing more to show."""
        loads = [one for one in (self, *self._others) if one.flow.kind == "tcp"]
        if self.flow.kind != "tcp" or not all(one.ended.is_set() for one in loads):
            return
        if not self._stopping.wait(_REST_S):
            for ping in self._pings:
                ping.stop()

    def _named(self, name: str | None, kind: str) -> ResponsivenessRunner | None:
        return next((one for one in self._others if one.flow.name == name and one.flow.kind == kind), None)

    def _follow(self, options: _Options) -> None:
        leader = self._named(options.probes_of, "tcp")
        if leader is None:
            raise configuration.ConfigurationError("the flow of the load does not run")
        while not leader.ended.wait(_TICK_S) and not self._stopping.is_set():
            pass
        if leader._broken is not None and not self._answered and not self._failed:
            self._broken = f"no probe was sent, since {leader.flow.name} failed"

    def _wait_for(self, options: _Options) -> None:
        """Until its time; until the flow before it has ended, where that is earlier or later.

        On a busy host the one before begins late, and two loads at a time would measure each other.
        """
        before = self._named(options.after, "tcp")
        while not self._stopping.wait(_TICK_S):
            if before is not None:
                if not before.ended.is_set():
                    continue
                self._due_ns = min(self._due_ns, time.monotonic_ns() + round(_REST_S * 1e9))
                before = None
            if time.monotonic_ns() >= self._due_ns - _STARTS_BEFORE_NS:
                break

    def _measure(self, options: _Options) -> None:
        flow = self.flow
        found = configuration.fetch(
            flow.host or "",
            flow.port or configuration.PORT,
            options.configuration_path,
            verify=options.verify,
            other_host=options.other_host,
            local_address=flow.local_address,
            interface=flow.interface,
        )
        duration_ns = round((flow.duration_s or 0.0) * 1e9)
        place = _place(found, flow, verify=options.verify)
        self._facts = {
            "server": f"{found.host} port {found.port}",
            "large_url": masked(found.large_url),
            "small_url": masked(found.small_url),
            "upload_url": masked(found.upload_url),
        }
        job = {
            "place": place,
            "direction": flow.direction,
            "piece_ns": round(options.interval_s * 1e9) // max(1, round(options.interval_s / flow.interval_s)),
            "pairs_per_s": min(_FIRST_PAIRS_PER_S, options.most_probes_per_s / 2),
            "load_url": found.upload_url if flow.direction == "up" else found.large_url,
            "small_url": found.small_url,
            "most_connections": options.most_connections,
        }
        with Workers(job) as workers:
            if not workers.wait_until_ready(self.is_stopping):
                return
            session = _Session(self, options, workers, job, max(self._due_ns, time.monotonic_ns() + _SETTLES_NS))
            session.run(duration_ns)

    def told(self, table: str, kind: str | None = None, **columns: Any) -> None:
        """One more row, of this flow or of its probes of a kind."""
        owner = self if kind is None else self._probes(kind)
        if owner is None:
            return
        with owner._lock:
            owner._measured.add(table, flow=owner.number, **columns)
            if table == "fetches":
                owner._answered += columns["error"] is None
                owner._failed += columns["error"] is not None
                owner._last_error = columns["error"] or owner._last_error

    def _probes(self, kind: str) -> ResponsivenessRunner | None:
        return next(
            (
                one
                for one in self._others
                if one.flow.options.get("probes_of") == self.flow.name and one.flow.options.get("probe") == kind
            ),
            None,
        )

    def is_stopping(self) -> bool:
        """True if it was asked to end."""
        return self._stopping.is_set()


class _Session:
    """One direction while it is measured: adds connections, sets the rate of probes, and ends when it is stable."""

    def __init__(
        self, runner: ResponsivenessRunner, options: _Options, workers: Workers, job: dict[str, Any], start_ns: int
    ) -> None:
        self._runner, self._options, self._workers, self._job = runner, options, workers, job
        self._parameters = options.parameters()
        self._start_ns = start_ns
        self._pieces: list[dict[str, Any]] = []
        self._found: dict[str, list[dict[str, Any]]] = {"foreign": [], "self": []}
        self._connections = 0

    def run(self, duration_ns: int) -> None:
        """Measure until it is stable, or the time is over."""
        end_ns = self._start_ns + duration_ns
        interval_ns = round(self._options.interval_s * 1e9)
        for role in ROLES:
            self._workers.command(role, do="begin", start_ns=self._start_ns)
        if not self._take_until(self._start_ns):
            return
        self._connect(self._options.first_connections)
        number = 0
        while True:
            boundary_ns = self._start_ns + (number + 1) * interval_ns
            if boundary_ns > end_ns or not self._take_until(boundary_ns):
                return
            self._connect(self._options.further_connections)
            if not self._take_until(boundary_ns + _SETTLES_NS):
                return
            number += 1
            if self._is_over():
                return

    def _connect(self, count: int) -> None:
        self._connections = min(self._options.most_connections, self._connections + count)
        self._workers.command("load", do="connect", count=count)

    def _is_over(self) -> bool:
        """Ask what was measured whether it is stable; and let the probes take the share of goodput that they may."""
        if not self._pieces:
            return False
        pieces = pl.DataFrame(self._pieces, schema=dict.fromkeys(self._pieces[0], pl.Int64))
        start_ns = int(self._pieces[0]["start_ns"])
        foreign, own = (_frame(self._found[kind]) for kind in ("foreign", "self"))
        assessment = assess(start_ns, pieces, probes_of(foreign, own), self._parameters)
        recent = self._pieces[-max(1, round(self._options.interval_s * 1e9 / self._job["piece_ns"])) :]
        span_ns = recent[-1]["end_ns"] - recent[0]["start_ns"]
        goodput_bps = 8e9 * sum(piece["payload_bytes"] for piece in recent) / max(1_000_000, span_ns)
        pairs = self._parameters.pairs_per_s(goodput_bps)
        for role in ROLES:
            self._workers.command(role, do="rate", pairs_per_s=pairs)
        at_ns = time.time_ns()
        self._runner.told("values", time_ns=at_ns, key="probe_pairs_per_s", value=pairs)
        return assessment.stable_at is not None

    def _take_until(self, until_ns: int) -> bool:
        """Take what the processes print; false when it is to end."""
        while (wait_ns := until_ns - time.monotonic_ns()) > 0:
            if self._runner.is_stopping():
                return False
            for role, event in self._workers.events(min(_TICK_S, wait_ns / 1e9)):
                self._take(role, event)
        return not self._runner.is_stopping()

    def _take(self, role: str, event: dict[str, Any]) -> None:
        what = event.pop("event")
        if what == "piece":
            self._piece(role, event)
        elif what == "probe":
            kind = "self" if role == "load" else "foreign"
            row = {**event, "url": masked(self._job["small_url"])}
            self._found[kind].append(row)
            self._runner.told("fetches", kind, **row)
        elif what == "failed":
            raise WorkerEndedError(
                f"load-generating connection {event['connection']} to {self._job['load_url']} broke: {event['why']}; "
                "the test ends then, as the draft asks: look at the server's log"
            )

    def _piece(self, role: str, event: dict[str, Any]) -> None:
        start_ns, end_ns = event["start_ns"], event["end_ns"]
        if role == "load":
            payload = sum(event["bytes"].values())
            self._pieces.append({"start_ns": start_ns, "end_ns": end_ns, "payload_bytes": payload})
            goodput_bps = 8e9 * payload / max(1, end_ns - start_ns)
            self._runner.told(
                "intervals", start_ns=start_ns, end_ns=end_ns, payload_bytes=payload, goodput_bps=goodput_bps
            )
            self._value(end_ns, "connections", len(event["bytes"]))
            for number, size in event["bytes"].items():
                self._value(end_ns, f"connection_{int(number):02}_mbit", 8e3 * size / max(1, end_ns - start_ns))
        name = "load" if role == "load" else "probe"
        self._value(end_ns, f"{name}_processor_percent", 100 * event["processor"])
        self._value(end_ns, f"{name}_processor_wait_percent", 100 * event["waited"])
        if event["late_ns"] is not None:
            self._value(end_ns, f"{name}_lateness_ms", event["late_ns"] / 1e6)

    def _value(self, time_ns: int, key: str, value: float) -> None:
        self._runner.told("values", time_ns=time_ns, key=key, value=float(value))


_FETCHED = {
    "start_ns": pl.Int64,
    "duration_ns": pl.Int64,
    "error": pl.String,
    "tcp_ns": pl.Int64,
    "tls_ns": pl.Int64,
    "tls_round_trips": pl.Int32,
}


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame({name: [row.get(name) for row in rows] for name in _FETCHED}, schema=_FETCHED)


def _place(found: configuration.Configuration, flow: PlannedFlow, *, verify: bool) -> dict[str, Any]:
    """Where to connect: the first address of the host, the same for all connections."""
    family = {4: socket.AF_INET, 6: socket.AF_INET6}.get(flow.ip_version or 0, socket.AF_UNSPEC)
    try:
        known = socket.getaddrinfo(found.host, found.port, family, socket.SOCK_STREAM)
    except OSError as reason:
        raise configuration.ConfigurationError(f"{found.host}: {reason.strerror or reason}") from None
    kind, _, _, _, address = known[0]
    return {
        "family": int(kind),
        "address": list(address),
        "name": found.name,
        "verify": verify,
        "local_address": flow.local_address,
        "interface": flow.interface,
    }
