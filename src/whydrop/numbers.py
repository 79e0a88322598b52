"""Numbers as a sentence has them: three significant digits and a unit, in SI's groups of three that no line breaks."""

from __future__ import annotations

import math

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# Never broken at the end of a line.
_NO_BREAK = "\u00a0"

_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
_TIMES = ((1.0, "s"), (1e-3, "ms"))


def rate(bps: float) -> str:
    """A rate in bit/s.

    >>> rate(9_983_000), rate(999_600), rate(280e6)
    ('9.98 Mbit/s', '1.00 Mbit/s', '280 Mbit/s')
    """
    return _scaled(bps, _RATES, 1.0, "bit/s")


def size(count: float) -> str:
    """A size in bytes, decimal multiples.

    >>> size(51_200), size(800)
    ('51.2 kB', '800 bytes')
    """
    return _scaled(count, _SIZES, 1.0, "bytes")


def duration(seconds: float) -> str:
    """A time in seconds.

    >>> duration(0.01854), duration(0.000004), duration(2.5), duration(0)
    ('18.5 ms', '4 µs', '2.50 s', '0 ms')
    """
    text = _scaled(seconds, _TIMES, 1e-6, "µs")
    return "0 ms" if text == "0 µs" else text


def percent(share: float) -> str:
    """A share from 0 to 1 in per cent, 0 or 100 only where it is.

    >>> percent(1), percent(0.9999), percent(0.00001), percent(0), percent(0.42), percent(0.035)
    ('100 %', '99.9 %', '0.01 %', '0 %', '42 %', '3.5 %')
    """
    part = share * 100.0
    if 99 < part < 100:
        text = f"{min(part, 99.9):.1f}"
    elif 0 < part < 1:
        text = f"{max(part, 0.01):.2f}"
    else:
        text = f"{part:.1f}" if part < 10 else f"{part:.0f}"
    return f"{text.removesuffix('.0')} %"


def count(number: float) -> str:
    """A number of things, in groups of three.

    >>> count(7), count(1_000_000) == "1\u00a0000\u00a0000"
    ('7', True)
    """
    return f"{number:,.0f}".replace(",", _NO_BREAK)


def plural(number: float, noun: str) -> str:
    """So many things.

    >>> plural(1, "packet"), plural(2, "packet"), plural(2, "echo")
    ('1 packet', '2 packets', '2 echoes')
    """
    ending = "" if number == 1 else "es" if noun.endswith(("o", "s")) else "s"
    return f"{count(number)} {noun}{ending}"


_BY_SUFFIX: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_bps", rate),
    ("_bytes", size),
    ("_share", percent),
    ("_s", duration),
)


def written(name: str, value: Any) -> str:
    """A value by the unit in its name; a name or a number of things without one.

    >>> written("rate_bps", 2e6), written("lost", 12), written("rate_bps", None)
    ('2.00 Mbit/s', '12', 'unknown')
    """
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    for suffix, write in _BY_SUFFIX:
        if name.endswith(suffix):
            return write(value)
    return count(value)


def _scaled(value: float, scales: tuple[tuple[float, str], ...], smallest: float, unit: str) -> str:
    for scale, name in scales:
        # The rounding must not carry a value into the next unit: 999.6 kbit/s is 1.00 Mbit/s.
        if abs(value) >= 0.9995 * scale:
            scaled = value / scale
            decimals = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
            return f"{scaled:.{decimals}f} {name}"
    return f"{math.floor(value / smallest + 0.5)} {unit}"
