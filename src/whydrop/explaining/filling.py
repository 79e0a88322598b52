"""Templates of phrases: ``{rate_bps}`` is a value by its unit, ``{lost|packet}`` a number of things."""

from __future__ import annotations

from whydrop.text import quantities

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    # A template, or what chooses one by the values.
    Phrase = str | Callable[[Mapping[str, Any]], str]


def fill(phrase: Phrase, values: Mapping[str, Any]) -> str:
    """The phrase with its numbers.

    >>> fill("{lost|packet} at {rate_bps}", {"lost": 1, "rate_bps": 1e6})
    '1 packet at 1.00 Mbit/s'
    """

    # Importing re would take a fifth of the start of the command line.
    before, *parts = (phrase if isinstance(phrase, str) else phrase(values)).split("{")
    filled = [before]
    for part in parts:
        slot, after = part.split("}", 1)
        name, _, noun = slot.partition("|")
        value = values.get(name)
        filled += [
            quantities.plural(value, noun) if noun and value is not None else quantities.written(name, value),
            after,
        ]
    return "".join(filled)
