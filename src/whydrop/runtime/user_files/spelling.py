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


def suggestion(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """The end of a message about an unknown name: the nearest one that is known, or what is said without one.

    >>> suggestion("lenght_s", ["length_s"]), suggestion("x", [], "there are none")
    ('; did you mean length_s?', '; there are none')
    """
    like = nearest(name, known)
    return f"; did you mean {like}?" if like else f"; {otherwise}" if otherwise else ""
