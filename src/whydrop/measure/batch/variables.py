"""Texts with variables: ``${name}`` stands for a text that may hold further variables, and so may the name itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from whydrop.measure.tests.expressions import written
from whydrop.runtime.user_files.spelling import suggestion

# $$ is a dollar sign; ${name} a variable; its name may hold variables. Any other dollar sign is itself, as shells
# need it.
_PARTS = re.compile(r"\$\$|\$\{((?:[^{}]|\$\{[^{}]*\})*)\}")
_LONGEST = 1_000_000
_DEEPEST = 100


class VariableError(ValueError):
    """A text uses a variable that is unknown, or that needs itself."""


def expand(text: str, values: Mapping[str, Any]) -> str:
    """A text with every variable replaced, again and again.

    >>> expand("${a} and $$HOME", {"a": "${b}!", "b": 5})
    '5! and $HOME'
    >>> expand("${queues_${cut}}", {"cut": "small", "queues_small": "codel,pie"})
    'codel,pie'

    Raises:
        VariableError: a variable is unknown, or needs itself.
    """
    return _Expansion(values).text(text, ())


def expand_all(value: Any, values: Mapping[str, Any]) -> Any:
    """``value`` with every text in it expanded, also inside lists and tables."""
    if isinstance(value, str):
        return expand(value, values)
    if isinstance(value, list):
        return [expand_all(item, values) for item in value]
    if isinstance(value, dict):
        return {key: expand_all(item, values) for key, item in value.items()}
    return value


def names_in(text: str) -> set[str]:
    """The variables that a text names."""
    found = {match[1].strip() for match in _PARTS.finditer(text) if match[1] is not None}
    return {name for name in found if "$" not in name}.union(*(names_in(name) for name in found if "$" in name))


def escaped(text: str, keep: Callable[[str], bool]) -> str:
    """``text`` with its variables made plain text, except those to keep."""

    def replace(match: re.Match[str]) -> str:
        return match[0] if match[1] is None or keep(match[1]) else f"${match[0]}"

    return _PARTS.sub(replace, text)


class _Expansion:
    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.known: dict[str, str] = {}

    def text(self, text: str, within: tuple[str, ...]) -> str:
        found = _PARTS.sub(lambda match: "$" if match[1] is None else self.named(match[1].strip(), within), text)
        if len(found) > _LONGEST:
            raise VariableError(f"a text grows beyond {_LONGEST} characters")
        return found

    def named(self, name: str, within: tuple[str, ...]) -> str:
        if "$" not in name:
            return self.variable(name, within)
        found = self.text(name, within)
        if found not in self.values:
            # What the reader wrote is a part of the name only.
            raise VariableError(f"{unknown(found, self.values)} (from ${{{name}}})")
        return self.variable(found, within)

    def variable(self, name: str, within: tuple[str, ...]) -> str:
        if name in self.known:
            return self.known[name]
        if name in within:
            chain = " needs ".join(f"${{{part}}}" for part in (*within[within.index(name) :], name))
            raise VariableError(f"a variable needs itself: {chain}")
        if name not in self.values:
            raise VariableError(unknown(name, self.values))
        if len(within) >= _DEEPEST:
            raise VariableError(f"${{{within[0]}}} needs variables through more than {_DEEPEST} levels")
        value = self.values[name]
        found = self.text(value, (*within, name)) if isinstance(value, str) else written(value)
        self.known[name] = found
        return found


def unknown(name: str, known: Iterable[str]) -> str:
    """The message about an undefined variable."""
    return f"no variable is called {name!r}{suggestion(name, known, 'a dollar sign of the shell is written $$')}"
