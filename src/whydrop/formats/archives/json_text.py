"""JSON documents that may be damaged: as much as can be read of them."""

from __future__ import annotations

import json
import re
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
    """The beginning of a document, cut behind its last whole value, and closed. Lists keep whole elements only."""
    open_at: list[str] = []
    list_depth = 0  # of the outermost list that is open, with what it is in; 0: none
    cut, closing = 0, ""
    for token in _TOKEN.finditer(text):
        sign, end = token[0], token.end()
        if sign in "{[":
            # Whole as far as it goes, but an object's value: closed at once, it is an empty one.
            open_at.append(_CLOSING[sign])
            list_depth = list_depth or (len(open_at) if sign == "[" else 0)
        elif sign in "}]":
            if not open_at or open_at.pop() != sign:
                break
            list_depth = list_depth if list_depth <= len(open_at) else 0
        elif sign == ",":
            end = token.start()
        else:
            continue
        if not list_depth or len(open_at) == list_depth:
            # What is open at the cut: whatever closes it makes a new cut.
            cut, closing = end, "".join(reversed(open_at))
    try:
        return json.loads(text[:cut] + closing) if cut else None
    except (ValueError, RecursionError):
        return None
