"""The abilities of each runner, which of them measures a flow, and what is wrong with several of them at once.

Of each: kinds of flows, what of a plan it honours, its own options, how to get its program.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Runner

# Of every flow; a runner need not do anything about them.
_GENERAL = frozenset({"name", "kind", "direction", "runner", "start_s", "optional", "options", "units"})
_HOST = re.compile(r"[A-Za-z0-9_.:%\[\]-]+")


@dataclass(frozen=True)
class Support:
    """Abilities of one runner.

    Attributes:
        runner: module and class.
        kinds: of flows, each with the directions that it can measure.
        honours: the fields of a planned flow that it acts on, beyond those of every flow.
        options: names of its own.
        program: its name; ``None`` for code of our own.
        package: where the program comes from.
        version: arguments with which the program prints its version.
        port: of its server, where none was chosen.
        advice: what to do about a message that has these words in it; ``{port}`` and ``{next_port}`` are filled in.
    """

    runner: tuple[str, str]
    kinds: Mapping[str, tuple[str, ...]]
    honours: frozenset[str]
    options: tuple[str, ...] = ()
    program: str | None = None
    package: str = ""
    version: tuple[str, ...] = ()
    port: int | None = None
    advice: Mapping[str, str] = field(default_factory=dict)
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


def bracketed(host: str) -> str:
    """A host in front of a port: an address of IPv6 stands in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


_LEAVING = frozenset({"local_address", "interface"})
_TIMED = frozenset({"host", "ip_version", "duration_s", "interval_s"})
_PINGS = _TIMED | {"dscp", "packet_payload_bytes", "timeout_s"}
_THROUGHPUT = _TIMED | {"port", "dscp", "send_buffer_bytes", "receive_buffer_bytes", "packet_payload_bytes"}
_TUNING = ("parallel", "mss_bytes", "no_delay", "zero_copy", "flow_label")
_ONE_WAY, _ANY_WAY = ("up", "down"), ("up", "down", "both")
_ICMP = {"icmp": ("both",), "probe": ("both",)}
_PING_ADVICE = {
    "minimal interval": "only root may ping more often with this version: choose a longer interval, or the engine",
    "operation not permitted": "ping lacks the right to send ICMP: sysctl net.ipv4.ping_group_range='0 2147483647', "
    "or setcap cap_net_raw+ep on it",
    "name or service not known": "there is no such host: check its name",
    "network is unreachable": "this host has no route there: see ip route get",
}
_NO_NETSERVER = "start a server there (netserver -p {port}), or let the firewall pass it"
_NO_IRTT = "start a server there (irtt server), or let the firewall pass UDP port {port}"
_RESTRICTED = "the server restricts it: see irtt help server, -i and -d"

