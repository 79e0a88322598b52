"""Suggestions while a search is typed: keys of the metadata, and values of them, from the index."""

from __future__ import annotations

import re
from dataclasses import dataclass

from whydrop.web.library.conditions import OWN
from whydrop.web.library.library import Library
from whydrop.web.library.query import TIMES, TOKEN

_MOST = 12
# Those of a numeric key say little: all are different.
_PLAIN = re.compile(r'[^\s"()]+')


@dataclass(frozen=True)
class Suggested:
    """Texts that may stand at a place of a search.

    Attributes:
        begin: the first character that a suggestion replaces.
        end: the one behind the last.
        options: texts to put there, each with the number of its entries, or ``None`` where it is not known.
    """

    begin: int
    end: int
    options: tuple[tuple[str, int | None], ...]


def suggestions(library: Library, search: str, at: int) -> Suggested:
    """Texts that may stand where the cursor is.

    Args:
        library: its index is asked.
        search: as typed so far.
        at: characters before the cursor.
    """
    token = next((one for one in TOKEN.finditer(search) if one.start() < at <= one.end()), None)
    if token is None:
        return Suggested(at, at, ())
    if token["key"]:
        begin = token.end("operator")
        text = search[begin:at].strip('"').lower()
        if at < begin or token["operator"] not in (":", "=", "~"):
            return Suggested(at, at, ())
        found = _values(library, token["key"].lower(), text)
        return Suggested(begin, token.end(), tuple((_quoted(value), count) for value, count in found))
    if token["word"] is None:
        return Suggested(at, at, ())
    begin = token.start("word")
    return Suggested(begin, token.end(), tuple(_keys(library, search[begin:at].lower())))


def _values(library: Library, key: str, text: str) -> list[tuple[str, int | None]]:
    if key in TIMES:
        dates = ("today", "yesterday", "-7d", "-4w")
        return [(date, None) for date in dates if date.startswith(text)]
    return list(library.values(key, text, _MOST).items())


def _quoted(value: str) -> str:
    # A quotation mark cannot be quoted: what is before it is enough to find the value.
    plain = value.partition('"')[0]
    return plain if _PLAIN.fullmatch(plain) and plain == value else f'"{plain}"'


def _keys(library: Library, text: str) -> list[tuple[str, int | None]]:
    """Keys with a part that begins so, those that begin so first; as short as they are unambiguous."""
    known: dict[str, int | None] = {**dict.fromkeys(OWN), **_short(library.keys())}
    found = [key for key in known if any(part.lower().startswith(text) for part in (key, *key.split(".")))]
    found.sort(key=lambda key: (not key.lower().startswith(text), key not in OWN, -(known[key] or 0), len(key)))
    return [(f"{key}:", known[key]) for key in found[:_MOST]]


def _short(keys: dict[str, int]) -> dict[str, int]:
    """Keys by their last part where only one of them has it."""
    ends: dict[str, list[str]] = {}
    for key in keys:
        ends.setdefault(key.rpartition(".")[2].lower(), []).append(key)
    return {
        end if len(ends[end]) == 1 and end not in OWN else key: count
        for key, count in keys.items()
        if (end := key.rpartition(".")[2].lower()) is not None
    }
