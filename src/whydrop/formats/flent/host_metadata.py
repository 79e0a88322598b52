"""A recording's metadata of a host, under the keys of Flent's."""

from __future__ import annotations

from typing import Any


def host_metadata(host: dict[str, Any]) -> dict[str, Any]:
    """Flent's metadata of one host; what is not known is null."""
    kernel = host.get("kernel") or {}
    return {
        "KERNEL_NAME": kernel.get("name"),
        "KERNEL_RELEASE": kernel.get("release"),
        "MODULE_VERSIONS": host.get("modules") or {},
        "SYSCTLS": host.get("sysctls") or {},
        "IP_ADDRS": {
            name: [str(address).partition("/")[0] for address in addresses]
            for name, addresses in (host.get("addresses") or {}).items()
        },
        "GATEWAYS": [
            {"iface": gateway.get("interface"), "ip": gateway.get("address")} for gateway in host.get("gateways") or []
        ],
        "EGRESS_INFO": _egress(host),
    }


def _egress(host: dict[str, Any]) -> dict[str, Any] | None:
    for target, way in (host.get("egress") or {}).items():
        interface = (host.get("interfaces") or {}).get(way.get("interface")) or {}
        driver = interface.get("driver")
        return {
            "iface": way.get("interface"),
            "target": way.get("address") or target,
            "src": way.get("source"),
            "nexthop": way.get("gateway"),
            "driver": driver.get("driver") if isinstance(driver, dict) else driver,
            "offloads": interface.get("offloads") or {},
            "bql": {queue: str(limits.get("limit_max")) for queue, limits in _limits(interface).items()},
            "link_params": {
                "ether": interface.get("hardware_address"),
                "qlen": _text(interface.get("queue_length_packets")),
                "speed": _speed(interface.get("speed_mbit_per_s")),
                "duplex": interface.get("duplex"),
            },
            "qdiscs": [_object(qdisc) for qdisc in interface.get("qdiscs") or []],
            "classes": [_object(each) for each in interface.get("classes") or []] or None,
            "tc_stats_pre": [_statistics(qdisc) for qdisc in interface.get("qdiscs") or []],
            "tc_stats_post": [_statistics(qdisc) for qdisc in interface.get("qdiscs_after") or []],
        }
    return None


def _limits(interface: dict[str, Any]) -> dict[str, Any]:
    found = interface.get("byte_queue_limits") or {}
    return {queue: limits for queue, limits in found.items() if isinstance(limits, dict)}


def _object(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": found.get("kind"),
        "id": found.get("handle"),
        "parent": found.get("parent"),
        "params": {key: str(value) for key, value in (found.get("options") or {}).items()},
    }


def _statistics(found: dict[str, Any]) -> str:
    counters = " ".join(f"{key} {value}" for key, value in (found.get("statistics") or {}).items())
    return f"qdisc {found.get('kind')} {found.get('handle')} parent {found.get('parent')} {counters}"


def _speed(value: Any) -> str | None:
    return f"{value}Mb/s" if isinstance(value, int) and value > 0 else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
