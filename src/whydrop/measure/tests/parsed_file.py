"""One test file: read, checked against the schema, every mistake with its line."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from whydrop.measure.tests.expressions import ExpressionError, names_in
from whydrop.measure.tests.schema import Parameter, TestFile
from whydrop.measure.tests.settings import coerced, common
from whydrop.runtime.user_files import lines as toml_lines
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import Problem, written_path
from whydrop.runtime.user_files.spelling import nearest

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
    problems: tuple[Problem, ...]

    def problem(self, path: toml_lines.Path, message: str) -> Problem:
        """A mistake at a key."""
        return Problem(self.name, toml_lines.nearest_line(self.lines, path), written_path(path), message)


def read(path: Path, name: str | None = None) -> ReadFile:
    """Read a test file.

    Raises:
        FileError: it cannot be read, or is no TOML.
    """
    shown = name or str(path)
    raw, where = validating.parse(path, shown)
    return read_table(path, shown, raw, where)


def read_table(path: Path, name: str, raw: dict[str, Any], where: dict[toml_lines.Path, int]) -> ReadFile:
    """Hold the contents of a test file against the schema."""
    bare = ReadFile(path, name, raw, where, None, ())
    model, mistakes = validating.validate(TestFile, raw)
    problems = [bare.problem(place, message) for place, message in mistakes]
    problems += _of_each(bare)
    source = ReadFile(path, name, raw, where, model, ())
    problems += _of_parameters(source)
    return ReadFile(path, name, raw, where, model, tuple(problems))


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
            like = nearest(name, allowed)
            hint = f"; did you mean {like}?" if like else ""
            found.append(source.problem(path, f"no parameter or variable is called {name}{hint}"))
    return found


def _of_parameters(source: ReadFile) -> list[Problem]:
    """Defaults that their own parameter would refuse."""
    found: list[Problem] = []
    tables = source.raw.get("parameters")
    for name, table in tables.items() if isinstance(tables, dict) else ():
        path = ("parameters", name)
        try:
            parameter = Parameter.model_validate(table)
        except ValidationError:
            continue  # the schema says so
        if not _is_name(name):
            found.append(source.problem(path, _NAMES))
        if name in VARIABLES | IN_FLOWS:
            found.append(source.problem(path, "is a variable of every test; choose another name"))
        if parameter.type is None or parameter.default is None:
            continue
        try:
            if not names_in(parameter.default):
                coerced(parameter, parameter.default)
        except ExpressionError as reason:
            found.append(source.problem((*path, "default"), str(reason)))
        except ValueError as reason:
            found.append(source.problem((*path, "default"), str(reason)))
    return found


_NAMES = "a name is made of letters, digits and _, and is no word of the language of expressions"


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _of_each(source: ReadFile) -> list[Problem]:
    """Names of variables that no expression could use."""
    flows = source.raw.get("flows")
    return [
        source.problem(("flows", number, "each", name), _NAMES)
        for number, flow in enumerate(flows if isinstance(flows, list) else [])
        if isinstance(flow, dict)
        for name in _each(flow)
        if not _is_name(name)
    ]


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


def _local_names(raw: dict[str, Any], path: toml_lines.Path) -> set[str]:
    """The variables that ``each`` makes, for an expression inside that flow; a change sees those of any flow."""
    if path[:1] == ("change",):
        flows = raw.get("flows", [])
        return {*IN_FLOWS, *(name for flow in flows if isinstance(flow, dict) for name in _each(flow))}
    if len(path) < 2 or path[0] != "flows" or not isinstance(path[1], int):
        return set()
    flow = raw["flows"][path[1]]
    return {*IN_FLOWS, *_each(flow)} if isinstance(flow, dict) else set()


def _each(flow: dict[str, Any]) -> set[str]:
    each = flow.get("each", {})
    return set(each) if isinstance(each, dict) else set()
