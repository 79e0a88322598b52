"""One test file: read, checked against the schema, every mistake with its line."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from whydrop.measure.tests.expressions import ExpressionError, UnknownNameError, names_in
from whydrop.measure.tests.schema import Parameter, TestFile, coerced, common
from whydrop.runtime.user_files import lines as toml_lines
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import Problem, written_path

# What every expression may use besides parameters.
VARIABLES = frozenset({"host", "hosts", "host_count", "total_s"})
IN_FLOWS = frozenset({"index", "number"})


@dataclass(frozen=True)
class ReadFile:
    """A file that could be read.

    Attributes:
        name: as problems call it.
        raw: its contents as TOML has them.
        lines: the line of each key.
        model: its contents by the schema; ``None`` where they do not fit it.
        problems: what does not fit.
    """

    path: Path
    name: str
    raw: dict[str, Any]
    lines: dict[toml_lines.Path, int]
    model: TestFile | None
    problems: list[Problem] = field(default_factory=list)

    def problem(self, path: toml_lines.Path, message: str) -> Problem:
        """A mistake at a key."""
        return Problem(self.name, toml_lines.nearest_line(self.lines, path), written_path(path), message)


def read(path: Path, name: str) -> ReadFile:
    """Read a test file.

    Raises:
        FileError: it cannot be read, or is no TOML.
    """
    raw, where = validating.parse(path, name)
    model, mistakes = validating.validate(TestFile, raw)
    source = ReadFile(path, name, raw, where, model)
    source.problems.extend(source.problem(place, message) for place, message in mistakes)
    source.problems.extend(_of_each(source))
    source.problems.extend(_of_parameters(source))
    return source


def unknown_names(source: ReadFile, parameters: Iterable[str]) -> list[Problem]:
    """Expressions that use what is neither a parameter nor a variable."""
    known = {*VARIABLES, *common(), *parameters, "true", "false", "none"}
    found: list[Problem] = []
    for path, value in _leaves(source.raw):
        try:
            names = names_in(value)
        except ExpressionError:
            continue  # the schema has said so
        allowed = known | _local_names(source.raw, path)
        for name in sorted(names - allowed):
            found.append(source.problem(path, str(UnknownNameError(name, allowed))))
    return found


def _of_parameters(source: ReadFile) -> Iterator[Problem]:
    """Defaults that their own parameter would refuse."""
    for name, table in _dict(source.raw.get("parameters")).items():
        path = ("parameters", name)
        try:
            parameter = Parameter.model_validate(table)
        except ValidationError:
            continue  # the schema says so
        if not _is_name(name):
            yield source.problem(path, _NAMES)
        if name in VARIABLES | IN_FLOWS:
            yield source.problem(path, "is a variable of every test; choose another name")
        if parameter.type is None or parameter.default is None:
            continue
        try:
            if not names_in(parameter.default):
                coerced(parameter, parameter.default)
        except ValueError as reason:
            yield source.problem((*path, "default"), str(reason))


_NAMES = "a name is made of letters, digits and _, and is no word of the language of expressions"


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _of_each(source: ReadFile) -> Iterator[Problem]:
    """Names of variables that no expression could use."""
    for number, names in each_of_flows(source.raw):
        yield from (
            source.problem(("flows", number, "each", name), _NAMES) for name in sorted(names) if not _is_name(name)
        )


def each_of_flows(raw: dict[str, Any]) -> Iterator[tuple[int, set[str]]]:
    """The variables that ``each`` makes in each flow of a file, by the flow's place."""
    flows = raw.get("flows")
    for number, flow in enumerate(flows if isinstance(flows, list) else []):
        yield number, set(_dict(_dict(flow).get("each")))


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _leaves(value: Any, path: toml_lines.Path = ()) -> Iterator[tuple[toml_lines.Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            # Sentences for people are no expressions.
            if key not in ("description", "shows", "help", "title", "example"):
                yield from _leaves(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, number))


def _local_names(raw: dict[str, Any], path: toml_lines.Path) -> AbstractSet[str]:
    """The variables that ``each`` makes, for an expression inside that flow; a change sees those of any flow."""
    each = dict(each_of_flows(raw))
    if path[:1] == ("change",):
        return set(IN_FLOWS).union(*each.values())
    if path[0] == "flows" and len(path) > 1 and isinstance(path[1], int):
        return IN_FLOWS | each.get(path[1], set())
    return set()
