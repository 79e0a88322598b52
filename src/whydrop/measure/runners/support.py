"""The abilities of each runner: kinds of flows, what of a plan it honours, its own options, how to get its program."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whydrop.measure.plan import PlannedFlow

# Of every flow; a runner need not do anything about them.
_GENERAL = frozenset({"name", "kind", "direction", "runner", "start_s", "optional", "options", "units"})
_HOST = re.compile(r"[A-Za-z0-9_.:%\[\]-]+")


@dataclass(frozen=True)
class Support:
    """Abilities of one runner.

    Attributes:
        kinds: of flows, each with the directions that it can measure.
        honours: the fields of a planned flow that it acts on, beyond those of every flow.
        options: its own, by name, in a few words each.
        package: where the program comes from; empty for code of our own.
    """

    program: str | None
    kinds: Mapping[str, tuple[str, ...]]
    honours: frozenset[str]
    options: Mapping[str, str] = field(default_factory=dict)
    package: str = ""
    needs_host: bool = True

    def complaint(self, flow: PlannedFlow) -> str | None:
        """Name what this runner cannot do of what is asked for, in words for the person who wrote the test."""
        where = f"flow {flow.name!r}: runner {flow.runner}"
        if flow.kind not in self.kinds:
            return f"{where} measures {_listed(self.kinds)}, not {flow.kind}"
        if flow.direction not in self.kinds[flow.kind]:
            return f"{where} measures {flow.kind} in direction {_listed(self.kinds[flow.kind])}, not {flow.direction}"
        if asked := [name for name in _asked_for(flow) if name not in self.honours | _GENERAL]:
            return f"{where} cannot set {_listed(asked)}: leave it out, or use the engine"
        if unknown := [name for name in flow.options if name not in self.options]:
            expected = f"its options are {_listed(self.options)}" if self.options else "it has no options"
            return f"{where} has no option {_listed(unknown)}: {expected}"
        if self.needs_host and not flow.host:
            return f"{where} needs a host"
        if flow.host and (flow.host.startswith("-") or not _HOST.fullmatch(flow.host)):
            return f"{where}: {flow.host!r} is neither a host name nor an address"
        return _range_complaint(flow, where)


def _asked_for(flow: PlannedFlow) -> list[str]:
    """Names of the fields that differ from their defaults."""
    return [
        one.name
        for one in dataclasses.fields(flow)
        if one.default is not dataclasses.MISSING and getattr(flow, one.name) not in (one.default, None)
    ]


def _range_complaint(flow: PlannedFlow, where: str) -> str | None:
    if not 0 <= flow.dscp <= 63:
        return f"{where}: dscp is {flow.dscp}; expected 0 to 63"
    if flow.port is not None and not 1 <= flow.port <= 65535:
        return f"{where}: port is {flow.port}; expected 1 to 65535"
    if flow.ip_version not in (None, 4, 6):
        return f"{where}: ip_version is {flow.ip_version}; expected 4 or 6"
    if flow.start_s < 0 or flow.interval_s <= 0 or (flow.duration_s is not None and flow.duration_s <= 0):
        return f"{where}: times must be positive (start {flow.start_s} s, every {flow.interval_s} s)"
    return None


def _listed(names: Any) -> str:
    *most, last = sorted(names) or ["nothing"]
    return f"{', '.join(most)} and {last}" if most else str(last)


_LEAVING = frozenset({"local_address", "interface"})
_TIMED = frozenset({"host", "ip_version", "duration_s", "interval_s"})
_PINGS = _TIMED | {"dscp", "packet_payload_bytes", "timeout_s"}
_ICMP = {"icmp": ("both",), "probe": ("both",)}
_SECRET_OPTION = "secrets that are left out of the recording"

SUPPORT: dict[str, Support] = {
    "iperf3": Support(
        program="iperf3",
        kinds={"tcp": ("up", "down", "both"), "udp": ("up", "down", "both")},
        honours=_TIMED
        | _LEAVING
        | {
            "port",
            "dscp",
            "congestion_control",
            "rate_bps",
            "pacing_rate_bps",
            "send_buffer_bytes",
            "receive_buffer_bytes",
            "payload_bytes",
            "packet_payload_bytes",
        },
        options={
            "parallel": "equal connections in one test, counted together (-P)",
            "mss_bytes": "largest segment (-M)",
            "no_delay": "without Nagle's algorithm (-N)",
            "zero_copy": "sendfile (-Z)",
            "flow_label": "of IPv6 (-L)",
            "json": "exact numbers and round-trip times, but only at the end (iperf3 before 3.17)",
            "server_output": "what the server counted, with the option json (--get-server-output)",
            "username": "of a server with authentication",
            "password": "of that user",
            "public_key": "file of that server's RSA key",
        },
        package="Debian: apt-get install iperf3; or https://software.es.net/iperf/",
    ),
    "nuttcp": Support(
        program="nuttcp",
        kinds={"tcp": ("up", "down"), "udp": ("up", "down")},
        honours=_TIMED
        | {
            "port",
            "dscp",
            "rate_bps",
            "send_buffer_bytes",
            "receive_buffer_bytes",
            "payload_bytes",
            "packet_payload_bytes",
        },
        options={
            "data_port": "of the data connection, 5001 if not given (-p); flows at once need different ones",
            "mss_bytes": "largest segment (-M)",
        },
        package="Debian: apt-get install nuttcp; or https://nuttcp.net/",
    ),
    "netperf": Support(
        program="netperf",
        kinds={"tcp": ("up", "down"), "probe": ("both",)},
        honours=_TIMED
        | {
            "port",
            "local_address",
            "dscp",
            "congestion_control",
            "send_buffer_bytes",
            "receive_buffer_bytes",
            "packet_payload_bytes",
        },
        options={"data_port": "of the data connection, any if not given (-- -P)"},
        package="Debian: apt-get install netperf (non-free); or https://github.com/HewlettPackard/netperf",
    ),
    "irtt": Support(
        program="irtt",
        kinds={"probe": ("both",)},
        honours=_PINGS | {"port", "local_address"},
        options={"hmac": "key that the server asks for (--hmac)", "timer": "how irtt waits (--timer)"},
        package="Debian: apt-get install irtt; or https://github.com/heistp/irtt",
    ),
    "ping": Support("ping", _ICMP, _PINGS | _LEAVING, package="Debian: apt-get install iputils-ping"),
    "fping": Support("fping", _ICMP, _PINGS | _LEAVING, package="Debian: apt-get install fping; or https://fping.org/"),
    "http": Support(
        program=None,
        kinds={"http": ("down", "both")},
        honours=_TIMED | _LEAVING | {"port", "timeout_s"},
        options={
            "urls": "addresses to fetch, all of them in each round",
            "url_list": "a file, or an address, that has one address a line",
            "workers": "fetches at once (4)",
            "reuse_connections": "keep connections open between fetches (true)",
            "verify": "check certificates (true)",
            "most_bytes": "of one answer, the rest is not read (1e9)",
            "headers": "to send along",
        },
        needs_host=False,
    ),
    "command": Support(
        program=None,
        kinds={
            "value": ("up", "down", "both"),
            "tcp": ("up", "down"),
            "udp": ("up", "down"),
            "icmp": ("both",),
            "probe": ("both",),
        },
        honours=_TIMED | {"port", "timeout_s"},
        options={
            "command": "the program and its arguments; {host}, {port}, {duration_s}, {interval_s} are filled in",
            "parser": "how its output is read (docs/runners.md)",
            "environment": "variables that it gets",
            "secrets": _SECRET_OPTION,
            "stop_signal": "that ends it: INT (the default), TERM, HUP or QUIT",
        },
        needs_host=False,
    ),
}
