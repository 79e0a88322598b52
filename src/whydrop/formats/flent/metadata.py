"""Flent's metadata as those of a recording; the original is kept whole under ``imported``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from whydrop.formats.files import number, rounded
from whydrop.formats.flent.upgrade import FlentFile, parse_time
from whydrop.formats.flent.values import Values

# The series from which computed ones are made, by the first words of the names in Flent's tests: files lack this.
_MADE_OF = (
    ("TCP upload", ("TCP upload*",)),
    ("TCP download", ("TCP download*",)),
    ("TCP totals", ("TCP upload*", "TCP download*")),
    ("Ping (ms)", ("Ping (ms)*",)),
    ("UDP upload", ("UDP upload*",)),
)


def translate(file: FlentFile, values: Values, path: Path) -> dict[str, Any]:
    """``recording.json`` of an imported file."""
    original = file.original
    start_ns = file.start_ns
    span_s = max(file.x_values, default=0.0)
    span_ns = rounded(span_s, 1e9)
    failed = number(original.get("FAILED_RUNNERS")) or 0
    return {
        "name": _text(original.get("NAME")) or path.stem,
        "title": _text(original.get("TITLE")),
        "note": _text(original.get("NOTE")),
        "status": "complete",
        "failures": [f"Flent says that {failed:.0f} of its runners failed"] if failed else [],
        "started_ns": start_ns,
        "ended_ns": start_ns + span_ns if start_ns is not None and span_ns is not None else None,
        "test": _test(file, values),
        "hosts": _hosts(original),
        "batch": _batch(original),
        "imported": {
            "format": "flent",
            "version": file.version,
            "file": path.name,
            "written_by": _text(original.get("FLENT_VERSION") or original.get("NETPERF_WRAPPER_VERSION")),
            "asked_ns": file.asked_ns,
            # Flent summarises these from the grid, and others from the raw values.
            "without_raw_values": [name for name, rows in file.raw.items() if not rows],
            "metadata": original,
        },
    }


def _test(file: FlentFile, values: Values) -> dict[str, Any]:
    original = file.original
    length_s = number(original.get("LENGTH"))
    total_s = number(original.get("TOTAL_LENGTH"))
    delay_s = (total_s - length_s) / 2 if total_s is not None and length_s is not None else 0.0
    parameters = original.get("TEST_PARAMETERS")
    return {
        "test": _text(original.get("NAME")),
        "title": "",
        "length_s": length_s if length_s is not None else max(file.x_values, default=0.0),
        "delay_s": max(0.0, delay_s),
        "step_s": _step(file),
        "hosts": [host for host in original.get("HOSTS") or [] if isinstance(host, str)],
        "flows": [],
        "computed": [_computed(file, name, by) for name, by in values.computed.items()],
        "parameters": parameters if isinstance(parameters, dict) else {},
        "source": "flent",
    }


def _step(file: FlentFile) -> float:
    step_s = number(file.original.get("STEP_SIZE"))
    if step_s:
        return step_s
    steps = [later - earlier for earlier, later in zip(file.x_values, file.x_values[1:], strict=False)]
    return steps[0] if steps and steps[0] > 0 else 0.2


def _computed(file: FlentFile, name: str, by: str) -> dict[str, Any]:
    units = "" if by == "fairness" else _units(file, name)
    mean = number(file.series_metadata.get(name, {}).get("MEAN_VALUE"))
    made_of = next((of for beginning, of in _MADE_OF if name.startswith(beginning)), ())
    found = {"name": name, "by": by, "of": list(made_of), "units": units}
    return found if mean is None else {**found, "mean_value": mean}


def _units(file: FlentFile, name: str) -> str:
    units = file.series_metadata.get(name, {}).get("UNITS")
    if isinstance(units, str):
        return units.replace("Mbits/s", "Mbit/s")
    return "ms" if name.startswith("Ping") else "Mbit/s" if name.startswith(("TCP", "UDP")) else ""


def _batch(original: dict[str, Any]) -> dict[str, Any] | None:
    if not original.get("BATCH_NAME"):
        return None
    return {
        "name": _text(original["BATCH_NAME"]),
        "title": _text(original.get("BATCH_TITLE")),
        "id": _text(original.get("BATCH_UUID")),
        "started_ns": parse_time(original.get("BATCH_TIME"), None),
    }


def _hosts(original: dict[str, Any]) -> dict[str, Any]:
    hosts = {"local": host(original)}
    hosts["local"]["host_name"] = _text(original.get("LOCAL_HOST"))
    remote = original.get("REMOTE_METADATA")
    for name, metadata in remote.items() if isinstance(remote, dict) else ():
        if isinstance(metadata, dict):
            hosts[str(name)] = {"host_name": str(name), **host(metadata)}
    return hosts


def host(metadata: dict[str, Any]) -> dict[str, Any]:
    """Flent's metadata of one host, under the keys of a recording's."""
    found: dict[str, Any] = {
        "kernel": {"name": metadata.get("KERNEL_NAME"), "release": metadata.get("KERNEL_RELEASE")},
        "sysctls": metadata.get("SYSCTLS") or {},
        "modules": metadata.get("MODULE_VERSIONS") or {},
        "addresses": metadata.get("IP_ADDRS") or {},
        "gateways": [
            {"interface": gateway.get("iface"), "address": gateway.get("ip")}
            for gateway in metadata.get("GATEWAYS") or []
            if isinstance(gateway, dict)
        ],
        "egress": {},
        "interfaces": {},
    }
    for key in ("EGRESS_INFO", "INGRESS_INFO"):
        info = metadata.get(key)
        if isinstance(info, dict) and info.get("iface"):
            name = str(info["iface"])
            found["egress"][str(info.get("target") or metadata.get("HOST") or key)] = {
                "interface": name,
                "gateway": info.get("nexthop"),
                "source": info.get("src"),
            }
            found["interfaces"][name] = _interface(info)
    return found


def _interface(info: dict[str, Any]) -> dict[str, Any]:
    link = info.get("link_params")
    link = link if isinstance(link, dict) else {}
    return {
        "driver": info.get("driver"),
        "speed": link.get("speed"),
        "duplex": link.get("duplex"),
        "queue_length_packets": number(link.get("qlen")),
        "hardware_address": link.get("ether"),
        "offloads": info.get("offloads") or {},
        "byte_queue_limits": info.get("bql") or {},
        "qdiscs": info.get("qdiscs") or [],
        "classes": info.get("classes") or [],
        "qdisc_statistics": {"before": info.get("tc_stats_pre"), "after": info.get("tc_stats_post")},
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
