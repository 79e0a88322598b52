"""Templates of phrases: ``{rate_bps}`` is a value by its unit, ``{lost|packet}`` a number of things."""

from __future__ import annotations

import re

from whydrop.explain import numbers

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    # A template, or what chooses one by the values.
    Phrase = str | Callable[[Mapping[str, Any]], str]

_SLOT = re.compile(r"\{(\w+)(?:\|([^}]*))?\}")


def fill(phrase: Phrase, values: Mapping[str, Any]) -> str:
    """The phrase with its numbers.

    >>> fill("{lost|packet} at {rate_bps}", {"lost": 1, "rate_bps": 1e6})
    '1 packet at 1.00 Mbit/s'
    """

    def slot(found: re.Match[str]) -> str:
        name, noun = found.groups()
        value = values.get(name)
        return numbers.plural(value, noun) if noun and value is not None else numbers.written(name, value)

    return _SLOT.sub(slot, phrase if isinstance(phrase, str) else phrase(values))
