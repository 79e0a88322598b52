"""Tests and plans in words: lists, tables of flows, and the same as data for other programs."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from whydrop.measure.plan import Plan, PlannedFlow
from whydrop.measure.tests.expressions import written
from whydrop.measure.tests.loading import Test, load, names
from whydrop.measure.tests.resolving import example_parameters, resolve
from whydrop.measure.tests.schema import FAMILIES, Parameter, common
from whydrop.runtime.user_files.quantities import CODE_POINTS
from whydrop.text import quantities
from whydrop.text.phrases import fill

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
        **{
            key: getattr(test, key)
            for key in ("name", "title", "family", "variant_of", "source", "description", "shows")
        },
        "hosts": {"minimum": test.hosts.minimum, "maximum": test.hosts.maximum},
        "parameters": {
            name: parameter.model_dump(exclude={"items"} if parameter.type != "list" else None)
            | {"value": plan.parameters[name]}
            for name, parameter in test.parameters.items()
        },
        "total_s": plan.total_s,
        "flows": [flow.settings() for flow in plan.flows],
        "computed": [dataclasses.asdict(series) for series in plan.computed],
        **{key: getattr(test, key) for key in ("plots", "default_plot", "example")},
    }


def parameter_rows(test: Test) -> list[tuple[str, str, str]]:
    """The test's own parameters: name, default, what it does and takes; those that its own file names come first."""
    return _rows(test, sorted(test.own_parameters, key=lambda name: name not in test.spoken_of))


def common_rows(test: Test) -> list[tuple[str, str, str]]:
    """Those that every test has."""
    return _rows(test, common())


def _rows(test: Test, names: Iterable[str]) -> list[tuple[str, str, str]]:
    values = example_plan(test).parameters
    return [
        (name, _default(test, name, test.parameters[name], values[name]), _takes(test.parameters[name]))
        for name in names
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
    for flow, following in zip_longest(flows, flows[1:]):
        group.append(flow)
        if following is None or not _alike(flow, following):
            name = group[0].name
            if len(group) > 1:
                name = f"{name} to {_number(flow.name)} ({quantities.plural(len(group), 'flow')})"
            yield name, group[0]
            group = []


def _alike(one: PlannedFlow, other: PlannedFlow) -> bool:
    number = _number(one.name)
    following = dataclasses.replace(one, name=f"{_stem(one.name)}{int(number) + 1}") if number else None
    return following == other


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


# Further settings, each named if all values in it are there.
_FURTHER = (
    "every {interval_s}",
    "{packets_per_burst|packet}[ every {burst_every_s}]",
    "{congestion_control}",
    "{rate_bps}",
    "paced at {pacing_rate_bps}",
    "{packet_payload_bytes:exact_size} each",
    "at most {payload_bytes}",
    "{on_s} on, {off_s} off",
    "{ecn}",
    "IPv{ip_version}",
    "from {local_address}",
    "by {interface}",
    "in {units}",
    "by {runner}",
    "{optional}",
)


def _is_regular(flow: PlannedFlow) -> bool:
    """True if it sends something each ``interval_s``; probes of responsiveness follow the goodput."""
    return flow.kind in ("probe", "icmp", "http") and flow.runner != "responsiveness"


def _further(flow: PlannedFlow) -> Iterator[str]:
    values = vars(flow) | {
        "interval_s": flow.interval_s if _is_regular(flow) else None,
        "payload_bytes": flow.payload_bytes if flow.duration_s is not None else None,
        "ecn": None if flow.ecn is None else "ECN" if flow.ecn else "no ECN",
        "runner": flow.runner if flow.runner not in ("engine", "http") else None,
        "optional": "optional" if flow.optional else None,
    }
    return (words for template in _FURTHER if (words := fill(f"[{template}]", values)))
