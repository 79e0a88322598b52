"""A step down of the rate without flow control, which makes a queue on the path overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whydrop.explaining.recordings.wording import phrase

CODE = "step-down-without-flow-control"

# Only the next port can pause this host, and which port is full is not known from here.
_ADVICE = {
    False: "If the full queue is that of the port next to {interface}, flow control may prevent these losses: "
    "`whydrop fix HOST --flow-control` tries it, and reverts it where it does not help. Look first at what else "
    "{interface} carries (a pause stops all of it), and whether the switch sends pause frames",
    True: "Pause frames would stop {interface}, and none came: if the full queue is that of the port next to it, "
    "switch flow control (transmit) on there. Look first at what else {interface} carries: a pause stops all of it",
}

_QUEUES = ("shallow-queue", "deep-queue")
# A queue drains at less than this share of what the sender's interface sends: between the two, the rate steps down.
_LESS = 0.9


def said_of(verdicts: list[dict[str, Any]], metadata: Mapping[str, Any]) -> None:
    """Add the fact, its words and advice to the verdicts on queues that this host's own sending fills.

    It is said only where the driver reports flow control, and none stopped this host while packets were lost: pause
    frames are not taken, or none came.
    """
    for verdict in verdicts:
        values = _step(verdict, metadata)
        if values is not None:
            fact = {"code": CODE, "values": values}
            verdict["facts"].append(fact)
            verdict["evidence"].append(phrase(fact))
            verdict["advice"].append(_ADVICE[values["receive"]].format(interface=values["interface"]))


def _step(verdict: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    if verdict["cause"] not in _QUEUES or not verdict["lost"] or (verdict["at"] or {}).get("direction") != "up":
        return None
    drain = (verdict["parameters"].get("drain_rate_bps") or {}).get("value")
    interfaces = ((metadata.get("hosts") or {}).get("local") or {}).get("interfaces") or {}
    if not drain or len(interfaces) != 1:
        return None
    name, told = next(iter(interfaces.items()))
    before, speed = told.get("flow_control"), told.get("speed_mbit_per_s")
    if not isinstance(before, Mapping) or not isinstance(speed, int) or drain >= _LESS * speed * 1e6:
        return None
    after = told.get("flow_control_after") or {}
    first, last = before.get("pause_frames_received"), after.get("pause_frames_received")
    came = None if first is None or last is None else last - first
    if before.get("receive") and came != 0:
        return None
    return {
        "interface": name,
        "speed_bps": speed * 1e6,
        "drain_rate_bps": drain,
        "receive": bool(before.get("receive")),
    }
