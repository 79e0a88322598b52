"""The language of searches: words, and conditions on metadata.

``bufferbloat cc:cubic rtt>50 title~before -status:failed`` has five terms, all of which must hold:

- a word is part of the name, the title, the path, a tag or the note;
- ``key:value`` is a value that contains the text, ``key=value`` one that is the text;
- ``key<n``, ``key<=n``, ``key>n``, ``key>=n`` compare the number that a value begins with;
- ``key~text`` is a synonym of ``key:text``; ``-`` before a term is its opposite; ``"several words"`` are one.

A key is a dotted key of the metadata or its last parts: ``rtt`` finds ``batch.variables.rtt``. Upper and lower case are
the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, cast

from whydrop.errors import Error

Operator = Literal["word", ":", "=", "<", "<=", ">", ">="]

# Further names of what is asked for most.
ALIASES = {"cc": ("congestion_control", "tcp_congestion_control"), "host": ("hosts",), "length": ("length_s",)}

_VALUE = r'(?:"(?P<{0}quoted>[^"]*)"?|(?P<{0}plain>[^\s"]+))'
_TERM = re.compile(
    rf"\s*(?P<no>-)?(?:(?P<key>[A-Za-z_][\w.\[\]-]*)(?P<operator><=|>=|[:=~<>]){_VALUE.format('')}?|{_VALUE.format('word_')})"
)


class SearchError(Error, ValueError):
    """A search cannot be understood; the message names the place."""


@dataclass(frozen=True)
class Term:
    """One condition.

    Attributes:
        operator: as above.
        text: that is compared with, in lower case.
        key: of the metadata; empty for a word.
        negated: the condition must not hold.
    """

    operator: Operator
    text: str
    key: str = ""
    negated: bool = False

    @property
    def number(self) -> float:
        """The text as a number."""
        return float(self.text)


def parsed(search: str) -> list[Term]:
    """The terms of a search.

    >>> parsed('rtt>50 -"two words"')[1]
    Term(operator='word', text='two words', key='', negated=True)

    Raises:
        SearchError: a term has no value, or a comparison no number.
    """
    terms, at = [], 0
    search = search.rstrip()
    while at < len(search):
        found = _TERM.match(search, at)
        if found is None:
            raise SearchError(f"cannot read the search from {search[at:].strip()!r} on: expected a word, or key:value")
        terms.append(_term(found))
        at = found.end()
    return terms


def _term(found: re.Match[str]) -> Term:
    is_negated = bool(found["no"])
    if not found["key"]:
        return Term("word", (found["word_quoted"] or found["word_plain"] or "").lower(), negated=is_negated)
    text = (found["quoted"] or found["plain"] or "").lower()
    operator = ":" if found["operator"] == "~" else found["operator"]
    if operator[0] in "<>":
        try:
            float(text)
        except ValueError:
            raise SearchError(f"{found[0].strip()}: expected a number behind {operator!r}, such as 50") from None
    elif not text:
        raise SearchError(f"{found[0].strip()}: expected a value behind {operator!r}")
    return Term(cast(Operator, operator), text, found["key"].lower(), is_negated)
