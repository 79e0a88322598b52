"""Quantities written for people: decimal units (1 kB is 1 000 bytes), three significant digits."""

from __future__ import annotations

from datetime import UTC, datetime

from whydrop.numbers import rate as rate

_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def significant(value: float, digits: int = 3) -> str:
    """``value`` with so many significant digits and no exponent; integers keep all their digits.

    >>> significant(9.9812), significant(0.01234), significant(1284.4), significant(0)
    ('9.98', '0.0123', '1284', '0')
    """
    if value == 0:
        return "0"
    # The exponent after rounding: 999.96 has that of 1000.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:.{max(0, digits - 1 - exponent)}f}"


def _scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    for scale, unit in scales:
        # 0.9995 so that 999 960 bytes read 1.00 MB and not 1000 kB.
        if abs(value) >= scale * 0.9995:
            return f"{significant(value / scale)} {unit}"
    smallest, unit = scales[-1]
    return f"{significant(value / smallest)} {unit}"


def size(count: float) -> str:
    """A size in bytes for people.

    >>> size(102_400), size(37)
    ('102 kB', '37 B')
    """
    return f"{count:.0f} B" if abs(count) < 999.5 else _scaled(count, _SIZES)


def duration(seconds: float) -> str:
    """A time in seconds for people.

    >>> duration(0.0401), duration(12.5), duration(0)
    ('40.1 ms', '12.5 s', '0 s')
    """
    return "0 s" if seconds == 0 else _scaled(seconds, _TIMES)


def clock(seconds: float) -> str:
    """The difference of two clocks, to the microsecond however large it is.

    >>> clock(3600.00219), clock(-0.00219)
    ('3600.002190 s', '−2.190 ms')
    >>> clock(0.0000042)
    '4.2 µs'
    """
    sign, size = "−" if seconds < 0 else "", abs(seconds)
    if size >= 1:
        return f"{sign}{size:.6f} s"
    return f"{sign}{size * 1e3:.3f} ms" if size >= 1e-3 else f"{sign}{size * 1e6:.1f} µs"


def count(number: float) -> str:
    """A number of things, in groups of three.

    >>> count(1284001)
    '1 284 001'
    """
    return f"{number:,.0f}".replace(",", " ")


def percent(part: float) -> str:
    """A share from 0 to 1 in per cent, never rounded up to 100 nor down to 0.

    >>> percent(0.9996), percent(1.0), percent(0.0001), percent(0.5)
    ('>99 %', '100 %', '<1 %', '50 %')
    """
    if 0 < part < 0.005:
        return "<1 %"
    if 0.995 <= part < 1:
        return ">99 %"
    return f"{part * 100:.0f} %"


def instant(seconds: float) -> str:
    """A time since the Unix epoch as UTC.

    >>> instant(0.25)
    '1970-01-01 00:00:00.250 UTC'
    """
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{seconds:.3f} s since 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC"
