"""``recording.json``: what a recording says about itself beside its tables."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any, get_args

from whydrop.recording.errors import RecordingError
from whydrop.runtime import durable

FILE_NAME = "recording.json"
SCHEMA = 1

# Keys that a message lists.
_MOST_SHOWN = 20

# running: a process writes it, or was killed while it did.
STATUSES = ("running", "complete", "interrupted", "failed")

# Everything but the tables is one document; of a hostile one not more than this is read.
_LONGEST_BYTES = 256 * 1024 * 1024

# Each key: its default, and its type.
_KEYS: dict[str, tuple[Any, Any]] = {
    "whydrop": ("", str),
    "schema": (SCHEMA, int),
    "name": ("", str),
    "title": ("", str | None),
    "note": ("", str | None),
    "status": ("running", str),
    "failures": ([], list),
    "started_ns": (None, int | None),
    "ended_ns": (None, int | None),
    "test": ({}, dict),
    "hosts": ({}, dict),
    "batch": (None, dict | None),
    "imported": (None, dict | None),
    "redacted": (False, bool),
}
# Of the plan, what others go through; the rest is looked at where it is used.
_TEST_KEYS = {"flows": list, "computed": list, "plots": list, "hosts": list, "parameters": dict}


def complete(metadata: dict[str, Any]) -> dict[str, Any]:
    """``metadata`` with everything that it lacks at its default.

    >>> complete({"name": "rrul"})["schema"]
    1
    """
    return {**{key: copy.copy(default) for key, (default, _) in _KEYS.items()}, **metadata}


def text(metadata: dict[str, Any]) -> str:
    """The document as it is written: indented, keys in order, so that two of them can be compared line by line."""
    return json.dumps(plain(metadata), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def write(folder: Path, metadata: dict[str, Any]) -> None:
    """Put the document into a recording's folder, whole or not at all."""
    durable.write_bytes(folder / FILE_NAME, text(metadata).encode(errors="backslashreplace"))


def read(folder: Path) -> dict[str, Any]:
    """The document of a recording's folder, checked.

    Raises:
        RecordingError: it is not there, is no JSON, or is not what this version understands.
    """
    path = folder / FILE_NAME
    try:
        size = path.stat().st_size
        if size > _LONGEST_BYTES:
            raise RecordingError(f"{path}: {size} bytes are too many for the metadata of a recording")
        content = path.read_bytes()
    except FileNotFoundError:
        raise RecordingError(
            f"{folder}: not a recording: there is no {FILE_NAME} in it. Give the folder NAME.recording itself"
        ) from None
    except OSError as reason:
        raise RecordingError(f"{path}: {reason.strerror or reason}") from reason
    try:
        metadata = json.loads(content)
    except (ValueError, RecursionError) as reason:
        raise RecordingError(f"{path}: no JSON: {reason}") from None
    return check(metadata, str(path))


def check(metadata: Any, where: str) -> dict[str, Any]:
    """``metadata`` completed, if it is what this version understands.

    Raises:
        RecordingError: it is not; the message names the key.
    """
    if not isinstance(metadata, dict) or "schema" not in metadata:
        raise RecordingError(f'{where}: not the metadata of a recording: expected an object with the key "schema"')
    schema = metadata["schema"]
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise RecordingError(f"{where}: schema is {schema!r}; expected a whole number from 1")
    if schema > SCHEMA:
        raise RecordingError(
            f"{where}: written by whydrop {metadata.get('whydrop', '?')} with schema {schema}; this version reads "
            f"schemas up to {SCHEMA}. Use that version or a newer one"
        )
    found = complete(metadata)
    for key, (_, kind) in _KEYS.items():
        if not isinstance(found[key], kind) or (isinstance(found[key], bool) and kind is not bool):
            raise RecordingError(f"{where}: {key} is {found[key]!r:.60}; expected {_named(kind)}")
    for key, kind in _TEST_KEYS.items():
        value = found["test"].get(key)
        if not isinstance(value, kind | None):
            raise RecordingError(f"{where}: test.{key} is {value!r:.60}; expected {_named(kind)} or null")
    if found["status"] not in STATUSES:
        raise RecordingError(f"{where}: status is {found['status']!r:.60}; expected one of {', '.join(STATUSES)}")
    return found


def _named(kind: Any) -> str:
    return " or ".join("null" if one is type(None) else one.__name__ for one in get_args(kind) or (kind,))


def json_object(text: str | None) -> dict[str, Any]:
    """The object in a cell of JSON (``facts``, ``settings``); empty if there is none.

    >>> json_object('{"mss": 1448}'), json_object("[1]"), json_object(None)
    ({'mss': 1448}, {}, {})
    """
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def number(value: Any) -> float | None:
    """A number from a program's text, as in the facts of a flow; ``None`` if it is none.

    >>> number("2.5"), number("nan"), number("much"), number(None)
    (2.5, None, None, None)
    """
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def finite(value: Any) -> float | None:
    """A finite number of a document; ``None`` for anything else.

    >>> finite(2), finite(True), finite("2"), finite(10**400)
    (2.0, None, None, None)
    """
    return number(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def plain(value: Any) -> Any:
    """``value`` as JSON has it: keys as text, no number that JSON does not know, the rest in words."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [plain(item) for item in items]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def part(metadata: Any, key: str, where: str) -> Any:
    """The part that a key names: names and numbers of places in lists, with dots between them.

    Names that have dots in them, as sysctls do, are found too.

    Raises:
        RecordingError: there is none; the message begins with ``where`` and lists the names that there are.

    >>> part({"sysctls": {"net.core.rmem_max": 212992}}, "sysctls.net.core.rmem_max", "a.recording")
    212992
    """
    found, seen, rest = metadata, "", key
    while rest:
        name = _name(found, rest)
        if name is None:
            raise RecordingError(
                f"{where}: no {rest!r} {f'under {seen}' if seen else 'in its metadata'}{_there(found)}"
            )
        found = found[int(name)] if isinstance(found, list) else found[name]
        seen = f"{seen}.{name}" if seen else name
        rest = rest[len(name) + 1 :]
    return found


def _name(found: Any, rest: str) -> str | None:
    """The longest beginning of ``rest`` that is a key."""
    parts = rest.split(".")
    for count in range(len(parts), 0, -1):
        name = ".".join(parts[:count])
        if (isinstance(found, dict) and name in found) or (isinstance(found, list) and _is_place(name, found)):
            return name
    return None


def _is_place(name: str, found: list[Any]) -> bool:
    return name.isdecimal() and len(name) < 10 and int(name) < len(found)


def _there(found: Any) -> str:
    if isinstance(found, dict):
        return f"; there are {', '.join(map(str, list(found)[:_MOST_SHOWN]))}" if found else "; there is nothing"
    return f"; it is a list of {len(found)}" if isinstance(found, list) else f"; it is {found!r:.60}"
