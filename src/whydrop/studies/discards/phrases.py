"""Numbers of the study as they stand in sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whydrop.text import quantities

# A list of more sites than this is cut, and says how many there are.
_MOST_NAMES = 6


def at_metros(metros: Sequence[str]) -> str:
    """Where, if anywhere is named.

    >>> at_metros(("dfw", "lga")), at_metros(())
    (' at dfw and lga', '')
    """
    return f" at {joined(metros)}" if metros else ""


def names(sites: Sequence[str | None]) -> str:
    """Sites, not all of many.

    >>> names(["dfw01"]), names([f"ams{n:02d}" for n in range(1, 10)])
    ('dfw01', 'ams01, ams02, ams03, ams04, ams05 and 4 more sites')
    """
    return some([site or "an unnamed site" for site in sites])


def some(things: Sequence[str], what: str = "sites") -> str:
    """A list of sites (or of other things), each named in it; of many only the first."""
    if len(things) <= _MOST_NAMES:
        return joined(things)
    return f"{', '.join(things[: _MOST_NAMES - 1])} and {len(things) - _MOST_NAMES + 1} more {what}"


def joined(words: Sequence[str]) -> str:
    """A list in a sentence."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"


def number(count: int, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> number(1, "site"), number(200, "day of a site", "days of sites")
    ('1 site', '200 days of sites')
    """
    return f"{quantities.count(count)} {one if count == 1 else many or one + 's'}"


def clients(count: int) -> str:
    """A number of clients."""
    return number(count, "client")


def factor(row: Mapping[str, Any]) -> str:
    """Discards after, in those before, with the interval; of a row of DISCARD_CHANGES."""
    if row["ratio"] is None:
        return ""
    if row["ratio"] == 0:
        return ": none any more"
    bounds = ""
    if row["ratio_low"] is not None:
        bounds = (
            f", 95 %: {quantities.significant(row['ratio_low'], 2)} to {quantities.significant(row['ratio_high'], 2)}"
        )
    return f" ({quantities.significant(row['ratio'], 2)} times as many{bounds})"


def percent_interval(row: Mapping[str, Any]) -> str:
    """The interval of a ratio of speeds; of a row of COMPARISONS."""
    if row["ratio_low"] is None:
        return ""
    return f"; 95 %: {faster(row['ratio_low'])} to {faster(row['ratio_high'])}"


def per_million(ratio: float) -> str:
    """A ratio of discards to packets.

    >>> per_million(0.000123), per_million(0.0), per_million(0.02)
    ('123 per million packets', 'none', '2 %')
    """
    if ratio >= 0.01:
        return percent(ratio)
    return f"{quantities.significant(ratio * 1e6)} per million packets" if ratio else "none"


def percent(share: float) -> str:
    """A share from 0 to 1, to two digits however small.

    >>> percent(0.0123), percent(0.5), percent(0.00004), percent(0.0)
    ('1.2 %', '50 %', '0.004 %', '0 %')
    """
    text = quantities.significant(share * 100, 3 if share >= 0.995 and share < 1 else 2)
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} %"


def faster(ratio: float) -> str:
    """A ratio of speeds after to before.

    >>> faster(1.234), faster(0.8), faster(1.0), faster(3.2)
    ('23 % faster', '20 % slower', 'unchanged', '3.2 times as fast')
    """
    if ratio >= 2:
        return f"{times(ratio)} as fast"
    by = round((ratio - 1) * 100, 1)
    if by == 0:
        return "unchanged"
    return f"{quantities.significant(abs(by), 2)} % {'faster' if by > 0 else 'slower'}"


def times(factor: float) -> str:
    """How often.

    >>> times(3.21), times(41.0)
    ('3.2 times', '41 times')
    """
    return f"{quantities.significant(factor, 2)} times"


def p_value(p: float | None) -> str:
    """A p-value, never as zero.

    >>> p_value(0.034), p_value(1e-9), p_value(None)
    ('0.034', '<0.0001', '-')
    """
    if p is None:
        return "-"
    return "<0.0001" if p < 0.0001 else quantities.significant(p, 2)
