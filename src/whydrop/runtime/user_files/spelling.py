"""Suggestions for a name that a user misspelled."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` is most like, if any is close.

    >>> nearest("lenght_s", ["length_s", "delay_s"])
    'length_s'
    """
    found = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None
