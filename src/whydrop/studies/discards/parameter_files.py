"""The study's parameters from a TOML file and from the command line: every mistake with its line."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whydrop.runtime.user_files import lines as toml_lines
from whydrop.runtime.user_files import validating
from whydrop.runtime.user_files.problems import FileError, Problem, written_path
from whydrop.studies.discards.parameters import Days, Parameters

_COMMAND_LINE = "--set"


def example() -> str:
    """A commented file with the defaults."""
    return Path(__file__).with_name("example.toml").read_text(encoding="utf-8")


def read(path: Path | None, settings: Sequence[str] = ()) -> Parameters:
    """Parameters from a file, if there is one, and from settings as ``change.significance=0.05``, which win.

    Raises:
        FileError: with every mistake: file, line, key, and what was expected there.
    """
    raw: dict[str, Any] = {}
    where: dict[toml_lines.Path, int] = {}
    name = str(path) if path is not None else _COMMAND_LINE
    if path is not None:
        raw, where = validating.parse(path, name)
    set_here = [_set(raw, setting) for setting in settings]
    model, mistakes = validating.validate(Parameters, raw)
    if model is None:
        raise FileError(_problem(name, where, set_here, place, message) for place, message in mistakes)
    return model


def _problem(
    name: str, where: dict[toml_lines.Path, int], set_here: list[toml_lines.Path], place: toml_lines.Path, message: str
) -> Problem:
    """A mistake where it was made: on the command line, or in a line of the file."""
    message = message.replace("input should be a valid tuple", 'expected a list, such as ["dfw", "lga"]')
    if not where or any(place[: len(one)] == one for one in set_here):
        return Problem(_COMMAND_LINE, 0, written_path(place), message)
    return Problem(name, toml_lines.nearest_line(where, place), written_path(place), message)


def _set(raw: dict[str, Any], setting: str) -> toml_lines.Path:
    """Put one setting in its place; return the place."""
    written, equals, text = setting.partition("=")
    path = tuple(part.strip() for part in written.split("."))
    if not equals or not all(path):
        message = f"{setting!r}: expected KEY=VALUE, such as change.significance=0.05"
        raise FileError([Problem(_COMMAND_LINE, 0, "", message)])
    table = raw
    for number, part in enumerate(path[:-1]):
        inner = table.setdefault(part, _days(path[: number + 1]))
        if not isinstance(inner, dict):
            message = f"is {inner!r}, which has no keys of its own"
            raise FileError([Problem(_COMMAND_LINE, 0, written_path(path[: number + 1]), message)])
        table = inner
    table[path[-1]] = _value(text.strip())
    return path


def _days(path: tuple[str, ...]) -> dict[str, Any]:
    """The default days where ``path`` names days, since one end alone could not be read; else an empty table."""
    found: Any = Parameters()
    for part in path:
        found = getattr(found, part, None)
    return found.model_dump() if isinstance(found, Days) else {}


def _value(text: str) -> Any:
    """A value as TOML has them; what is none is a text without its quotes."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
