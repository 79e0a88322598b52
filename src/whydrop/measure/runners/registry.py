"""Which runner measures a flow, what is installed, and what is wrong with several of them at once."""

from __future__ import annotations

import dataclasses
import importlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Runner
from whydrop.measure.runners.support import SUPPORT, Support

# Servers that handle one test at a time, with the port of the first.
_ONE_AT_A_TIME = {"iperf3": SUPPORT["iperf3"].port or 0}
# nuttcp's server forks, but each data connection needs a port.
_DATA_PORTS = {"nuttcp": 5001}


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
        if support.program is None:
            found.append(Available(name, support, "", None))
        elif shutil.which(support.program) is None:
            found.append(Available(name, support, "", support.package))
        else:
            from whydrop.measure.runners.program import version_of

            found.append(Available(name, support, version_of(support.program, *support.version), None))
    return found


def spread_ports(flows: Sequence[PlannedFlow]) -> list[PlannedFlow]:
    """The flows, each with a port of its own where its server handles one test at a time and none was chosen.

    The ports follow each other from the server's usual one, in order of the flows, for each host: 5201, 5202, ...
    Flows that do not run at the same time share one.
    """
    spread: list[PlannedFlow] = []
    for flow in flows:
        if flow.runner in _ONE_AT_A_TIME and flow.port is None:
            port = _ONE_AT_A_TIME[flow.runner]
            while any(_clash(flow, other) for other in [*spread, *flows] if other.port == port):
                port += 1
            spread.append(dataclasses.replace(flow, port=port))
        elif flow.runner in _DATA_PORTS and "data_port" not in flow.options:
            port = _DATA_PORTS[flow.runner]
            while any(_clash(flow, other) for other in spread if other.options.get("data_port") == port):
                port += 1
            spread.append(dataclasses.replace(flow, options={**flow.options, "data_port": port}))
        else:
            spread.append(flow)
    return spread


def check_together(flows: Sequence[PlannedFlow]) -> str | None:
    """The conflict between flows that are each in order: two at once on a server that handles one test at a time."""
    for number, flow in enumerate(flows):
        if flow.runner not in _ONE_AT_A_TIME:
            continue
        port = flow.port or _ONE_AT_A_TIME[flow.runner]
        for other in flows[:number]:
            if (other.port or _ONE_AT_A_TIME.get(other.runner)) == port and _clash(flow, other):
                return (
                    f"flows {other.name!r} and {flow.name!r} both use the {flow.runner} server at {flow.host} port "
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
