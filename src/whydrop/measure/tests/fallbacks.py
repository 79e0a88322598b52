"""Other people's programs in the engine's place, where the far end is not ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from whydrop.errors import Mistake
from whydrop.measure.plan import PlannedFlow

ENGINE_KINDS = ("tcp", "udp", "probe", "icmp", "burst")
# Programs that can stand in for the engine, and the kinds of flows that each then takes over. A declared
# program (command) stands in for none.
STAND_INS: dict[str, tuple[str, ...]] = {
    "iperf3": ("tcp", "udp"),
    "netperf": ("tcp", "probe"),
    "nuttcp": ("tcp", "udp"),
    "irtt": ("probe",),
    "stamp": ("probe",),
    "msak": ("tcp", "probe"),
    "ping": ("icmp",),
    "fping": ("icmp",),
}


class SettingError(Mistake):
    """A parameter, or the number of hosts, does not fit the test; one line for each mistake in ``mistakes``."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        self.mistakes = list(mistakes)
        super().__init__("\n".join(mistakes))


def replaced(flows: Sequence[PlannedFlow], wanted: str) -> tuple[list[PlannedFlow], tuple[str, ...]]:
    """The flows measured by other programs, and what that changes, in words.

    The engine's responder is then taken to be absent: UDP probes become ICMP echo where no program named can send
    them, and optional flows that no program can measure are left out.

    Raises:
        SettingError: a name is unknown, a flow remains that only the engine can measure, or one asks for too much.
    """
    runners = [name.strip() for name in wanted.split(",") if name.strip()]
    for name in runners:
        if name not in STAND_INS:
            raise SettingError([f"--with {name}: expected one or several of {', '.join(STAND_INS)}"])
    found: list[PlannedFlow] = []
    notes: list[str] = []
    for flow in flows:
        new = _measured_by(flow, runners, notes)
        if new is None:
            continue
        if any(other.name == new.name for other in found):
            # As where a test has UDP probes and ICMP echo of one kind.
            notes.append(f"{flow.name}: left out, {new.name} is there already")
            continue
        found.append(new)
    if complaints := [complaint for flow in found if (complaint := unsuited(flow))]:
        raise SettingError(complaints)
    return found, tuple(notes)


def servers_needed(flows: Sequence[PlannedFlow]) -> tuple[str, ...]:
    """Which servers must run at the far end where each handles one test at a time; the ports are given out later."""
    hosts = dict.fromkeys(flow.host for flow in flows if flow.runner == "iperf3" and flow.port is None)
    counts = {host: sum(flow.runner == "iperf3" and flow.host == host for flow in flows) for host in hosts}
    return tuple(
        f"{host}: iperf3 servers handle one test at a time: start {count}, on ports that follow each other "
        f"(iperf3 -s -p 5201, then 5202, ...)"
        for host, count in counts.items()
        if count > 1
    )


def unsuited(flow: PlannedFlow) -> str | None:
    """Name what a flow asks of its runner that this cannot do, in words; ``None``: nothing."""
    if flow.runner == "engine":
        if flow.kind in ENGINE_KINDS:
            return None
        return f"flow {flow.name!r}: the engine measures {', '.join(ENGINE_KINDS)}, not {flow.kind}"
    from whydrop.measure.runners.registry import SUPPORT

    return SUPPORT[flow.runner].complaint(flow)


def _measured_by(flow: PlannedFlow, runners: list[str], notes: list[str]) -> PlannedFlow | None:
    if flow.runner != "engine":
        return flow
    runner = next((name for name in runners if flow.kind in STAND_INS[name]), None)
    if runner is not None:
        return dataclasses.replace(flow, runner=runner)
    if flow.kind == "icmp":
        return flow  # needs no responder
    if flow.kind == "probe":
        return _as_echo(flow, notes)
    if flow.optional:
        notes.append(f"{flow.name}: left out, {' and '.join(runners)} cannot measure it")
        return None
    raise SettingError(
        [
            f"--with {','.join(runners)}: {flow.name} is of kind {flow.kind}, which none of them measures; "
            "run `whydrop responder` at the far end instead"
        ]
    )


def _as_echo(flow: PlannedFlow, notes: list[str]) -> PlannedFlow:
    name = flow.name.replace("UDP", "ICMP") if "UDP" in flow.name else flow.name
    notes.append(f"{flow.name}: measured by ICMP echo" + (f", as {name}" if name != flow.name else ""))
    # Routers limit how many echo requests they answer: no faster than ping's own floor for users.
    return dataclasses.replace(flow, name=name, kind="icmp", interval_s=max(flow.interval_s, 0.2))
