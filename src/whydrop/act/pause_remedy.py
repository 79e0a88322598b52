"""Flow control of this host's own interface as a fix: where the measurements indicate it, and else why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from whydrop.act import flow_control
from whydrop.act.alternatives import Alternative
from whydrop.act.changes import CannotChangeError
from whydrop.act.fixing import Evidence, NoRemedy, Remedy
from whydrop.act.pacing import Route
from whydrop.explaining.recordings.step_down import CODE as STEP_DOWN
from whydrop.recording.recording import Recording
from whydrop.text import quantities

# Line rates of Ethernet ports (IEEE 802.3).
_LINE_RATES_BPS = (10e6, 100e6, 1e9, 2.5e9, 5e9, 10e9, 25e9, 40e9, 50e9, 100e9, 200e9, 400e9)
# Of a line rate, what a drain rate is that was counted on some layer from TCP's payload to the frame, with its error.
_LEAST_SHARE, _MOST_SHARE = 0.92, 1.02
# Counters of packets that arrived and for which the interface or its driver had no room.
_NO_ROOM = ("receive_missed_packets", "receive_fifo_errors", "receive_over_errors")


@dataclass(frozen=True)
class _Indication:
    """The outcome of the measurements.

    Attributes:
        receive, transmit: to be switched on.
        why: in words.
    """

    receive: bool = False
    transmit: bool = False
    why: tuple[str, ...] = ()


def choose(evidence: Evidence, route: Route) -> Remedy | NoRemedy:
    """The fix, or why flow control is not indicated.

    Raises:
        whydrop.act.changes.CannotChangeError: the driver does not support it.
    """
    found = _indication(evidence, route)
    if isinstance(found, NoRemedy):
        return found
    change = flow_control.changed(
        route.interface, route.index, receive=found.receive or None, transmit=found.transmit or None
    )
    goodput_bps = evidence.before.get("goodput-up", 0.0) * 1e6
    now = f" instead of {quantities.rate(goodput_bps)}" if goodput_bps else ""
    return Remedy(
        f"{change.words}: {'; '.join(found.why)}",
        f"fewer packets lost, and more goodput{now}, if the other end of the link takes part",
        "goodput-up",
        ("retransmits", "rtt-median"),
        change=change,
    )


def beside(evidence: Evidence, route: Route) -> tuple[Alternative, ...]:
    """Flow control in the place of another fix, where it is indicated and the driver supports it."""
    try:
        found = choose(evidence, route)
    except CannotChangeError:
        return ()
    if isinstance(found, NoRemedy):
        return ()
    return (Alternative(f"{found.words}; `--flow-control` tries it", tuple(found.all_commands())),)


def _indication(evidence: Evidence, route: Route) -> _Indication | NoRemedy:
    if evidence.recording is None:
        return NoRemedy(
            "flow control is judged by the interface's rate, its setting and its counters during a measurement with "
            "load: leave out --from and --connections"
        )
    step, why_not = _step(evidence, route)
    dropped = _without_room(evidence.recording, route.interface)
    if step is None and not dropped:
        return NoRemedy(why_not)
    why = [] if step is None else [step]
    if dropped:
        why.append(
            f"{route.interface} dropped {quantities.plural(dropped, 'packet')} that arrived, as it had no room for "
            "them (receive_missed, fifo)"
        )
    return _Indication(step is not None, dropped > 0, tuple(why))


def _step(evidence: Evidence, route: Route) -> tuple[str | None, str]:
    """Why pause frames of the next port may help, or why not."""
    verdict = evidence.headline or {}
    facts: list[dict[str, Any]] = verdict.get("facts", [])
    values = next((one["values"] for one in facts if one["code"] == STEP_DOWN), None)
    if values is None or values["interface"] != route.interface:
        return None, (
            "flow control is not indicated: no queue was found that lost packets, and that drains at less than the "
            f"rate of {route.interface} while no pause frame came; and {route.interface} itself dropped nothing that "
            "arrived"
        )
    drain_bps, speed_bps = values["drain_rate_bps"], values["speed_bps"]
    rate = quantities.rate(drain_bps)
    if values["receive"]:
        return None, (
            f"{route.interface} stops for pause frames already, and none came: switch flow control on (transmit) at "
            "the port of the switch that it is connected to"
        )
    line_bps = next(
        (one for one in _LINE_RATES_BPS if one < speed_bps and _LEAST_SHARE <= drain_bps / one <= _MOST_SHARE), None
    )
    if line_bps is None:
        return None, (
            f"the queue drains at {rate}, which is no line rate of a port: pause frames come from a port that is full, "
            "not from a shaper or policer"
        )
    return (
        f"{route.interface} has {quantities.rate(speed_bps)}, the queue that lost packets drains at {rate}, as a port "
        f"of {quantities.rate(line_bps)} does; whether it is the next port is not known: the trial shows it",
        "",
    )


def _without_room(folder: Any, interface: str) -> int:
    """Packets that arrived during the measurement and that the interface had no room for."""
    own = (
        Recording.open(folder)
        .table("counters")
        .filter(
            (pl.col("host") == "local")
            & (pl.col("source") == "interface")
            & (pl.col("object") == interface)
            & pl.col("counter").is_in(_NO_ROOM)
        )
    )
    grown = own.sort("time_ns").group_by("counter").agg(pl.col("value").last() - pl.col("value").first())
    # Drivers count one packet in several of them.
    return round(max(grown["value"].to_list(), default=0.0))
