"""From a test, hosts and parameters to a plan: every expression computed, every flow spelt out."""

from __future__ import annotations

import dataclasses
import glob
from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from whydrop.measure.plan import Computed, Plan, PlannedFlow
from whydrop.measure.tests import fallbacks
from whydrop.measure.tests.expressions import ExpressionError, Template, expand
from whydrop.measure.tests.fallbacks import SettingError
from whydrop.measure.tests.loading import Placed, Test, load, load_file
from whydrop.measure.tests.planned import CannotBeError, planned
from whydrop.measure.tests.schema import Change, Flow, FlowSettings, Parameter, Series, coerced
from whydrop.runtime.user_files.problems import FileError, Problem
from whydrop.runtime.user_files.spelling import suggestion
from whydrop.text import quantities

_MOST_FLOWS = 10_000


def resolve(
    test: str | Test,
    hosts: Sequence[str],
    parameters: Mapping[str, Any] | None = None,
    with_runner: str | None = None,
    *,
    title: str = "",
) -> Plan:
    """The plan of a test.

    Args:
        test: its name in the catalogue, the path of its file, or the test itself.
        hosts: the far ends, as the user named them.
        parameters: what was set, by name or alias; texts are read as their parameter's type.
        with_runner: programs that measure instead of the engine, such as ``iperf3`` or ``iperf3,irtt``.
        title: of the recording.

    Raises:
        UnknownTestError: there is no such test.
        FileError: its file has mistakes.
        SettingError: the hosts or parameters do not fit it.
    """
    if isinstance(test, str):
        test = load(test)
    if test.abstract:
        raise SettingError([f"{test.name} is only to be extended by other tests; it cannot be run"])
    scope = _scope(test, hosts, parameters or {})
    flows = _flows(test, scope)
    notes: tuple[str, ...] = ()
    if scope["swap_directions"]:
        flows = [_swapped(flow) for flow in flows]
    if with_runner:
        flows, notes = fallbacks.replaced(flows, with_runner)
    computed = tuple(_computed(test, scope, [flow.name for flow in flows], swap=scope["swap_directions"]))
    probes, found = _segments(flows, scope)
    flows = [*flows, *probes]
    _no_twice(test, flows, computed)
    return Plan(
        test=test.name,
        title=title,
        length_s=scope["length_s"],
        delay_s=scope["delay_s"],
        step_s=scope["step_s"],
        hosts=tuple(hosts),
        flows=tuple(flows),
        computed=computed,
        default_plot=test.default_plot,
        plots=tuple(test.plots),
        parameters={name: scope[name] for name in test.parameters},
        source=test.source,
        notes=(*notes, *fallbacks.servers_needed(flows)),
        segments=found,
    )


def _segments(
    flows: Sequence[PlannedFlow], scope: Mapping[str, Any]
) -> tuple[list[PlannedFlow], dict[str, Any] | None]:
    """The probes of the access point and the far ends, where an access point was given."""
    if not scope["access_point"]:
        return [], None
    # Imported for those who ask for it: the kernel and the resolver are asked.
    from whydrop.measure.segments import AccessPointError, probing

    try:
        probes, found = probing(scope["access_point"], flows, scope)
    except AccessPointError as reason:
        raise SettingError([f"access_point: {reason}"]) from None
    return probes, found.as_dict()


def check(path: Path) -> list[Problem]:
    """Every mistake in a test file, those included that show only when it is resolved; none: it can be used."""
    try:
        test = load_file(path)
        if not test.abstract:
            hosts = max(test.hosts.minimum, 1 if test.hosts.maximum != 0 else 0)
            resolve(test, [f"host{number + 1}" for number in range(hosts)], example_parameters(test))
    except FileError as reason:
        return reason.problems
    except SettingError as reason:
        return [Problem(test.source, 0, "", mistake) for mistake in reason.mistakes]
    return []


def example_parameters(test: Test) -> dict[str, Any]:
    """A value for each parameter that must be set, to show or to try the test with."""
    return {
        name: parameter.choices[0] if parameter.choices else _example(parameter)
        for name, parameter in test.parameters.items()
        if parameter.required and name not in test.presets
    }


def _example(parameter: Parameter) -> Any:
    texts = {"text": "example", "list": "example", "boolean": "true", "dscp": "BE"}
    return texts.get(parameter.type or "text", parameter.minimum if parameter.minimum is not None else 1)


