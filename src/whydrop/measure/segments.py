"""Probes of both segments of a path: from this host to its access point, and on to the far end.

Both are probed at the same times from here, so that what delays or loses the probes of both lies before the access
point, and what touches those of the far end alone lies beyond it.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from whydrop.errors import Mistake
from whydrop.measure.engine import EngineError, looked_up
from whydrop.measure.far_hosts import PlaceError, host_and_port
from whydrop.measure.plan import PlannedFlow
from whydrop.runtime.rtnetlink import Netlink, Route

AUTO = "auto"
NEAR_PROBE = "Ping (ms) access point"
_FAR_PROBE = "Ping (ms) far end"
# Fast enough for 200 probes in ten seconds, and slow enough for routers that limit how often they answer.
_INTERVAL_S = 0.05


class AccessPointError(Mistake):
    """The access point cannot be found; the message says why, and what to give instead."""


@dataclass(frozen=True)
class Probed:
    """A host, and the stream of probes to it."""

    host: str
    probe: str


@dataclass(frozen=True)
class Segments:
    """The streams of probes by which the segments are distinguished.

    Attributes:
        near: the access point.
        is_next_hop: true where the route to the first far end goes by it.
        far: the far ends.
    """

    near: Probed
    is_next_hop: bool
    far: tuple[Probed, ...]

    def as_dict(self) -> dict[str, Any]:
        """For ``recording.json``."""
        return {**asdict(self), "far": [asdict(one) for one in self.far]}


def probing(
    access_point: str, flows: Sequence[PlannedFlow], scope: Mapping[str, Any]
) -> tuple[list[PlannedFlow], Segments]:
    """The flows that probe both segments, and which of them does what.

    Args:
        access_point: a host, or ``auto`` for the router that packets to the first far end go to.
        flows: of the test; the hosts of those that make load, else of all, are the far ends.
        scope: the values of the test's parameters.

    Raises:
        AccessPointError: there is no far end, or no router before it.
    """
    hosts = _far_ends(flows)
    if not hosts:
        raise AccessPointError("the test has no far end, so no access point lies before it")
    route = _route(hosts[0], scope["ip_version"])
    near = _gateway(hosts[0], route) if access_point.lower() == AUTO else access_point
    address = _address(near, None)
    _refuse_ends(near, address, [_address(host, scope["ip_version"]) for host in hosts])
    is_next_hop = address == route.gateway
    version = ipaddress.ip_address(address).version
    probes = [_probe(NEAR_PROBE, "icmp", near, version, scope)]
    far = []
    for host in hosts:
        name = _FAR_PROBE if len(hosts) == 1 else f"{_FAR_PROBE} {host}"
        kind = "probe" if _has_responder(host, flows) else "icmp"
        probes.append(_probe(name, kind, host, scope["ip_version"], scope))
        far.append(Probed(host, name))
    return probes, Segments(Probed(near, NEAR_PROBE), is_next_hop, tuple(far))


def _far_ends(flows: Sequence[PlannedFlow]) -> list[str]:
    loaded = [flow.host for flow in flows if flow.host and flow.kind in ("tcp", "udp", "burst")]
    probed = [flow.host for flow in flows if flow.host and flow.kind in ("probe", "icmp")]
    return list(dict.fromkeys(loaded or probed))


def _has_responder(host: str, flows: Sequence[PlannedFlow]) -> bool:
    return any(flow.host == host and flow.runner == "engine" and flow.kind != "icmp" for flow in flows)


def _probe(name: str, kind: Any, host: str, ip_version: int | None, scope: Mapping[str, Any]) -> PlannedFlow:
    return PlannedFlow(
        name=name,
        kind=kind,
        host=host,
        ip_version=ip_version,
        local_address=scope["local_address"],
        interface=scope["interface"],
        duration_s=scope["total_s"],
        interval_s=_INTERVAL_S,
        # Without it the test has measured all that it is for.
        optional=True,
    )


def _address(host: str, ip_version: int | None) -> str:
    """The address of a host, without the zone.

    Raises:
        AccessPointError: it has none.
    """
    try:
        _, (address, *_) = looked_up(host_and_port(host)[0], ip_version)
    except (EngineError, PlaceError) as reason:
        raise AccessPointError(str(reason)) from None
    return str(address).partition("%")[0]


def _refuse_ends(near: str, address: str, far: Sequence[str]) -> None:
    """Refuse an access point that is one of the ends.

    Raises:
        AccessPointError: it is.
    """
    if address in far:
        raise AccessPointError(f"{near} is the far end itself: no segment lies beyond it")
    try:
        with closing(Netlink()) as kernel:
            own = {one.partition("/")[0] for _, one in kernel.addresses()}
    except OSError:
        own = set()
    if address in own:
        raise AccessPointError(f"{near} is this host itself: give the router or the access point")


def _route(host: str, ip_version: int | None) -> Route:
    address = _address(host, ip_version)
    try:
        with closing(Netlink()) as kernel:
            return kernel.route_to(address)
    except OSError as reason:
        raise AccessPointError(f"no route to {host}: {reason.strerror or reason}") from None


def _gateway(host: str, route: Route) -> str:
    if route.gateway is None:
        raise AccessPointError(
            f"packets to {host} go by no router of which this host knows (the same network, or a tunnel): "
            "give the access point's name or address"
        )
    if ipaddress.ip_address(route.gateway).is_link_local and route.interface is not None:
        return f"{route.gateway}%{socket.if_indextoname(route.interface)}"
    return route.gateway
