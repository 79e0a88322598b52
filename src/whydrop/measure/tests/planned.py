"""One flow of a plan from its settings: defaults filled in, impossible ones refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whydrop.measure.far_hosts import cannot_leave, version_of
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tests import fallbacks
from whydrop.measure.tests.schema import PARSERS


class CannotBeError(ValueError):
    """A flow cannot be as it is described; ``key`` is what does not fit."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


# Least and greatest; what a host or its kernel could not do anyway.
_BOUNDS: dict[str, tuple[float, float]] = {
    "port": (1, 65_535),
    "start_s": (0, 604_800),
    "duration_s": (0.001, 604_800),
    "rate_bps": (1, 1e13),
    "pacing_rate_bps": (1, 1e13),
    "send_buffer_bytes": (1, 2**31 - 1),
    "receive_buffer_bytes": (1, 2**31 - 1),
    "payload_bytes": (1, 2**60),
    "packet_payload_bytes": (0, 65_507),  # what fits into a UDP packet over IPv4
    "on_s": (0.001, 86_400),
    "off_s": (0.001, 86_400),
    "packets_per_burst": (1, 1_000_000),
    "burst_every_s": (0.001, 86_400),
    "timeout_s": (0.001, 3600),
}
# Kinds that measure beside the load, before, during and after it.
_WHOLE_TEST = ("probe", "icmp", "http", "value")
_DIRECTIONS = {"tcp": ("up", "down"), "udp": ("up", "down"), "burst": ("up", "down")}


def planned(name: str, settings: Mapping[str, Any], scope: Mapping[str, Any]) -> PlannedFlow:
    """The flow.

    Raises:
        CannotBeError: its settings do not fit together, or one is out of bounds.
    """
    if not name:
        raise CannotBeError("name", "the flow's name is empty")
    kind = settings["kind"]
    values = {key: _value(key, settings.get(key)) for key in PARSERS if key not in ("kind", "during")}
    values["host"] = _host(settings, scope)
    values["direction"] = _direction(kind, values["direction"])
    _when(kind, settings, values, scope)
    values["interval_s"] = _interval(kind, values, scope)
    if kind == "tcp":
        _tcp_defaults(values, scope)
    if values["host"] is not None or kind == "http":
        _leaves_from(kind, values, scope)
    _fits(kind, values, settings)
    options = {key: value for key, value in settings["options"].items() if value is not None}
    runner = values["runner"] or "engine"
    values["runner"] = "http" if kind == "http" and runner == "engine" else runner
    values |= {"dscp": values["dscp"] or 0, "optional": bool(values["optional"])}
    flow = PlannedFlow(name=name, kind=kind, options=options, **values)
    if complaint := fallbacks.unsuited(flow):
        raise CannotBeError("runner", complaint)
    return flow


def _value(key: str, value: Any) -> Any:
    if value is None or value == "":
        return None
    try:
        found = PARSERS[key](value)
    except ValueError as reason:
        raise CannotBeError(key, str(reason)) from None
    low, high = _BOUNDS.get(key, (None, None))
    if low is not None and high is not None and not low <= found <= high:
        raise CannotBeError(key, f"{found:g}: expected {low:g} to {high:g}")
    return found


def _host(settings: Mapping[str, Any], scope: Mapping[str, Any]) -> str | None:
    host = settings.get("host")
    return (scope["host"] if host is None else _value("host", host)) or None


def _direction(kind: str, direction: Any) -> Any:
    allowed = _DIRECTIONS.get(kind, ("both",))
    if direction is None:
        if kind in ("tcp", "udp", "burst"):
            raise CannotBeError("direction", f"is missing; expected {' or '.join(allowed)}")
        return "both"
    if direction not in allowed:
        raise CannotBeError("direction", f"{direction!r}: a flow of kind {kind} is {' or '.join(allowed)}")
    return direction


def _when(kind: str, settings: Mapping[str, Any], values: dict[str, Any], scope: Mapping[str, Any]) -> None:
    """Fill in start and duration."""
    during = settings.get("during") or ("whole" if kind in _WHOLE_TEST else "load")
    start, length = (0.0, scope["total_s"]) if during == "whole" else (scope["delay_s"], scope["length_s"])
    if values["start_s"] is None:
        values["start_s"] = start
    if values["duration_s"] is None and values["payload_bytes"] is None:
        values["duration_s"] = length


def _leaves_from(kind: str, values: dict[str, Any], scope: Mapping[str, Any]) -> None:
    """Where packets leave this host: what the user set for all flows that say nothing themselves."""
    if values["ip_version"] is None and values["host"] is not None:
        values["ip_version"] = scope["ip_version"]
    # The host of a command only distinguishes its rows.
    for key in ("local_address", "interface") if kind != "value" else ():
        if values[key] is None:
            values[key] = _value(key, scope[key])
    if (local := values["local_address"]) is None:
        return
    hosts = [values["host"]] if values["host"] else []
    if complaint := cannot_leave(local, hosts, values["ip_version"]):
        raise CannotBeError("local_address", complaint)
    values["ip_version"] = version_of(local)


def _interval(kind: str, values: Mapping[str, Any], scope: Mapping[str, Any]) -> float:
    parameter = {"probe": "probe_interval_s", "icmp": "icmp_interval_s"}.get(kind, "step_s")
    interval = float(scope[parameter] if values["interval_s"] is None else values["interval_s"])
    low, high = (0.001, 1.0) if kind == "probe" else (0.001, 3600.0)
    if not low <= interval <= high:
        raise CannotBeError("interval_s", f"{interval:g}: expected {low:g} to {high:g}")
    return interval


def _tcp_defaults(values: dict[str, Any], scope: Mapping[str, Any]) -> None:
    """The user's settings for all TCP flows that say nothing themselves."""
    wanted = scope["congestion_control"]
    if values["congestion_control"] is None and wanted:
        values["congestion_control"] = wanted[0 if values["direction"] == "up" else -1] or None
    for key in ("ecn", "pacing_rate_bps", "send_buffer_bytes", "receive_buffer_bytes"):
        if values[key] is None:
            values[key] = scope[key]


def _fits(kind: str, values: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    runner = values["runner"] or "engine"
    if values["host"] is None and kind not in ("value", "http"):
        raise CannotBeError("host", f"is missing: a flow of kind {kind} needs a far end")
    if kind == "udp" and values["rate_bps"] is None:
        raise CannotBeError("rate_bps", "is missing: a flow of kind udp needs a rate, such as 10 Mbit/s")
    if kind == "burst" and values["packets_per_burst"] is None:
        raise CannotBeError("packets_per_burst", "is missing: how many packets is a burst?")
    if (values["on_s"] is None) != (values["off_s"] is None):
        raise CannotBeError("off_s" if values["off_s"] is None else "on_s", "is missing: on_s and off_s go together")
    if kind == "value" and not values["units"]:
        raise CannotBeError("units", "is missing: of what unit are the values?")
    if kind == "value" and runner == "engine":
        raise CannotBeError("runner", 'a flow of kind value is measured by a command: runner = "command"')
    if kind == "value" and runner == "command" and not settings["options"].get("command"):
        raise CannotBeError("options", "command is missing: what is to be run?")