# --- parameters ---


def _scope(test: Test, hosts: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every parameter and variable."""
    mistakes = list(_host_mistakes(test, hosts))
    values: dict[str, Any] = {}
    for name, value in {**test.presets, **_by_name(test, given, mistakes)}.items():
        try:
            values[name] = None if value is None else coerced(test.parameters[name], value)
        except ValueError as reason:
            mistakes.append(f"{name}: {reason}")
    scope = _Scope(test, hosts, values)
    for name, parameter in test.parameters.items():
        if parameter.required and values.get(name) is None:
            mistakes.append(f"{name}: must be set ({parameter.help or parameter.type}): --set {name}=...")
            continue
        try:
            scope[name]
        except ValueError as reason:
            mistakes.append(f"{name}: {reason}")
    if mistakes:
        raise SettingError(mistakes)
    return scope


def _host_mistakes(test: Test, hosts: Sequence[str]) -> Iterator[str]:
    low, high = test.hosts.minimum, test.hosts.maximum
    if low <= len(hosts) and (high is None or len(hosts) <= high):
        return
    wanted = f"{low} or more hosts" if high is None else f"{low} to {high} hosts"
    if low == high:
        wanted = quantities.plural(low, "host")
    given = f"{len(hosts) or 'none'} {'are' if len(hosts) > 1 else 'is'} given"
    yield f"{test.name} needs {wanted}, but {given}: name each with --to, such as --to server.example"


def _by_name(test: Test, given: Mapping[str, Any], mistakes: list[str]) -> dict[str, Any]:
    """The values that were set, under the parameters' own names."""
    aliases = {alias: name for name, parameter in test.parameters.items() for alias in parameter.aliases}
    found: dict[str, Any] = {}
    for key, value in given.items():
        folded = key.replace("-", "_")
        name = folded if folded in test.parameters else aliases.get(folded)
        if name is None:
            hint = suggestion(folded, [*test.parameters, *aliases], f"`whydrop tests {test.name}` lists them")
            mistakes.append(f"{key}: {test.name} has no such parameter{hint}")
        elif name in found:
            mistakes.append(f"{key}: sets {name}, which is set already")
        else:
            found[name] = value
    return found


class _Scope(dict[str, Any]):
    """Values by name; a default is computed when it is first asked for."""

    def __init__(self, test: Test, hosts: Sequence[str], values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.test = test
        self.pending: list[str] = []
        self["hosts"] = list(hosts)
        self["host"] = hosts[0] if hosts else ""
        self["host_count"] = len(hosts)

    def __missing__(self, name: str) -> Any:
        if name in self.pending:
            raise ExpressionError(f"needs itself: {' needs '.join([*self.pending, name])}")
        self.pending.append(name)
        try:
            self[name] = self._default(name)
        finally:
            self.pending.pop()
        return self[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.test.parameters or name == "total_s"

    def _default(self, name: str) -> Any:
        settings = self.test.settings
        if name == "total_s":
            return expand(settings.get("total_s", Template("${length_s + 2 * delay_s}")), self)
        if name not in self.test.parameters:
            raise KeyError(name)
        parameter = self.test.parameters[name]
        default = settings.get(name, parameter.default)
        if default is None:
            return [] if parameter.type == "list" else None
        return coerced(parameter, expand(default, self))


# --- flows ---


@dataclass
class _Made:
    """A flow in the making: what is known of it, and the variables that it was made with."""

    name: str
    settings: dict[str, Any]
    scope: Mapping[str, Any]
    placed: Placed


def _flows(test: Test, scope: Mapping[str, Any]) -> list[PlannedFlow]:
    problems: list[Problem] = []
    made: list[_Made] = []
    for placed in test.flows:
        with _noted(placed, problems):
            made += [*_expanded(placed, scope)]
        if len(made) > _MOST_FLOWS:
            raise FileError([placed.problem("", f"makes more than {_MOST_FLOWS} flows")])
    made = [flow for flow in made if not _matches(flow.name, test.without)]
    for change in test.changes:
        with _noted(change, problems):
            _change(change.part, made)
    flows = []
    for flow in made:
        with _noted(flow.placed, problems):
            flows.append(_planned(flow))
    if problems:
        raise FileError(problems)
    return flows


@contextmanager
def _noted(placed: Placed, problems: list[Problem]) -> Iterator[None]:
    """Note each failure in here as a problem at its place in the file."""
    try:
        yield
    except ValueError as reason:
        problems.append(placed.problem(getattr(reason, "key", ""), str(reason)))


def _expanded(placed: Placed, scope: Mapping[str, Any]) -> Iterator[_Made]:
    part: Flow = placed.part
    lists = {name: _computed_list(name, items, scope) for name, items in part.each.items()}
    if part.repeat is not None:
        repeat = expand(part.repeat, scope)
        if not isinstance(repeat, int) or isinstance(repeat, bool) or not 0 <= repeat <= _MOST_FLOWS:
            raise CannotBeError("repeat", f"{repeat!r}: expected a whole number from 0 to {_MOST_FLOWS}")
        lists["number"] = list(range(1, repeat + 1))
    for index, items in enumerate(product(*lists.values())):
        local = ChainMap({"index": index, "number": index + 1, **dict(zip(lists, items, strict=True))}, scope)  # type: ignore[arg-type]
        if part.when is None or expand(part.when, local):
            settings = {key: getattr(part, key) for key in FlowSettings.model_fields}
            yield _Made(str(expand(part.name, local)).strip(), settings, local, placed)


def _computed_list(name: str, items: Any, scope: Mapping[str, Any]) -> list[Any]:
    found = expand(items, scope)
    if not isinstance(found, list):
        raise CannotBeError("each", f"{name} = {found!r}: expected a list")
    return found


def _change(part: Change, made: list[_Made]) -> None:
    changed = {key: getattr(part, key) for key in part.model_fields_set - {"match", "when"}}
    for flow in made:
        if _matches(flow.name, part.match) and (part.when is None or expand(part.when, flow.scope)):
            flow.settings |= changed


def _planned(made: _Made) -> PlannedFlow:
    values = {}
    for key, value in made.settings.items():
        try:
            values[key] = expand(value, made.scope)
        except ValueError as reason:
            raise CannotBeError(key, str(reason)) from None
    return planned(made.name, values, made.scope)


def _swapped(flow: PlannedFlow) -> PlannedFlow:
    """The flow in the other direction, under a name that says so."""
    if flow.kind not in ("tcp", "udp", "burst") or flow.direction == "both":
        return flow
    other: Any = "down" if flow.direction == "up" else "up"
    return dataclasses.replace(flow, direction=other, name=_swapped_words(flow.name))


def _swapped_words(name: str) -> str:
    held = name.replace("upload", "\0").replace("download", "upload")
    return held.replace("\0", "download")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


# --- computed series ---


def _computed(test: Test, scope: dict[str, Any], names: list[str], *, swap: bool) -> Iterator[Computed]:
    problems: list[Problem] = []
    for placed in test.computed:
        part: Series = placed.part
        with _noted(placed, problems):
            name = str(expand(part.name, scope))
            if (part.when is not None and not expand(part.when, scope)) or _matches(name, test.without):
                continue
            of = [str(expand(pattern, scope)) for pattern in part.of]
            without = [str(expand(pattern, scope)) for pattern in part.without]
            if swap:
                name, of, without = _swapped_words(name), [*map(_swapped_words, of)], [*map(_swapped_words, without)]
            if series := _series(of, without, names):
                yield Computed(name, part.by, tuple(series), part.units)
    if problems:
        raise FileError(problems)


def _series(patterns: list[str], without: list[str], flows: list[str]) -> list[str]:
    """The series meant, each by its own name, so that a flow that is missing later is noticed.

    As patterns, which is what plans hold: special characters in names (the brackets of IPv6 addresses) are escaped.
    """
    found: list[str] = []
    for pattern in patterns:
        matching = [name for name in flows if fnmatchcase(name, pattern)]
        flow, separator, key = pattern.rpartition("::")
        if not matching and separator:
            matching = [f"{name}::{key}" for name in flows if fnmatchcase(name, flow)]
        found.extend(name for name in matching if name not in found and not _matches(name, without))
    return [glob.escape(name) for name in found]


def _no_twice(test: Test, flows: Sequence[PlannedFlow], computed: Sequence[Computed]) -> None:
    names = Counter([*(flow.name for flow in flows), *(series.name for series in computed)])
    if twice := [name for name, count in names.items() if count > 1]:
        what = f"two flows or series called {twice[0]!r}"
        raise SettingError([f"{test.name} has {what}: give hosts, labels or numbers that differ"])
