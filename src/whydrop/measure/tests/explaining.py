"""Tests and plans in words: lists, tables of flows, and the same as data for other programs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any

from whydrop.measure.plan import Plan, PlannedFlow
from whydrop.measure.tests.expressions import written
from whydrop.measure.tests.loading import Test, load, names
from whydrop.measure.tests.resolving import example_parameters, resolve
from whydrop.measure.tests.schema import FAMILIES, Parameter
from whydrop.measure.tests.settings import common
from whydrop.runtime.user_files.quantities import CODE_POINTS
from whydrop.text import quantities

_KINDS = {
    "tcp": "TCP",
    "udp": "UDP",
    "probe": "UDP probes",
    "icmp": "ICMP echo",
    "burst": "UDP bursts",
    "http": "HTTP fetches",
    "value": "values",
}
# The name of a code point that people know best.
_NAMES = {code: name for name, code in reversed(CODE_POINTS.items())} | {0: "CS0", 8: "CS1"}


def listing() -> list[dict[str, Any]]:
    """Name, family and title of every test of the catalogue, in order of the families."""
    tests = [load(name) for name in names()]
    order = {family: number for number, family in enumerate(FAMILIES)}
    tests.sort(key=lambda test: (order.get(test.family or "", len(order)), test.variant_of or test.name, *_place(test)))
    return [
        {"name": test.name, "family": test.family, "title": test.title, "variant_of": test.variant_of} for test in tests
    ]


def _place(test: Test) -> tuple[bool, list[tuple[int, str]]]:
    """Before its variants; 2 before 12."""
    parts = re.findall(r"\d+|\D+", test.name)
    return test.variant_of is not None, [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def example_plan(test: Test) -> Plan:
    """The plan with all defaults, for hosts called ``HOST`` (or ``HOST1``, ``HOST2``, ...)."""
    count = max(test.hosts.minimum, 0 if test.hosts.maximum == 0 else min(1, test.hosts.maximum or 1))
    if test.hosts.maximum is None and test.hosts.minimum:
        count = max(count, 2)
    hosts = ["HOST"] if count == 1 else [f"HOST{number + 1}" for number in range(count)]
    return resolve(test, hosts, example_parameters(test))


def document(test: Test) -> dict[str, Any]:
    """A test as data."""
    plan = example_plan(test)
    return {
        "name": test.name,
        "title": test.title,
        "family": test.family,
        "variant_of": test.variant_of,
        "source": test.source,
        "description": test.description,
        "shows": test.shows,
        "hosts": {"minimum": test.hosts.minimum, "maximum": test.hosts.maximum},
        "parameters": {
            name: parameter.model_dump(exclude={"items"} if parameter.type != "list" else None)
            | {"value": plan.parameters[name]}
            for name, parameter in test.parameters.items()
        },
        "total_s": plan.total_s,
        "flows": [flow.settings() for flow in plan.flows],
        "computed": [dataclasses.asdict(series) for series in plan.computed],
        "plots": test.plots,
        "default_plot": test.default_plot,
        "example": test.example,
    }


def parameter_rows(test: Test) -> list[tuple[str, str, str]]:
    """The test's own parameters: name, default, what it does and takes; those that its own file names come first."""
    plan = example_plan(test)
    return [
        (name, _default(test, name, parameter, plan.parameters[name]), _takes(parameter))
        for name, parameter in sorted(test.own_parameters.items(), key=lambda item: item[0] not in test.spoken_of)
    ]


def common_rows(test: Test) -> list[tuple[str, str, str]]:
    """Those that every test has."""
    plan = example_plan(test)
    return [
        (name, _default(test, name, test.parameters[name], plan.parameters[name]), _takes(test.parameters[name]))
        for name in common()
    ]


def _default(test: Test, name: str, parameter: Parameter, value: Any) -> str:
    if parameter.required and name not in test.presets:
        return "(required)"
    if value is None or value == [] or value == "":
        return "–"
    if parameter.type == "duration":
        return quantities.duration(value)
    if parameter.type == "rate":
        return quantities.rate(value)
    return written(value)


