"""The engine's part of a plan: which flows it runs, how they are handed to it, and what it hands back."""

from __future__ import annotations

import dataclasses
import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop import _core
from whydrop.errors import Error
from whydrop.measure.clocks import Known
from whydrop.measure.far_hosts import FarHost
from whydrop.measure.plan import PlannedFlow
from whydrop.recording.troubles import Trouble
from whydrop.runtime.long_calls import waited_for

# The kinds that need a responder at the far end; ICMP is answered by any host.
KINDS = ("tcp", "udp", "probe", "icmp", "burst")

# The fields of a planned flow that the engine knows by the same names; the others are for programs and people.
_OF_HOSTS = {"host", "port", "ip_version", "local_address", "interface"}
_NOT_FOR_THE_ENGINE = {"name", "runner", "units", "optional", "options"} | _OF_HOSTS
_SPEC_KEYS = [field.name for field in dataclasses.fields(PlannedFlow) if field.name not in _NOT_FOR_THE_ENGINE]


# What we say of a far end; what it says of itself under the same names does not count.
_OUR_KEYS = {"address", "lost", "without_udp", "troubles"}


class EngineError(Error):
    """The engine cannot begin; the message names the host and what to try."""


@dataclass(frozen=True)
class Ended:
    """How a flow of the engine ended."""

    flow: int
    status: str
    message: str | None


class Engine:
    """The flows of a plan that the engine runs."""

    def __init__(self, flows: Mapping[int, PlannedFlow], hosts: Sequence[FarHost]) -> None:
        """``flows`` by their numbers in the recording; ``hosts`` say how to reach those that the flows name."""
        self.flows = dict(flows)
        known = {host.name: host for host in hosts}
        self._hosts: list[_Place] = []
        for flow in self.flows.values():
            place = _place(flow, known)
            if place not in self._hosts:
                self._hosts.append(place)
        self._known = known
        self._used: dict[int, Known] = {}
        self._test: _core.TrafficTest | None = None
        self._finished = False

    def prepare(self) -> None:
        """Connect to all hosts. Ctrl-C is received while it waits.

        Raises:
            EngineError: a host cannot be reached, refuses, or cannot do what a flow asks for.
        """
        if not self.flows:
            return
        config = self._config()
        try:
            self._test = waited_for(lambda: _core.TrafficTest(config))
        except (_core.TrafficError, ValueError) as reason:
            raise EngineError(self._named(str(reason))) from reason

    def start(self, at_ns: int) -> None:
        """Let the flows begin, those that start at 0 at ``at_ns`` (``time.monotonic_ns``)."""
        if self._test is not None:
            self._test.start(at_ns)

    def done(self) -> bool:
        """True if all flows have ended."""
        return self._test is None or self._test.is_over()

    def stop(self) -> None:
        """End all flows early; returns at once."""
        if self._test is not None:
            self._test.stop()

    def finish(self) -> None:
        """End the sessions; the last rows can be drained afterwards. Ctrl-C is received while it waits."""
        if self._test is not None:
            waited_for(self._test.finish)
        self._finished = True

    def close(self) -> None:
        """End whatever has become of the test, with its threads; does nothing where it was finished."""
        if not self._finished:
            self.stop()
            self.finish()

    def drain(self) -> tuple[dict[str, pl.DataFrame], list[Ended], dict[int, dict[str, str]]]:
        """The rows measured since the last call by table, the flows that have ended, and facts by flow."""
        if self._test is None:
            return {}, [], {}
        measured, endings, told = self._test.take()
        frames = {name: pl.DataFrame(table) for name, table in measured}
        self._used = {}
        if "clocks" in frames:
            self._used = {row[0]: Known(*row[1:]) for row in frames["clocks"].iter_rows()}
            names = [place.host.name for place in self._hosts]
            by_number = dict(enumerate(names))
            frames["clocks"] = frames["clocks"].with_columns(
                pl.col("host").replace_strict(by_number, return_dtype=pl.String())
            )
        facts: dict[int, dict[str, str]] = {}
        for flow, key, value in told:
            facts.setdefault(flow, {})[key] = value
        return frames, [Ended(*ending) for ending in endings], facts

    def places(self) -> dict[int, tuple[int, str]]:
        """Of each flow the number of its far end, and its direction; for :class:`Clocks`."""
        return {
            number: (self._hosts.index(_place(flow, self._known)), flow.direction)
            for number, flow in self.flows.items()
        }

    def clocks_used(self) -> dict[int, Known]:
        """By which the rows of the latest :meth:`drain` were corrected, in the order of its rows of ``clocks``."""
        return self._used

    def clocks(self) -> dict[int, list[Known]]:
        """Facts about the clock of each far end over the whole test, by all that was drained."""
        found: dict[int, list[Known]] = {}
        for host, time_ns, offset_ns, uncertainty_ns, drift_ppm in (
            self._test.clocks() if self._test is not None else ()
        ):
            found.setdefault(host, []).append(Known(time_ns, offset_ns, uncertainty_ns, drift_ppm))
        return found

    def far_ends(self) -> dict[str, dict[str, Any]]:
        """Facts about each host: its address, its metadata, why it was lost or has no UDP."""
        found: dict[str, dict[str, Any]] = {}
        if self._test is None:
            return found
        for place, (_, address, metadata, lost, without_udp) in zip(self._hosts, self._test.far_ends(), strict=True):
            end = found.setdefault(place.host.name, {"address": address})
            end.update({key: value for key, value in _parsed(metadata).items() if key not in _OUR_KEYS})
            if lost is not None:
                end["lost"] = lost
            if without_udp is not None:
                end["without_udp"] = without_udp
        return found

    def troubles(self) -> list[Trouble]:
        """Times in which an end itself stood still, or in which its receive buffer was full."""
        return [] if self._test is None else [Trouble(*one) for one in self._test.troubles()]

    def addresses(self) -> dict[int, str]:
        """The address that each flow goes to: a host may be reached by both versions of IP."""
        if self._test is None:
            return {}
        of_place = [address for _, address, *_ in self._test.far_ends()]
        return {number: of_place[self._hosts.index(_place(flow, self._known))] for number, flow in self.flows.items()}

    def _config(self) -> str:
        hosts = [place.config() for place in self._hosts]
        flows = []
        for number, flow in self.flows.items():
            values = dataclasses.asdict(flow)
            spec = {key: values[key] for key in _SPEC_KEYS}
            flows.append({"flow": number, "host": self._hosts.index(_place(flow, self._known)), **spec})
        return json.dumps({"hosts": hosts, "flows": flows})

    def _named(self, message: str) -> str:
        """The message with flows' names for their numbers."""
        for number, flow in self.flows.items():
            message = message.replace(f"flow {number}:", f"flow {flow.name!r}:")
        return message


