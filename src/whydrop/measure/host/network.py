"""The routes from this host to others, and the interfaces by which packets leave."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from whydrop.measure.host import ethtool, qdiscs
from whydrop.measure.host.ethtool import Ethtool
from whydrop.measure.host.items import Items, line_or_none, whole_number
from whydrop.runtime import rtnetlink
from whydrop.runtime.rtnetlink import Attributes, Netlink

# Hosts of containers have thousands; of those that no packet leaves by, the addresses are enough.
_MOST_INTERFACES = 64

# linux/if_link.h
_IFLA_ADDRESS, _IFLA_LINKINFO, _IFLA_INFO_KIND = 1, 18, 1
_OF_LINK = {
    "mtu_bytes": 4,
    "queue_length_packets": rtnetlink.IFLA_TXQLEN,
    "transmit_queues": 31,
    "receive_queues": 32,
    "gso_max_bytes": 41,
    "gso_max_segments": 40,
    "gro_max_bytes": 58,
}

_STATE_FILES = ("operstate", "carrier", "carrier_changes", "speed", "duplex")


def gather(items: Items, targets: Sequence[str]) -> None:
    """Addresses, gateways, and for each target (an address or a name) the route and its interface."""
    route = items.try_("network", Netlink)
    if route is None:
        return
    with contextlib.closing(route):
        links = items.try_("interfaces", route.links) or {}
        names = {index: name for index, (name, _) in links.items()}
        items.add("addresses", lambda: _addresses(route, names))
        items.add("gateways", lambda: _gateways(route, names))
        egress = {}
        for target in targets:
            found = items.try_(f"route to {target}", partial(_egress, route, names, target))
            if found is not None:
                egress[target] = found
        items.found["egress"] = egress
        used = sorted({found["interface"] for found in egress.values() if found.get("interface")})
        indices = {name: index for index, name in names.items()}
        items.found["interfaces"] = {name: _interface(items, links, indices[name]) for name in used}


def _addresses(route: Netlink, names: dict[int, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for interface, address in route.addresses():
        name = names.get(interface, str(interface))
        if name in found or len(found) < _MOST_INTERFACES:
            found.setdefault(name, []).append(address)
    return found


def _gateways(route: Netlink, names: dict[int, str]) -> list[dict[str, str | None]]:
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        for default in route.default_routes(family):
            name = None if default.interface is None else names.get(default.interface)
            found.append({"interface": name, "address": default.gateway})
    return found


def _egress(route: Netlink, names: dict[int, str], target: str) -> dict[str, Any]:
    address = _address(target)
    found = route.route_to(address)
    return {
        "address": address,
        "interface": None if found.interface is None else names.get(found.interface),
        "source": found.source,
        "gateway": found.gateway,
        **({"path_mtu_bytes": found.path_mtu_bytes} if found.path_mtu_bytes else {}),
    }


def _address(target: str) -> str:
    try:
        return str(ipaddress.ip_address(target.partition("%")[0]))
    except ValueError:
        return str(socket.getaddrinfo(target, None, type=socket.SOCK_DGRAM)[0][4][0])


def _interface(items: Items, links: dict[int, tuple[str, Attributes]], index: int) -> dict[str, Any]:
    name, attributes = links[index]
    own = Items()
    own.add("link", lambda: _link(index, attributes))
    folder = Path("/sys/class/net") / name
    for key in _STATE_FILES:
        value = line_or_none(folder / key)
        if value is not None:
            own.found["speed_mbit_per_s" if key == "speed" else key] = whole_number(value)
    own.add("byte_queue_limits", lambda: _byte_queue_limits(folder))
    own.found |= own.found.pop("link", {})
    _ask_driver(own, name)
    own.add("flow_control", lambda: ethtool.flow_control(name))
    queues = own.try_("qdiscs", lambda: _qdiscs(index))
    own.found |= queues or {}
    items.missing += [f"{name}: {words}" for words in own.missing]
    return own.found


def _link(index: int, link: Attributes) -> dict[str, Any]:
    kind = rtnetlink.attributes(link.get(_IFLA_LINKINFO, b"")).get(_IFLA_INFO_KIND)
    hardware_address = link.get(_IFLA_ADDRESS)
    numbers = {key: rtnetlink.unsigned(link.get(number)) for key, number in _OF_LINK.items()}
    return {
        "index": index,
        "kind": rtnetlink.text(kind) if kind is not None else None,
        **numbers,
        "hardware_address": hardware_address.hex(":") if hardware_address else None,
    }


def _ask_driver(own: Items, name: str) -> None:
    with contextlib.closing(Ethtool(name)) as asked:
        for key in ("offloads", "driver", "rings", "coalescing"):
            own.add(key, getattr(asked, key))


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
    with contextlib.closing(Netlink()) as netlink:
        return qdiscs.describe(netlink, index)
