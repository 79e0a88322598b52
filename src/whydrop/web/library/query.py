"""The language of searches: words and conditions on metadata, joined by ``or``, parentheses and ``-``.

``bufferbloat cc:cubic (rtt>50 or tag:slow) time>2026-01 -status:failed``: all parts must hold.

- a word is part of the name, the title, the path, a tag or the note; ``"several words"`` are one;
- ``key:value`` is a value that contains the text, ``key=value`` one that is the text, ``key:`` any value;
- ``key<n``, ``key<=n``, ``key>n``, ``key>=n`` compare the number that a value begins with; of ``time`` and ``changed``
  they compare dates (:mod:`whydrop.web.library.dates`);
- ``key~text`` is a synonym of ``key:text``; ``-`` before a term or a group is its opposite.

A key is a dotted key of the metadata or its last parts: ``rtt`` finds ``batch.variables.rtt``. Upper and lower case are
the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

from whydrop.errors import Error
from whydrop.web.library.dates import span

Operator = Literal["word", "has", ":", "=", "<", "<=", ">", ">="]

# Further names of what is asked for most.
ALIASES = {"cc": ("congestion_control", "tcp_congestion_control"), "host": ("hosts",), "length": ("length_s",)}

# Keys with moments as values: what stands behind an operator is a date.
TIMES = frozenset({"time", "started", "changed"})

# SQLite's expressions have a limit, too.
_MOST_TERMS = 100
_DEEPEST = 30

_PLAIN = r'[^\s"()]+'
TOKEN = re.compile(
    rf"""\s*(?:
        (?P<parenthesis>[()])
        |(?P<minus>-)(?=[^\s)])
        |(?P<key>[A-Za-z_][\w.\[\]-]*)(?P<operator><=|>=|[:=~<>])(?:"(?P<quoted>[^"]*)"?|(?P<plain>{_PLAIN}))?
        |"(?P<phrase>[^"]*)"?
        |(?P<word>{_PLAIN})
    )""",
    re.VERBOSE,
)

# Halves of characters, which JSON may have and SQLite does not take.
_HALVES = re.compile("[\ud800-\udfff]")


class SearchError(Error, ValueError):
    """A search cannot be understood; the message names the place and what was expected there.

    Attributes:
        at: characters before the place.
    """

    def __init__(self, at: int, words: str) -> None:
        """With the place."""
        super().__init__(f"search, character {at + 1}: {words}")
        self.at = at


@dataclass(frozen=True)
class Term:
    """One condition.

    Attributes:
        operator: as above; ``has`` asks for any value.
        text: that is compared with, in lower case.
        key: of the metadata; empty for a word.
        span: of a date, in seconds since the Unix epoch: its begin, and its end, which is no part of it.
    """

    operator: Operator
    text: str = ""
    key: str = ""
    span: tuple[float, float] | None = None

    @property
    def number(self) -> float:
        """The text as a number."""
        return float(self.text)


@dataclass(frozen=True)
class Not:
    """The opposite of a condition."""

    of: Node


@dataclass(frozen=True)
class Both:
    """Conditions all of which must hold: without any, everything is found."""

    of: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Either:
    """Conditions one of which must hold."""

    of: tuple[Node, ...]


Node = Term | Not | Both | Either


def parsed(search: str, now_s: float | None = None) -> Node:
    """The condition that a search means.

    Args:
        search: as above.
        now_s: seconds since the Unix epoch that dates such as ``today`` count from; by default the clock's.

    >>> parsed('rtt>50 -"two words"').of[1]
    Not(of=Term(operator='word', text='two words', key='', span=None))

    Raises:
        SearchError: a term has no value, a comparison no number or date, a parenthesis no other.
    """
    return _Parser(_HALVES.sub("\ufffd", search), now_s).whole()


def terms(node: Node) -> Iterator[Term]:
    """All terms of a condition."""
    if isinstance(node, Term):
        yield node
    else:
        for one in (node.of,) if isinstance(node, Not) else node.of:
            yield from terms(one)


class _Parser:
    def __init__(self, search: str, now_s: float | None) -> None:
        self._now_s = now_s
        self._tokens = [*TOKEN.finditer(search.rstrip())]
        self._at = 0
        self._end = len(search.rstrip())
        if sum(token["parenthesis"] is None for token in self._tokens) > _MOST_TERMS:
            raise SearchError(self._place(_MOST_TERMS), f"expected at most {_MOST_TERMS} terms")

    def whole(self) -> Node:
        if not self._tokens:
            return Both()
        found = self._either(0)
        if self._at < len(self._tokens):
            raise SearchError(self._place(), 'found ")", but no "(" is open: remove it, or put it into quotation marks')
        return found

    def _place(self, number: int | None = None) -> int:
        """Characters before a token."""
        number = self._at if number is None else number
        if number >= len(self._tokens):
            return self._end
        token = self._tokens[number]
        return token.start() + len(token[0]) - len(token[0].lstrip())

    def _next(self) -> re.Match[str] | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _takes(self, word: str) -> bool:
        token = self._next()
        found = token is not None and (token["word"] or "").lower() == word
        self._at += found
        return found

    def _either(self, depth: int) -> Node:
        found = [self._both(depth)]
        while self._takes("or"):
            found.append(self._both(depth))
        return found[0] if len(found) == 1 else Either(tuple(found))

    def _both(self, depth: int) -> Node:
        found = [self._one(depth)]
        while not self._ends():
            self._takes("and")
            found.append(self._one(depth))
        return found[0] if len(found) == 1 else Both(tuple(found))

    def _ends(self) -> bool:
        token = self._next()
        return token is None or token["parenthesis"] == ")" or (token["word"] or "").lower() == "or"

    def _one(self, depth: int) -> Node:
        token, place = self._next(), self._place()
        if token is None or token["parenthesis"] == ")" or (token["word"] or "").lower() in ("or", "and"):
            found = "the end" if token is None else repr(token[0].strip())
            raise SearchError(place, f"expected a word, key:value or a parenthesis; found {found}")
        if depth > _DEEPEST:
            raise SearchError(place, f"expected at most {_DEEPEST} parentheses and minus signs within each other")
        self._at += 1
        following = self._next()
        if token["key"] and following is not None and following[0] == "(" and not token["plain"]:
            written = token[0].strip()
            raise SearchError(
                place + len(written),
                f"expected a value behind {written!r}; found '('. Write ({written}a or {written}b)",
            )
        if token["minus"]:
            return Not(self._one(depth + 1))
        if token["parenthesis"] == "(":
            return self._group(depth, place)
        return _term(token, place, self._now_s)

    def _group(self, depth: int, place: int) -> Node:
        found = self._either(depth + 1)
        if self._next() is None:
            raise SearchError(self._end, f'expected ")" for the "(" at character {place + 1}')
        self._at += 1
        return found


def _term(token: re.Match[str], place: int, now_s: float | None) -> Term:
    if not token["key"]:
        return Term("word", (token["phrase"] if token["phrase"] is not None else token["word"]).lower())
    key, text = token["key"].lower(), (token["quoted"] or token["plain"] or "").lower()
    written = token["operator"]
    operator = cast(Operator, ":" if written == "~" else written)
    behind = place + len(token["key"]) + len(written)
    if key in TIMES and text:
        found = span(text, now_s)
        if found is None:
            raise SearchError(
                behind, f"expected a date behind {written!r}, such as 2026-01-31, 2026-01 or -7d; found {text!r}"
            )
        return Term(operator, text, key, found)
    if operator == ":" and written == ":" and token["quoted"] is None and not text:
        return Term("has", "", key)
    if operator[0] in "<>":
        _require_number(text, key, written, behind)
    elif not text:
        raise SearchError(behind, f"expected a value behind {written!r}; {key}: finds any value, -{key}: none")
    return Term(operator, text, key)


def _require_number(text: str, key: str, operator: str, place: int) -> None:
    if re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?", text, re.ASCII):
        return
    expected = "a date, such as 2026-01-31" if key in TIMES else "a number without a unit, such as 50"
    raise SearchError(place, f"expected {expected}, behind {operator!r}; found {repr(text) if text else 'nothing'}")
