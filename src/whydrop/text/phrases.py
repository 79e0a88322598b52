"""Phrases as data: templates with named placeholders and optional clauses, filled with the values of a fact.

- ``{rate_bps}`` is a value, written by the unit in its name; ``{mtu:exact_size}`` one written by a function of
  :mod:`whydrop.text.quantities`.
- ``{lost|packet}`` is a number of things: "1 packet", "96 packets".
- ``{low_s to high_s}`` is an interval: "3.59 to 3.81 ms".
- ``[, {peers|peer} besides]`` is a clause that is left out if a value in it is missing, zero or empty.
- ``[lost?text|other text]`` depends on a value that need not stand in the text; ``!lost`` is its absence,
  ``kind=idle`` a certain value. Clauses nest.
"""

from __future__ import annotations

from whydrop.text import quantities

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Values = Mapping[str, Any]
    # A template, or a function that chooses one by the values.
    Phrase = str | Callable[[Values], str]


_ADVERBS = {(1, "time"): "once", (2, "time"): "twice"}


def fill(phrase: Phrase, values: Values) -> str:
    """The phrase with its values.

    >>> fill("{lost|packet} lost[ on {link}][many?, too many|, few].", {"lost": 1, "many": False})
    '1 packet lost, few.'
    """
    return _filled(phrase if isinstance(phrase, str) else phrase(values), values)[0]


def table(text: str) -> dict[str, str]:
    """Templates by code, from lines ``code: template`` or ``code, code: template``.

    Deeper lines go on, and comments begin with ``#``.

    >>> table("lost, gone: {lost|packet}\\n    lost")
    {'lost': '{lost|packet} lost', 'gone': '{lost|packet} lost'}
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    indent = min(len(line) - len(line.lstrip()) for line in lines)
    found: dict[str, str] = {}
    codes: list[str] = []
    for line in lines:
        if line[indent] == " ":
            found |= {code: f"{found[code]} {line.strip()}" for code in codes}
        else:
            names, _, template = line.strip().partition(": ")
            codes = names.split(", ")
            found |= dict.fromkeys(codes, template)
    return found


def capital(text: str) -> str:
    """The text with a capital letter at its beginning.

    >>> capital("the MSS is 1448 bytes")
    'The MSS is 1448 bytes'
    """
    return text[:1].upper() + text[1:]


def listed(names: Sequence[str], most: int = 4) -> str:
    """Names in a sentence, at most so many of them; nothing of none.

    >>> listed(["a", "b"]), listed(["a", "b", "c"], most=2)
    ('a and b', 'a, b and 1 more')
    """
    shown = [*names[:most], f"{len(names) - most} more"] if len(names) > most else names
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)


def _filled(template: str, values: Values) -> tuple[str, bool]:
    """The text, and whether every value in it was there."""
    written, is_complete = [], True
    # The brackets of a command are its own.
    for kind, part in _parts(template, clauses=not template.startswith("$ ")):
        if kind == "{":
            text, is_there = _slot(part, values)
            is_complete &= is_there
        else:
            text = part if kind == "" else _clause(part, values)
        written.append(text)
    return "".join(written), is_complete


def _parts(template: str, *, clauses: bool = True) -> Iterator[tuple[str, str]]:
    """The template in parts: plain text, the insides of placeholders, and those of clauses."""
    marks = "{[" if clauses else "{"
    at = 0
    while at < len(template):
        kind = template[at] if template[at] in marks else ""
        if not kind:
            starts = [place for mark in marks if (place := template.find(mark, at)) >= 0]
            end = min(starts, default=len(template))
            yield "", template[at:end]
        else:
            end = _closing(template, at)
            yield kind, template[at + 1 : end - 1]
        at = end


def _closing(template: str, at: int) -> int:
    """Behind the bracket that closes the one at ``at``."""
    if template[at] == "{":
        return template.index("}", at) + 1
    depth = 0
    for place in range(at, len(template)):
        depth += {"[": 1, "]": -1}.get(template[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError(f"no closing bracket: {template}")


def _clause(clause: str, values: Values) -> str:
    condition, mark, rest = clause.partition("?")
    if not mark or not condition.lstrip("!").replace("=", "").replace("_", "").replace("-", "").isalnum():
        text, is_complete = _filled(clause, values)
        return text if is_complete else ""
    either, other = _alternatives(rest)
    return _filled(either if _holds(condition, values) else other, values)[0]


def _holds(condition: str, values: Values) -> bool:
    name, mark, wanted = condition.lstrip("!").partition("=")
    value = values.get(name)
    return (str(value) == wanted if mark else bool(value)) is not condition.startswith("!")


def _alternatives(rest: str) -> tuple[str, str]:
    """The texts before and behind the bar."""
    at = 0
    for kind, part in _parts(rest):
        if kind == "" and (bar := part.find("|")) >= 0:
            return rest[: at + bar], rest[at + bar + 1 :]
        at += len(part) + (2 if kind else 0)
    return rest, ""


def _slot(slot: str, values: Values) -> tuple[str, bool]:
    """A placeholder's text, and whether its value is there."""
    low, to, high = slot.partition(" to ")
    if to:
        write = quantities.by_name(low) or quantities.count
        ends = values.get(low), values.get(high)
        is_known = None not in ends
        return quantities.interval(write, *ends) if is_known else "unknown", is_known  # type: ignore[arg-type]
    name, bar, noun = slot.partition("|")
    name, colon, form = name.partition(":")
    value = values.get(name)
    is_there = bool(value)
    if value is None:
        return "unknown", False
    if bar:
        return _ADVERBS.get((value, noun)) or quantities.plural(value, noun), is_there
    return (getattr(quantities, form)(value) if colon else quantities.written(name, value)), is_there
