"""Answers that fit: long lists are cut, and each says how much it left out."""

from __future__ import annotations

import json
from typing import Any

# Characters of JSON: some ten thousand tokens of a language model.
MOST_CHARACTERS = 40_000
_ITEMS = (200, 100, 50, 20, 10, 5, 2, 1)
_MOST_TEXT = 2_000


def bounded(value: Any, most_characters: int = MOST_CHARACTERS) -> Any:
    """The value with lists and texts short enough that its JSON has no more than ``most_characters``.

    A list that is cut ends with ``{"left_out": n}``. Where even lists of one are too long, only the keys remain.
    """
    for items in _ITEMS:
        cut = _cut(value, items)
        if len(json.dumps(cut, default=str)) <= most_characters:
            return cut
    return {"left_out": "the answer is too long even with lists of one entry; ask for a part of it"}


def _cut(value: Any, items: int) -> Any:
    if isinstance(value, dict):
        return {key: _cut(one, items) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        kept = [_cut(one, items) for one in value[:items]]
        return [*kept, {"left_out": len(value) - items}] if len(value) > items else kept
    if isinstance(value, str) and len(value) > _MOST_TEXT:
        return f"{value[:_MOST_TEXT]} ... ({len(value) - _MOST_TEXT} characters left out)"
    return value
