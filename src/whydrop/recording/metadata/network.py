"""The way from this host to others: routes, and everything about the interfaces that packets leave by."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from whydrop.recording.metadata import flow_control, qdiscs
from whydrop.recording.metadata.ethtool import Ethtool
from whydrop.recording.metadata.items import Items, line_or_none, whole_number
from whydrop.runtime.rtnetlink import Netlink

# Hosts of containers have thousands; of those that no packet leaves by, the addresses are enough.
_MOST_INTERFACES = 64

_STATE_FILES = ("operstate", "carrier", "carrier_changes", "speed", "duplex")


def gather(items: Items, targets: Sequence[str]) -> None:
    """Addresses, gateways, and for each target (an address or a name) the route and its interface."""
    from pyroute2 import IPRoute  # type: ignore[import-untyped]

    route = items.try_("network", IPRoute)
    if route is None:
        return
    with route:
        names = items.try_("interfaces", lambda: {link["index"]: link.get("IFLA_IFNAME") for link in route.get_links()})
        names = names or {}
        items.add("addresses", lambda: _addresses(route, names))
        items.add("gateways", lambda: _gateways(route, names))
        egress = {}
        for target in targets:
            found = items.try_(f"route to {target}", partial(_egress, route, names, target))
            if found is not None:
                egress[target] = found
        items.found["egress"] = egress
        used = sorted({found["interface"] for found in egress.values() if found.get("interface")})
        items.found["interfaces"] = {name: _interface(items, route, names, name) for name in used}


def _addresses(route: Any, names: dict[int, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for address in route.get_addr():
        name = names.get(address["index"], str(address["index"]))
        if name in found or len(found) < _MOST_INTERFACES:
            text = address.get("IFA_LOCAL") or address.get("IFA_ADDRESS")
            found.setdefault(name, []).append(f"{text}/{address['prefixlen']}")
    return found


def _gateways(route: Any, names: dict[int, str]) -> list[dict[str, str | None]]:
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for default in route.get_default_routes(family):
            name = names.get(default.get("RTA_OIF"))
            found.append({"interface": name, "address": default.get("RTA_GATEWAY")})
    return found


def _egress(route: Any, names: dict[int, str], target: str) -> dict[str, Any]:
    address = _address(target)
    found = route.route("get", dst=address)[0]
    metrics = found.get("RTA_METRICS")
    result = {
        "address": address,
        "interface": names.get(found.get("RTA_OIF")),
        "source": found.get("RTA_PREFSRC"),
        "gateway": found.get("RTA_GATEWAY"),
    }
    path_mtu = metrics.get("RTAX_MTU") if metrics is not None else None
    return {**result, **({"path_mtu_bytes": path_mtu} if path_mtu else {})}


def _address(target: str) -> str:
    try:
        return str(ipaddress.ip_address(target.partition("%")[0]))
    except ValueError:
        return str(socket.getaddrinfo(target, None, type=socket.SOCK_DGRAM)[0][4][0])


def _interface(items: Items, route: Any, names: dict[int, str], name: str) -> dict[str, Any]:
    index = next(index for index, other in names.items() if other == name)
    own = Items()
    own.add("link", lambda: _link(route, index))
    folder = Path("/sys/class/net") / name
    for key in _STATE_FILES:
        value = line_or_none(folder / key)
        if value is not None:
            own.found["speed_mbit_per_s" if key == "speed" else key] = whole_number(value)
    own.add("byte_queue_limits", lambda: _byte_queue_limits(folder))
    own.found |= own.found.pop("link", {})
    _ask_driver(own, name)
    own.add("flow_control", lambda: flow_control.read(name))
    queues = own.try_("qdiscs", lambda: _qdiscs(index))
    own.found |= queues or {}
    items.missing += [f"{name}: {words}" for words in own.missing]
    return own.found


def _link(route: Any, index: int) -> dict[str, Any]:
    link = route.get_links(index)[0]
    kind = link.get("IFLA_LINKINFO")
    return {
        "index": index,
        "kind": kind.get("IFLA_INFO_KIND") if kind is not None else None,
        "mtu_bytes": link.get("IFLA_MTU"),
        "queue_length_packets": link.get("IFLA_TXQLEN"),
        "transmit_queues": link.get("IFLA_NUM_TX_QUEUES"),
        "receive_queues": link.get("IFLA_NUM_RX_QUEUES"),
        "hardware_address": link.get("IFLA_ADDRESS"),
        "gso_max_bytes": link.get("IFLA_GSO_MAX_SIZE"),
        "gso_max_segments": link.get("IFLA_GSO_MAX_SEGS"),
        "gro_max_bytes": link.get("IFLA_GRO_MAX_SIZE"),
    }


def _ask_driver(own: Items, name: str) -> None:
    asked = Ethtool(name)
    try:
        own.add("offloads", asked.offloads)
        for key, ask in (("driver", asked.driver), ("rings", asked.rings), ("coalescing", asked.coalescing)):
            own.add(key, ask)
    finally:
        asked.close()


def _byte_queue_limits(folder: Path) -> dict[str, dict[str, int | str]]:
    found = {}
    for queue in sorted(folder.glob("queues/tx-*")):
        limits = queue / "byte_queue_limits"
        values = {
            key: whole_number(value)
            for key in ("limit", "limit_max", "limit_min", "inflight", "hold_time")
            if (value := line_or_none(limits / key)) is not None
        }
        if values:
            found[queue.name] = values
    return found


def _qdiscs(index: int) -> dict[str, Any]:
    netlink = Netlink()
    try:
        return qdiscs.describe(netlink, index)
    finally:
        netlink.close()
