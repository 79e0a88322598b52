"""Values of requests that every part of the program can hold: finite, not deep, of valid text."""

from __future__ import annotations

import math
from typing import Any

# No argument of the API is nested deeper than a few levels; what walks values calls itself for each.
_DEEPEST = 20
# SQLite and Polars hold integers of 64 bits.
_GREATEST = (1 << 63) - 1


def unfit(value: Any, depth: int = 0) -> str:
    """Words for what is wrong with a value of JSON, or with something in it; empty if nothing is.

    >>> unfit({"a": [1, 2.5, None]}), unfit([float("nan")]), unfit(1 << 64)
    ('', 'a number is not finite', 'an integer is beyond 64 bits')
    """
    if depth > _DEEPEST:
        return f"values are nested deeper than {_DEEPEST} levels"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "a number is not finite"
    if isinstance(value, int):
        return "" if -_GREATEST <= value <= _GREATEST else "an integer is beyond 64 bits"
    if isinstance(value, str):
        return _unfit_text(value)
    inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next(filter(None, (unfit(one, depth + 1) for one in inner)), "")


def _unfit_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a text has half of a surrogate pair, which is no character"
    return "a text has a NUL character" if "\0" in text else ""
