"""TOML for people: tables in their order, short ones on a line, values escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def document(tables: Mapping[str, Any]) -> str:
    """A document: values at the top, then tables of tables.

    >>> print(document({"schema": 1, "batch": {"a b": {"test": "rrul", "for": {"cc": ["x"]}}}}), end="")
    schema = 1
    <BLANKLINE>
    [batch."a b"]
    test = "rrul"
    for = { cc = ["x"] }
    """
    plain = {key: value for key, value in tables.items() if not isinstance(value, Mapping)}
    parts = ["".join(f"{_key(key)} = {value_text(value)}\n" for key, value in plain.items())]
    parts += [
        "".join(_table((kind, name), table))
        for kind, group in tables.items()
        if isinstance(group, Mapping)
        for name, table in group.items()
    ]
    return "\n".join(parts)


def _table(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    yield f"[{'.'.join(_key(part) for part in path)}]\n"
    for key, value in table.items():
        if isinstance(value, Mapping) and len(value) > 1:
            # Dotted keys: a line for each, where an inline table would be long.
            yield from (f"{_key(key)}.{_key(inner)} = {value_text(item)}\n" for inner, item in value.items())
        else:
            yield f"{_key(key)} = {value_text(value)}\n"


def value_text(value: Any) -> str:
    """A value as TOML.

    >>> value_text(["a", 1, True, 0.5, {"k": "v"}])
    '["a", 1, true, 0.5, { k = "v" }]'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(value_text(item) for item in value) + "]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(key)} = {value_text(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return _text(str(value))


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    escaped = "".join(_ESCAPES.get(char) or (char if char.isprintable() else f"\\U{ord(char):08x}") for char in text)
    return f'"{escaped}"'
