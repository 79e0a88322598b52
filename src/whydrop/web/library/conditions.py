"""Conditions of a search as SQL over the tables of an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from whydrop.web.library.query import TIMES, Both, Either, Node, Not, Term

# Columns of entries that a search or an order may name as if they were metadata.
OWN = {
    "name": "name", "title": "title", "path": "path", "kind": "kind", "status": "status", "problem": "problem",
    "started": "started_ns / 1e9", "time": "started_ns / 1e9", "changed": "changed_ns / 1e9",
    "duration": "duration_s", "size": "size_bytes", "note": "coalesce(note, '')", "tags": "coalesce(tags, '')",
    "tag": "coalesce(tags, '')",
}  # fmt: skip

# The tags of an entry are lines: a whole one is between two ends of lines.
_TAG_LINES = "char(10) || lower(coalesce(tags, '')) || char(10)"

Written = tuple[str, list[object]]


def condition(node: Node, keys_of: Callable[[str], Sequence[int]]) -> Written:
    """A condition as an expression with its values.

    Args:
        node: the condition.
        keys_of: gives the numbers of the keys of metadata that a name means.
    """
    match node:
        case Term():
            return _term(node, keys_of)
        case Not():
            text, values = condition(node.of, keys_of)
            return f"NOT ({text})", values
        case Both() | Either():
            parts = [condition(one, keys_of) for one in node.of]
            joined = (" AND " if isinstance(node, Both) else " OR ").join(f"({text})" for text, _ in parts)
            return joined or "1", [value for _, values in parts for value in values]


def _term(term: Term, keys_of: Callable[[str], Sequence[int]]) -> Written:
    if term.operator == "word":
        contained = f"%{_escaped(term.text)}%"
        columns = ("words", "coalesce(tags, '')", "coalesce(note, '')")
        return " OR ".join(f"{column} LIKE ? ESCAPE '!'" for column in columns), [contained] * 3
    if term.key in ("tag", "tags") and term.operator == "=":
        return f"instr({_TAG_LINES}, char(10) || ? || char(10)) > 0", [term.text]
    if term.key in OWN:
        column = OWN[term.key]
        if term.operator == "has":
            return f"coalesce({column}, '') <> ''", []
        text, values = _of_time(term, column) if term.key in TIMES else _of_value(term, column, column)
        return f"coalesce({text}, 0)", values
    keys = list(keys_of(term.key))
    chosen = f"number IN (SELECT entry FROM facts WHERE key IN ({marks(keys)})"
    if term.operator == "has":
        return f"{chosen})", [*keys]
    text, values = _of_value(term, "value", "facts.number")
    return f"{chosen} AND {text})", [*keys, *values]


def _of_value(term: Term, text: str, number: str) -> Written:
    match term.operator:
        case ":":
            return f"{text} LIKE ? ESCAPE '!'", [f"%{_escaped(term.text)}%"]
        case "=":
            return f"lower({text}) = ?", [term.text]
        case operator:
            return f"{number} {operator} ?", [term.number]


def _of_time(term: Term, column: str) -> Written:
    """A comparison with a span of time: later than all of it, earlier than all of it, or within."""
    begin_s, end_s = term.span or (0.0, 0.0)
    match term.operator:
        case "<":
            return f"{column} < ?", [begin_s]
        case "<=":
            return f"{column} < ?", [max(end_s, begin_s)]
        case ">":
            return f"{column} >= ?", [end_s]
        case ">=":
            return f"{column} >= ?", [begin_s]
        case _:
            return f"({column} >= ? AND {column} < ?)", [begin_s, end_s]


def marks(values: Sequence[object]) -> str:
    """As many question marks as there are values."""
    return ", ".join("?" * len(values))


def _escaped(text: str) -> str:
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")