SUPPORT: dict[str, Support] = {
    "iperf3": Support(
        runner=("clients", "Iperf3Runner"),
        kinds={"tcp": _ANY_WAY, "udp": _ANY_WAY},
        honours=_THROUGHPUT | _LEAVING | {"congestion_control", "rate_bps", "pacing_rate_bps", "payload_bytes"},
        options=(*_TUNING, "json", "server_output", "username", "password", "public_key"),
        program="iperf3",
        package="Debian: apt-get install iperf3; or https://software.es.net/iperf/",
        version=("--version",),
        port=5201,
        advice={
            "server is busy": "one iperf3 server handles one test at a time: start one for each flow on a port of its "
            "own (iperf3 -s -p {next_port}) and give each flow its port",
            "connection refused": "start a server there (iperf3 -s -p {port}), or let the firewall pass it",
            "unable to receive control message": "the server ended the connection; it may be busy with another test",
            "algorithm not supported": "see net.ipv4.tcp_available_congestion_control, at the far end too for "
            "downloads; modprobe tcp_NAME loads one",
            "authentication failed": "set the options username, password and public_key as the server wants them",
        },
    ),
    "nuttcp": Support(
        runner=("clients", "NuttcpRunner"),
        kinds={"tcp": _ONE_WAY, "udp": _ONE_WAY},
        honours=_THROUGHPUT | {"rate_bps", "payload_bytes"},
        options=("data_port", "mss_bytes"),
        program="nuttcp",
        package="Debian: apt-get install nuttcp; or https://nuttcp.net/",
        version=("-V",),
        port=5000,
        advice={
            "connection refused": "start a server there (nuttcp -S -P {port}), or let the firewall pass it",
            "not receiving data": "the server did not send: if it has ended, start it again (nuttcp -S -P {port}); "
            "otherwise look whether a firewall passes the data port",
            "in use": "another flow uses the data port: give each flow an option data_port of its own",
        },
    ),
    "netperf": Support(
        runner=("clients", "NetperfRunner"),
        kinds={"tcp": _ONE_WAY, "probe": ("both",)},
        honours=_THROUGHPUT | {"local_address", "congestion_control"},
        options=("data_port",),
        program="netperf",
        package="Debian: apt-get install netperf (non-free); or https://github.com/HewlettPackard/netperf",
        version=("-V",),
        port=12865,
        advice={
            "connection refused": _NO_NETSERVER,
            "establish control": _NO_NETSERVER,
            "invalid option": "it was built without --enable-demo and prints no intervals: build it with that option",
        },
    ),
    "irtt": Support(
        runner=("clients", "IrttRunner"),
        kinds={"probe": ("both",)},
        honours=_PINGS | {"port", "local_address"},
        options=("hmac", "timer"),
        program="irtt",
        package="Debian: apt-get install irtt; or https://github.com/heistp/irtt",
        version=("version",),
        port=2112,
        advice={
            "connection refused": _NO_IRTT,
            "no reply from server": f"{_NO_IRTT}; a server with a key (--hmac) is silent to others",
            "not allowed": _RESTRICTED,
            "restriction": _RESTRICTED,
        },
    ),
    "stamp": Support(
        runner=("stamp", "StampRunner"),
        kinds={"probe": ("both",)},
        honours=_PINGS | _LEAVING | {"port"},
        port=862,
    ),
    "msak": Support(
        runner=("msak", "MsakRunner"),
        kinds={"tcp": _ONE_WAY, "probe": ("both",)},
        honours=_TIMED | _LEAVING | {"port", "congestion_control"},
        options=("streams", "tls", "verify", "udp_port", "measurement_id", "access_token"),
        port=8080,
    ),
    "ping": Support(
        runner=("clients", "PingRunner"),
        kinds=_ICMP,
        honours=_PINGS | _LEAVING,
        program="ping",
        package="Debian: apt-get install iputils-ping",
        version=("-V",),
        advice=_PING_ADVICE,
    ),
    "fping": Support(
        runner=("clients", "FpingRunner"),
        kinds=_ICMP,
        honours=_PINGS | _LEAVING,
        program="fping",
        package="Debian: apt-get install fping; or https://fping.org/",
        version=("-v",),
        advice=_PING_ADVICE,
    ),
    "http": Support(
        runner=("http", "HttpRunner"),
        kinds={"http": ("down", "both")},
        honours=_TIMED | _LEAVING | {"port", "timeout_s"},
        options=("urls", "url_list", "workers", "reuse_connections", "verify", "most_bytes", "headers"),
        needs_host=False,
    ),
    "responsiveness": Support(
        runner=("responsiveness", "ResponsivenessRunner"),
        kinds={"tcp": _ONE_WAY, "http": ("both",)},
        honours=_TIMED | _LEAVING | {"port"},
        options=(
            "interval_s",
            "moving_average_intervals",
            "trimmed_mean_percent",
            "tolerance_percent",
            "first_connections",
            "further_connections",
            "most_connections",
            "most_probes_per_s",
            "probe_share_percent",
            "verify",
            "other_host",
            "configuration_path",
            "after",
            "probes_of",
            "probe",
        ),
        port=443,
    ),
    "command": Support(
        runner=("command", "CommandRunner"),
        kinds={"value": _ANY_WAY, "tcp": _ONE_WAY, "udp": _ONE_WAY, **_ICMP},
        honours=_TIMED | {"port", "timeout_s"},
        options=("command", "parser", "environment", "secrets", "stop_signal"),
        needs_host=False,
    ),
}

