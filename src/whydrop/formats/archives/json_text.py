"""JSON documents that may be damaged: as much as can be read of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_MOST_TEXT = 256
# Results are some 100 kB, and at most 400 measurements of 1 kB. As Python's objects, JSON is ten times its text.
MOST_BYTES = 4 << 20
_CLOSING = {"{": "}", "[": "]"}
# Strings, also one that is cut off, and what stands between values.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[{}\[\],]', re.DOTALL)


def load(content: bytes) -> tuple[Any, str | None]:
    """A JSON document and None; of a damaged one what is whole before the damage, and where that is.

    >>> load(b'{"a": [1, 2], "b": [3, 4, {"c": 5, "d": ')
    ({'a': [1, 2], 'b': [3, 4]}, 'no JSON from offset 40 on: Expecting value')

    What is in a list is whole or not there: half a measurement has no reliable time or content. A damaged
    document without a usable part gives None.
    """
    text = content[:MOST_BYTES].decode(errors="replace")
    try:
        document = json.loads(text)
        more = f"more than {MOST_BYTES >> 20} MiB of JSON: the rest was not read"
        return document, more if len(content) > MOST_BYTES else None
    except json.JSONDecodeError as reason:
        damage = f"no JSON from offset {len(text[: reason.pos].encode())} on: {reason.msg}"
        return _before(text[: reason.pos]), damage
    except (RecursionError, ValueError) as reason:  # ValueError: a number of thousands of digits
        return None, f"no JSON that can be read: {' '.join(str(reason).split())[:100]}"


def text(value: object) -> str | None:
    """A text of JSON, if it is one and not longer than any address or UUID."""
    if not isinstance(value, str) or not value:
        return None
    return value[:_MOST_TEXT].encode(errors="backslashreplace").decode()  # JSON may escape half a character


def _before(text: str) -> Any:
    """The whole part of a document that is cut off. Lists keep whole elements only."""
    try:
        return json.loads(closed(text, lambda open_at: "]" not in open_at[:-1]))
    except (ValueError, RecursionError):
        return None


def closed(text: str, is_whole: Callable[[list[str]], bool]) -> str:
    """The beginning of a document, cut behind its last whole value, and closed; empty where there is none.

    Args:
        text: the document, as far as it goes.
        is_whole: decides whether a value in the objects and lists that are open is whole, by their closing brackets.
    """
    open_at: list[str] = []
    found = 0, ""
    for token in _TOKEN.finditer(text):
        sign, end = token[0], token.end()
        if sign in "{[":
            # Whole as far as it goes, but an object's value: closed at once, it is an empty one.
            open_at.append(_CLOSING[sign])
        elif sign in "}]":
            if not open_at or open_at.pop() != sign:
                break
        elif sign == ",":
            end = token.start()
        else:
            continue
        if is_whole(open_at):
            # What is open at the cut: whatever closes it makes a new cut.
            found = end, "".join(reversed(open_at))
    cut, closing = found
    return text[:cut] + closing
