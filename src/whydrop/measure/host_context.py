"""Host context of a test: the hosts as they are, their counters while it runs, and the programs that help."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from whydrop.measure.engine import EngineError, looked_up
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.host import CounterSampler, gather, interfaces, with_after
from whydrop.measure.plan import Plan, PlannedFlow
from whydrop.measure.runners import Runner
from whydrop.measure.runners.registry import SUPPORT

if TYPE_CHECKING:
    from whydrop.measure.plan import Settings
    from whydrop.recording.redaction import Redactor


def runners(flows: Mapping[int, PlannedFlow], hosts: Sequence[FarHost]) -> dict[int, Runner]:
    """The runners of flows that the engine does not run, by number.

    Raises:
        EngineError: there is no such runner, or two flows need one server at the same time.
    """
    if not flows:
        return {}
    from whydrop.measure.runners.registry import check_together, runner_for, spread_ports

    known = {host.name: host for host in hosts}
    placed = spread_ports([_placed(flow, known.get(flow.host or "")) for flow in flows.values()])
    problem = check_together(placed)
    if problem is not None:
        raise EngineError(problem)
    try:
        found = {number: runner_for(flow, number) for number, flow in zip(flows, placed, strict=True)}
    except LookupError as reason:
        raise EngineError(str(reason)) from None
    for runner in found.values():
        runner.meet(list(found.values()))
    return found


def _placed(flow: PlannedFlow, far: FarHost | None) -> PlannedFlow:
    """The flow with its host's address, and the port if one was given for all of that host."""
    if far is None:
        return flow
    support = SUPPORT.get(flow.runner)
    port = flow.port or (far.port if support is not None and support.port is not None else None)
    return dataclasses.replace(flow, host=far.address or flow.host, port=port)


def resolved(plan: Plan, hosts: Sequence[FarHost], known: Mapping[str, str]) -> dict[str, str]:
    """The addresses of the plan's hosts that are not known yet, by name.

    Raises:
        EngineError: a name has no address.
    """
    addresses = {host.name: host.address or host.name for host in hosts}
    found: dict[str, str] = {}
    for flow in plan.flows:
        name = flow.host
        if name is None or name in known or name in found:
            continue
        found[name] = str(looked_up(addresses.get(name, name), flow.ip_version)[1][0])
    return found


def described(address: str) -> str:
    """This host's metadata as JSON, for a client at ``address`` (the far end's ``describe``)."""
    return json.dumps(gather([_unmapped(address)]))


def _unmapped(address: str) -> str:
    """An IPv4 address that came as an IPv6 one, as it is."""
    return address.removeprefix("::ffff:") if "." in address else address


class HostContext:
    """This host around one run of a plan.

    Attributes:
        addresses: of the far ends, by name.
    """

    def __init__(self, plan: Plan, addresses: Mapping[str, str], settings: Settings) -> None:
        from whydrop.recording.redaction import Redactor

        self.addresses = dict(addresses)
        self._plan = plan
        self._sample = settings.counters
        self._redactor: Redactor | None = Redactor() if settings.redact else None
        self._sampler: CounterSampler | None = None
        self._before: dict[str, Any] = {}

    def before(self) -> dict[str, Any]:
        """Gather this host's metadata, with its queues' statistics, before the test."""
        self._before = gather(sorted(set(self.addresses.values())))
        return self._before

    def after(self) -> dict[str, Any]:
        """The same metadata with what changed by the test beside it."""
        return with_after(self._before, sorted(set(self.addresses.values())))

    def start_counters(self) -> None:
        """Begin to sample the counters of the interfaces that the test uses."""
        if self._sample:
            self._sampler = CounterSampler(interfaces(self._before), self._plan.step_s)
            self._sampler.start()

    def counters(self) -> dict[str, pl.DataFrame]:
        """The samples of counters since the last call."""
        if self._sampler is None:
            return {}
        frame = self._sampler.drain()
        return {"counters": frame} if frame.height else {}

    def stop_counters(self) -> None:
        """Sample for the last time."""
        if self._sampler is not None:
            self._sampler.stop()

    def redacted(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """The metadata as they may be written."""
        return metadata if self._redactor is None else self._redactor.metadata(metadata)

    def redacted_rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of any table as they may be written."""
        return frame if self._redactor is None else self._redactor.rows(frame)
