"""A plan: one test with every parameter filled in, ready to run. Made from a test's file, kept in the recording."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from whydrop.measure.far_hosts import FarHost
from whydrop.runtime.masking import masked_options

Kind = Literal["tcp", "udp", "probe", "icmp", "burst", "http", "value"]
Direction = Literal["up", "down", "both"]


@dataclass(frozen=True)
class PlannedFlow:
    """One flow of a plan. What does not apply to its kind is ``None``.

    Attributes:
        name: unique in the plan; the name of its series.
        kind: see ``record.tables.FLOWS``.
        direction: up is from here to the host. A TCP flow is up or down; two of them make a bidirectional test.
        runner: ``engine`` (our own), or ``iperf3``, ``netperf``, ``irtt``, ``stamp``, ``msak``, ``ping``, ``fping``,
            ``nuttcp``, ``http``, ``command``.
        host: the name or address that the user gave; ``None`` for what runs here alone.
        local_address, interface: where its packets leave this host; ``None`` is the kernel's choice.
        start_s, duration_s: after the common start; ``duration_s`` is ``None`` for a flow limited by ``payload_bytes``.
        interval_s: of probes, from one to the next; of other flows, the length of the intervals that are counted.
        options: of runners other than the engine: what only they understand (a command line, a parser, URLs).
    """

    name: str
    kind: Kind
    direction: Direction = "both"
    runner: str = "engine"
    host: str | None = None
    port: int | None = None
    ip_version: int | None = None
    local_address: str | None = None
    interface: str | None = None
    start_s: float = 0.0
    duration_s: float | None = None
    interval_s: float = 0.2
    dscp: int = 0
    ecn: bool | None = None
    congestion_control: str | None = None
    rate_bps: float | None = None
    pacing_rate_bps: float | None = None
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    payload_bytes: int | None = None
    packet_payload_bytes: int | None = None
    on_s: float | None = None
    off_s: float | None = None
    packets_per_burst: int | None = None
    burst_every_s: float | None = None
    timeout_s: float | None = None
    units: str | None = None
    optional: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """Everything that was asked for, without what does not apply and without secrets."""
        asked = {key: value for key, value in dataclasses.asdict(self).items() if value not in (None, {})}
        return asked | ({"options": masked_options(self.options)} if self.options else {})


@dataclass(frozen=True)
class Computed:
    """A series made of others, step by step.

    Attributes:
        name: of the new series.
        by: ``mean``, ``sum``, ``fairness`` (Jain), ``difference-from-min``, ``smooth-mean``.
        of: patterns (as of ``fnmatch``, matched with case) over the names of series.
    """

    name: str
    by: str
    of: tuple[str, ...]
    units: str


@dataclass(frozen=True)
class Plan:
    """One test, ready to run.

    Attributes:
        length_s: how long the load runs; the test takes ``length_s + 2 * delay_s`` where it has idle time around it.
        delay_s: before and behind the load.
        step_s: of the grid on which series are compared.
        parameters: every parameter of the test, also those left at their defaults.
        source: the file that the test was read from, or its name in the catalogue.
        notes: what differs from the test as it is written, in words, such as flows that another program measures.
        segments: which streams probe the access point and the far ends, as ``measure.segments`` has it.
    """

    test: str
    title: str
    length_s: float
    delay_s: float
    step_s: float
    hosts: tuple[str, ...]
    flows: tuple[PlannedFlow, ...]
    computed: tuple[Computed, ...] = ()
    default_plot: str | None = None
    plots: tuple[str, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)
    source: str = ""
    notes: tuple[str, ...] = ()
    segments: Mapping[str, Any] | None = None

    @property
    def total_s(self) -> float:
        """From the common start to the end of the last flow that is limited by time."""
        ends = [flow.start_s + flow.duration_s for flow in self.flows if flow.duration_s is not None]
        return max(ends, default=self.length_s + 2 * self.delay_s)

    def by_ip_version(self, ip_version: int | None) -> Plan:
        """This plan with IPv4 (4) or IPv6 (6) for each flow that does not choose itself; ``None`` changes nothing."""
        if ip_version is None:
            return self
        flows = [dataclasses.replace(flow, ip_version=flow.ip_version or ip_version) for flow in self.flows]
        return dataclasses.replace(self, flows=tuple(flows))

    def as_dict(self) -> dict[str, Any]:
        """For ``recording.json``."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}
        if self.segments is None:
            del plain["segments"]
        flows = [flow.settings() for flow in self.flows]
        computed = [{**dataclasses.asdict(one), "of": list(one.of)} for one in self.computed]
        return {**plain, "flows": flows, "computed": computed, "parameters": masked_options(self.parameters)}


@dataclass(frozen=True)
class Settings:
    """How a plan is run, beside what it says itself.

    Attributes:
        output: the folder in which the recording gets a folder of its own.
        hosts: how to reach the far ends; those that are missing are reached by their names.
        redact: hide names and addresses before anything is written.
        batch: what the batch says of itself, for the metadata.
        counters: sample the counters of this host's queues, interfaces and processors meanwhile.
        fallback: where the recording goes if ``output`` takes no more.
    """

    output: Path = Path()
    hosts: Sequence[FarHost] = ()
    title: str = ""
    note: str = ""
    redact: bool = False
    batch: Mapping[str, Any] | None = None
    counters: bool = True
    fallback: Path | None = None
