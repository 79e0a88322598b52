"""TOML files that users write, checked against a pydantic schema: every mistake with its line and what was expected."""

from __future__ import annotations

import re
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from whydrop.runtime.user_files import lines as toml_lines
from whydrop.runtime.user_files.problems import FileError, Problem
from whydrop.runtime.user_files.spelling import suggestion

_LARGEST_BYTES = 1_000_000

Model = TypeVar("Model", bound=BaseModel)


def parse(path: Path, shown: str) -> tuple[dict[str, Any], dict[toml_lines.Path, int]]:
    """The contents of a TOML file, and the line of each key.

    Raises:
        FileError: it cannot be read, or is no TOML.
    """
    source = _contents(path, shown)
    try:
        raw = tomllib.loads(source)
    except (ValueError, RecursionError) as reason:
        raise FileError([_syntax(shown, str(reason), source)]) from None
    return raw, toml_lines.lines(source)


def validate(model: type[Model], raw: dict[str, Any]) -> tuple[Model | None, list[tuple[toml_lines.Path, str]]]:
    """The contents by a schema, or every place where they do not fit it and why."""
    try:
        return model.model_validate(raw), []
    except ValidationError as found:
        return None, [_message_of(model, error) for error in found.errors()]


def _contents(path: Path, shown: str) -> str:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise FileError([Problem(shown, 0, "", f"too large (at most {_LARGEST_BYTES} bytes)")])
        # Editors on Windows put a byte order mark first.
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as reason:
        line = path.read_bytes()[: reason.start].count(b"\n") + 1
        raise FileError([Problem(shown, line, "", f"byte {reason.start} is not UTF-8; expected a TOML file")]) from None
    except OSError as reason:
        raise FileError([Problem(shown, 0, "", f"{reason.strerror}; expected a file in TOML")]) from None


def _syntax(shown: str, message: str, source: str) -> Problem:
    """tomllib's message with its line where Problem has it."""
    place = re.search(r"\(at line (\d+), column (\d+)\)", message)
    line = int(place[1]) if place else source.rstrip().count("\n") + 1
    what = re.sub(r"\s*\(at .*\)$", "", message) or "not TOML"
    column = f", column {place[2]}" if place else ", at its end"
    return Problem(shown, line, "", f"not TOML{column}: {what[0].lower()}{what[1:]}")


def _message_of(model: type[BaseModel], error: ErrorDetails) -> tuple[toml_lines.Path, str]:
    path = tuple(part for part in error["loc"] if not (isinstance(part, str) and part.startswith("function-")))
    return path, _message(model, error, path)


_WANTED = {
    "string_type": "a text in quotes",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def _message(model: type[BaseModel], error: ErrorDetails, path: toml_lines.Path) -> str:
    kind = error["type"]
    if kind == "extra_forbidden":
        known = _keys_at(model, path[:-1])
        return "no such key" + suggestion(str(path[-1]), known, f"expected one of {', '.join(known)}")
    if kind == "missing":
        return "is missing, and has no default"
    if kind == "value_error":
        return str(error["ctx"]["error"])
    if kind == "literal_error":
        return f"{error['input']!r}: expected {error['ctx']['expected']}"
    if kind in _WANTED:
        return f"{error['input']!r}: expected {_WANTED[kind]}"
    message = error["msg"]
    return f"{error['input']!r}: {message[0].lower()}{message[1:]}"


def _keys_at(model: type[BaseModel], path: toml_lines.Path) -> list[str]:
    """The keys that the table at ``path`` may have."""
    for part in path:
        if isinstance(part, int):
            continue
        inner = _model_in(model.model_fields[part].annotation) if part in model.model_fields else None
        # Else the part is a name that the user chose, in a table of tables.
        model = inner or model
    return [field.alias or name for name, field in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for part in typing.get_args(annotation) if (found := _model_in(part))), None)
