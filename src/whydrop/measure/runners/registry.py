"""Which runner measures a flow, what is installed, and what is wrong with several of them at once."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Runner
from whydrop.measure.runners.support import SUPPORT, Support

# Servers that handle one test at a time.
_ONE_AT_A_TIME = ("iperf3",)
# nuttcp's server forks, but each data connection needs a port.
_FIRST_DATA_PORT = 5001


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
    from whydrop.measure.runners.program import version_of

    found = []
    for name, support in SUPPORT.items():
        is_there = support.program is None or shutil.which(support.program) is not None
        version = version_of(support.program, *support.version) if support.program and is_there else ""
        found.append(Available(name, support, version, None if is_there else support.package))
    return found


def spread_ports(flows: Sequence[PlannedFlow]) -> list[PlannedFlow]:
    """The flows, each with a port of its own where its server handles one test at a time and none was chosen.

    The ports follow each other from the server's usual one, in order of the flows, for each host: 5201, 5202, ...
    Flows that do not run at the same time share one.
    """
    spread: list[PlannedFlow] = []
    for flow in flows:
        if flow.runner in _ONE_AT_A_TIME and flow.port is None:
            taken = {other.port for other in [*spread, *flows] if _clash(flow, other)}
            spread.append(dataclasses.replace(flow, port=_free(SUPPORT[flow.runner].port or 0, taken)))
        elif flow.runner == "nuttcp" and "data_port" not in flow.options:
            taken = {other.options.get("data_port") for other in spread if _clash(flow, other)}
            options = {**flow.options, "data_port": _free(_FIRST_DATA_PORT, taken)}
            spread.append(dataclasses.replace(flow, options=options))
        else:
            spread.append(flow)
    return spread


def _free(first: int, taken: set[int | None]) -> int:
    return next(port for port in itertools.count(first) if port not in taken)


def check_together(flows: Sequence[PlannedFlow]) -> str | None:
    """The conflict between flows that are each in order: two at once on a server that handles one test at a time."""
    for flow, other in itertools.combinations(flows, 2):
        usual = SUPPORT[flow.runner].port
        port = flow.port or usual
        if flow.runner in _ONE_AT_A_TIME and port == (other.port or usual) and _clash(flow, other):
            return (
                f"flows {flow.name!r} and {other.name!r} both use the {flow.runner} server at {flow.host} port "
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
