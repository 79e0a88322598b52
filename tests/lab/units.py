"""Rates and times as ``tc`` writes them, as numbers."""

from __future__ import annotations

import re

# tc(8): decimal prefixes of bits per second, and of seconds.
_RATES = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


def _quantity(text: str, units: dict[str, float], example: str) -> float:
    match = re.fullmatch(r"([0-9.]+)([a-z]+)", text)
    if not match or match[2] not in units:
        raise ValueError(f"{text!r} is not understood; expected a number and one of {', '.join(units)}: {example}")
    return float(match[1]) * units[match[2]]


def bits_per_second(text: str) -> float:
    """``10mbit`` as 1e7."""
    return _quantity(text, _RATES, "10mbit")


def seconds(text: str) -> float:
    """``25ms`` as 0.025."""
    return _quantity(text, _TIMES, "25ms")