_VERSION_WITHIN_S = 3.0
# Servers that handle one test at a time.
_ONE_AT_A_TIME = ("iperf3",)
# nuttcp's server forks, but each data connection needs a port.
_FIRST_DATA_PORT = 5001


@dataclass(frozen=True)
class Available:
    """One runner, for people who choose.

    Attributes:
        version: of its program; empty for code of our own.
        missing: what to install; ``None`` if nothing.
    """

    name: str
    support: Support
    version: str
    missing: str | None


def runner_for(flow: PlannedFlow, number: int) -> Runner:
    """The runner of a flow that the engine does not measure itself.

    Raises:
        LookupError: there is no such runner; the message names those that there are.
    """
    if flow.runner not in SUPPORT:
        raise LookupError(
            f"flow {flow.name!r}: no runner {flow.runner!r}; there are engine, {', '.join(sorted(SUPPORT))}"
        )
    module, name = SUPPORT[flow.runner].runner
    runner: Runner = getattr(importlib.import_module(f"whydrop.measure.runners.{module}"), name)(flow, number)
    return runner


def available() -> list[Available]:
    """All runners, with the versions of the programs that are installed."""
    found = []
    for name, support in SUPPORT.items():
        is_there = support.program is None or shutil.which(support.program) is not None
        version = version_of(support.program, *support.version) if support.program and is_there else ""
        found.append(Available(name, support, version, None if is_there else support.package))
    return found


@functools.lru_cache(maxsize=64)
def version_of(program: str, *arguments: str) -> str:
    """The first line that has a number in what ``program ARGUMENTS`` prints; empty where there is none.

    >>> version_of("no such program")
    ''
    """
    try:
        said = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_VERSION_WITHIN_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    lines = said.stdout[:4096].decode(errors="replace").splitlines()
    return next((line.strip()[:120] for line in lines if re.search(r"\d", line)), "")


def spread_ports(flows: Sequence[PlannedFlow]) -> list[PlannedFlow]:
    """The flows, each with a port of its own where its server handles one test at a time and none was chosen.

    The ports follow each other from the server's usual one, in order of the flows, for each host: 5201, 5202, ...
    Flows that do not run at the same time share one.
    """
    spread: list[PlannedFlow] = []
    for flow in flows:
        if flow.runner in _ONE_AT_A_TIME and flow.port is None:
            taken = {other.port for other in [*spread, *flows] if _clash(flow, other)}
            spread.append(dataclasses.replace(flow, port=_free(SUPPORT[flow.runner].port or 0, taken)))
        elif flow.runner == "nuttcp" and "data_port" not in flow.options:
            taken = {other.options.get("data_port") for other in spread if _clash(flow, other)}
            options = {**flow.options, "data_port": _free(_FIRST_DATA_PORT, taken)}
            spread.append(dataclasses.replace(flow, options=options))
        else:
            spread.append(flow)
    return spread


def _free(first: int, taken: set[int | None]) -> int:
    return next(port for port in itertools.count(first) if port not in taken)


def check_together(flows: Sequence[PlannedFlow]) -> str | None:
    """The conflict between flows that are each in order: two at once on a server that handles one test at a time."""
    for flow, other in itertools.combinations(flows, 2):
        usual = SUPPORT[flow.runner].port
        port = flow.port or usual
        if flow.runner in _ONE_AT_A_TIME and port == (other.port or usual) and _clash(flow, other):
            return (
                f"flows {flow.name!r} and {other.name!r} both use the {flow.runner} server at {flow.host} port "
                f"{port}, which handles one test at a time: start one server for each flow "
                f"({flow.runner} -s -p PORT) and give each flow its port; equal flows may also share one with "
                "options = { parallel = N }"
            )
    return None


def _clash(flow: PlannedFlow, other: PlannedFlow) -> bool:
    """True if both need one host at the same time."""
    if flow is other or flow.runner != other.runner or flow.host != other.host:
        return False
    first, second = sorted((flow, other), key=lambda one: one.start_s)
    if first.duration_s is None:
        return True
    # the server needs a moment to be ready again
    return second.start_s < first.start_s + first.duration_s + 1