@dataclass(frozen=True)
class _Place:
    """A host and how it is reached; each has a session of its own."""

    host: FarHost
    port: int | None
    ip_version: int | None
    local_address: str | None
    interface: str | None

    def config(self) -> dict[str, Any]:
        """The configuration of the engine, without unset values."""
        config = dataclasses.asdict(self) | {"name": self.host.address or self.host.name, "secret": self.host.secret}
        return {key: value for key, value in config.items() if key != "host" and value is not None}


def _place(flow: PlannedFlow, known: Mapping[str, FarHost]) -> _Place:
    """The host of a flow, and how the flow reaches it."""
    if flow.host is None:
        raise EngineError(f"flow {flow.name!r} names no host, and a flow of kind {flow.kind} needs one")
    host = known.get(flow.host) or FarHost(flow.host)
    return _Place(host, flow.port or host.port, flow.ip_version, flow.local_address, flow.interface)


def _parsed(metadata: str | None) -> dict[str, Any]:
    """Parse what a host reported about itself, if it is what it should be."""
    if metadata is None:
        return {}
    try:
        found = json.loads(metadata)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return {"not_gathered": {"metadata": "the responder sent something else than its metadata"}}
    return found


def looked_up(host: str, ip_version: int | None, port: int | None = None) -> tuple[int, Any]:
    """The address family of a host, and its address as sockets take it.

    Raises:
        EngineError: its name has no address.
    """
    family = {4: socket.AF_INET, 6: socket.AF_INET6}.get(ip_version or 0, socket.AF_UNSPEC)
    try:
        found, _, _, _, address = socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM)[0]
    except OSError as reason:
        raise EngineError(f"{host}: cannot find the address of this host: {reason.strerror}") from None
    return found, address