def _takes(parameter: Parameter) -> str:
    words = parameter.help or ""
    if parameter.choices:
        words += f" One of {', '.join(map(str, parameter.choices))}."
    if parameter.aliases:
        words += f" Also called {', '.join(parameter.aliases)}."
    return words.strip()


def flow_rows(flows: Sequence[PlannedFlow]) -> list[tuple[str, ...]]:
    """Flows for people: name, what it is, host, start, duration, code point, and what else was asked for.

    Flows that differ only in the number at the end of their names share a row.
    """
    rows = [(name, *_cells(flow)) for name, flow in _grouped(flows)]
    return [("Flow", "What", "Host", "Start", "Lasts", "DSCP", "Further"), *rows]


def _grouped(flows: Sequence[PlannedFlow]) -> Iterator[tuple[str, PlannedFlow]]:
    group: list[PlannedFlow] = []
    for flow in [*flows, None]:
        if group and (flow is None or not _alike(group[-1], flow)):
            first, last = group[0].name, group[-1].name
            name = first if len(group) == 1 else f"{first} to {_number(last)} ({len(group)} flows)"
            yield name, group[0]
            group = []
        if flow is not None:
            group.append(flow)


def _alike(one: PlannedFlow, other: PlannedFlow) -> bool:
    stem, number = _stem(one.name), _number(one.name)
    return (
        bool(number)
        and stem == _stem(other.name)
        and _number(other.name) == str(int(number) + 1)
        and dataclasses.replace(one, name="") == dataclasses.replace(other, name="")
    )


def _stem(name: str) -> str:
    return name.rstrip("0123456789")


def _number(name: str) -> str:
    return name[len(_stem(name)) :]


def _cells(flow: PlannedFlow) -> tuple[str, ...]:
    what = _KINDS[flow.kind] + (f" {flow.direction}" if flow.direction != "both" else "")
    lasts = (
        quantities.duration(flow.duration_s)
        if flow.duration_s is not None
        else quantities.size(flow.payload_bytes or 0)
    )
    marked = flow.kind not in ("http", "value")
    code_point = _NAMES.get(flow.dscp, str(flow.dscp)) if marked else "–"
    return (what, flow.host or "–", quantities.duration(flow.start_s), lasts, code_point, ", ".join(_further(flow)))


def _further(flow: PlannedFlow) -> Iterator[str]:
    if flow.kind in ("probe", "icmp", "http"):
        yield f"every {quantities.duration(flow.interval_s)}"
    if flow.packets_per_burst is not None:
        every = f" every {quantities.duration(flow.burst_every_s)}" if flow.burst_every_s else ""
        yield f"{flow.packets_per_burst} packets{every}"
    if flow.congestion_control:
        yield flow.congestion_control
    if flow.rate_bps:
        yield quantities.rate(flow.rate_bps)
    if flow.pacing_rate_bps:
        yield f"paced at {quantities.rate(flow.pacing_rate_bps)}"
    if flow.packet_payload_bytes is not None:
        yield f"{flow.packet_payload_bytes} B each"
    if flow.payload_bytes and flow.duration_s is not None:
        yield f"at most {quantities.size(flow.payload_bytes)}"
    if flow.on_s and flow.off_s:
        yield f"{quantities.duration(flow.on_s)} on, {quantities.duration(flow.off_s)} off"
    if flow.ecn is not None:
        yield "ECN" if flow.ecn else "no ECN"
    if flow.ip_version:
        yield f"IPv{flow.ip_version}"
    if flow.local_address:
        yield f"from {flow.local_address}"
    if flow.interface:
        yield f"by {flow.interface}"
    if flow.units:
        yield f"in {flow.units}"
    if flow.runner not in ("engine", "http"):
        yield f"by {flow.runner}"
    if flow.optional:
        yield "optional"
