"""JSON documents that may be damaged: as much as can be read of them."""

from __future__ import annotations

import json
from typing import Any

_MOST_TEXT = 256
# Results are some 100 kB, and at most 400 measurements of 1 kB. As Python's objects, JSON is ten times its text.
MOST_BYTES = 4 << 20
_CLOSING = {"{": "}", "[": "]"}


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
    cut = depth = 0
    in_string = escaped = False
    for index, char in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "{[":
            open_at.append(_CLOSING[char])
            list_depth = list_depth or (len(open_at) if char == "[" else 0)
            # Whole as far as it goes, but an object's value: closed at once, it is an empty one.
            end = index + 1
        elif char in "}]":
            if not open_at or open_at[-1] != char:
                break
            open_at.pop()
            list_depth = list_depth if list_depth <= len(open_at) else 0
            end = index + 1
        elif char == ",":
            end = index
        else:
            continue
        if not list_depth or len(open_at) == list_depth:
            cut, depth = end, len(open_at)
    if not cut:
        return None
    try:
        # What was open at the cut is still: whatever closes it makes a new cut.
        return json.loads(text[:cut] + "".join(reversed(open_at[:depth])))
    except (ValueError, RecursionError):
        return None
