"""Quantities for people, as docs/style.md ("Numbers") writes them.

Three significant digits, decimal units (1 kB is 1 000 bytes), a no-break space before the unit and between thousands.
"""

from __future__ import annotations

import math

# As type checkers know it: importing collections.abc would take a tenth of the start of the command line.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Writer = Callable[[float], str]

NO_BREAK = "\u00a0"
MINUS = "\u2212"

_RATES = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def rate(bps: float) -> str:
    """A rate in bit/s.

    >>> rate(9_983_000).replace(NO_BREAK, " "), rate(999_600).replace(NO_BREAK, " ")
    ('9.98 Mbit/s', '1.00 Mbit/s')
    """
    return _scaled(bps, _RATES)


def size(count: float) -> str:
    """A size in bytes, rounded; below a kilobyte whole bytes.

    >>> size(51_200).replace(NO_BREAK, " "), size(800).replace(NO_BREAK, " ")
    ('51.2 kB', '800 B')
    """
    return with_unit(f"{count:.0f}", "B") if abs(count) < 999.5 else _scaled(count, _SIZES)


def exact_size(count: float) -> str:
    """A size in bytes with all its digits: of a packet, an MTU, a setting.

    >>> exact_size(1500).replace(NO_BREAK, " ")
    '1 500 B'
    """
    return with_unit(_grouped(f"{count:.0f}"), "B")


def duration(seconds: float) -> str:
    """A time in seconds.

    >>> [duration(seconds).replace(NO_BREAK, " ") for seconds in (0.01854, 2.5, 0)]
    ['18.5 ms', '2.50 s', '0 s']
    """
    return with_unit("0", "s") if seconds == 0 else _scaled(seconds, _TIMES)


def long_duration(seconds: float) -> str:
    """A time of seconds to days, in its two largest units.

    >>> [long_duration(seconds).replace(NO_BREAK, " ") for seconds in (75, 4000, 8.2, 7200)]
    ['1 min 15 s', '1 h 6 min', '8 s', '2 h']
    """
    whole = round(seconds)
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    at = next((place for place, (size, _) in enumerate(units) if whole >= size), len(units) - 1)
    parts = [with_unit(str(whole // units[at][0]), units[at][1])]
    if at + 1 < len(units) and (rest := whole % units[at][0] // units[at + 1][0]):
        parts.append(with_unit(str(rest), units[at + 1][1]))
    return " ".join(parts)


def clock(seconds: float) -> str:
    """The difference of two clocks, to the microsecond however large it is.

    >>> clock(3600.00219).replace(NO_BREAK, " "), clock(-0.00219).replace(NO_BREAK, " ")
    ('3 600.002190 s', '−2.190 ms')
    """
    sign, size = MINUS if seconds < 0 else "", abs(seconds)
    if size >= 1:
        return sign + with_unit(_grouped(f"{size:.6f}"), "s")
    return sign + (with_unit(f"{size * 1e3:.3f}", "ms") if size >= 1e-3 else with_unit(f"{size * 1e6:.1f}", "µs"))


def percent(part: float) -> str:
    """A share from 0 to 1 in per cent, 0 or 100 only if it is none or all.

    >>> [percent(part).replace(NO_BREAK, " ") for part in (1, 0.9996, 0.42, 0.0351, 0.00001, 0)]
    ['100 %', '> 99 %', '42 %', '3.5 %', '< 0.01 %', '0 %']
    """
    if 0.995 <= part < 1:
        return with_unit(f">{NO_BREAK}99", "%")
    if 0 < abs(part) < 0.00005:
        return with_unit(f"<{NO_BREAK}0.01", "%")
    per_cent = 100 * part
    if abs(per_cent) >= 9.95 or part == 0:
        return with_unit(_grouped(f"{per_cent:.0f}"), "%")
    return with_unit(f"{per_cent:.{1 if abs(per_cent) >= 0.995 else 2}f}".removesuffix(".0"), "%")


def share(part: float) -> str:
    """A share from 0 to 1 as a sentence has it: "all", "none", or per cent.

    >>> share(1), share(0), share(0.42).replace(NO_BREAK, " ")
    ('all', 'none', '42 %')
    """
    return "all" if part == 1 else "none" if part == 0 else percent(part)


def p_value(p: float | None) -> str:
    """A p-value, to two digits and never as zero.

    >>> p_value(0.0123), p_value(0.7654), p_value(1e-9).replace(NO_BREAK, " "), p_value(None)
    ('0.012', '0.77', '< 0.0001', 'unknown')
    """
    if p is None or p != p:
        return "unknown"
    return f"<{NO_BREAK}0.0001" if p < 0.0001 else significant(p, 2)


def count(number: float) -> str:
    """A number of things, in groups of three digits.

    >>> count(1284001).replace(NO_BREAK, " ")
    '1 284 001'
    """
    return _grouped(f"{number:.0f}")


def plural(number: float, noun: str, many: str | None = None) -> str:
    """A number of things with their name; ``many`` is the plural where it is no regular one.

    >>> plural(1, "packet"), plural(0, "packet"), plural(2, "echo")
    ('1 packet', '0 packets', '2 echoes')
    """
    return f"{count(number)} {noun if number == 1 else many or plural_of(noun)}"


def plural_of(noun: str) -> str:
    """The plural of a noun; of the first word where "of" or a bracket follows it.

    >>> plural_of("copy"), plural_of("loss"), plural_of("round trip"), plural_of("mark (ECN)")
    ('copies', 'losses', 'round trips', 'marks (ECN)')
    """
    first, space, rest = noun.partition(" ")
    if rest.startswith(("of ", "(")):
        return plural_of(first) + space + rest
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("o", "s", "x", "ch", "sh")) else f"{noun}s"


def times(nats: float) -> str:
    """The factor of a log-likelihood ratio. A model is never trusted for more than a factor of a million.

    >>> times(2.9), times(9.0), times(500.0)
    ('18 times', 'more than 1\xa0000 times', 'more than a million times')
    """
    if nats > math.log(1e6):
        return "more than a million times"
    if nats > math.log(1e3):
        return f"more than 1{NO_BREAK}000 times"
    return f"{significant(math.exp(nats), 2)} times"


def signed(write: Writer, value: float) -> str:
    """A difference, with its sign.

    >>> signed(duration, -0.002).replace(NO_BREAK, " ")
    '−2.00 ms'
    """
    return (MINUS if value < 0 else "+") + write(abs(value))


def interval(write: Writer, low: float, high: float) -> str:
    """From low to high, with a unit that both have named once; one value where both read alike.

    >>> interval(rate, 19.8e6, 20.1e6).replace(NO_BREAK, " "), interval(size, 998, 1002).replace(NO_BREAK, " ")
    ('19.8 to 20.1 Mbit/s', '998 B to 1.00 kB')
    """
    least, most = write(low), write(high)
    if least == most:
        return most
    unit = most.split()[-1]
    if not unit[0].isdigit() and least.endswith(unit):
        least = least.removesuffix(unit)[:-1]
    return f"{least} to {most}"


def instant(seconds: float) -> str:
    """A time since the Unix epoch as UTC.

    >>> instant(0.25)
    '1970-01-01 00:00:00.250 UTC'
    """
    from datetime import UTC, datetime

    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return f"{with_unit(f'{seconds:.3f}', 's')} since 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC"


def significant(value: float, digits: int = 3) -> str:
    """``value`` with so many significant digits and no exponent; integers keep all their digits.

    >>> significant(9.9812), significant(0.01234), significant(1284.4).replace(NO_BREAK, " "), significant(0)
    ('9.98', '0.0123', '1 284', '0')
    """
    if value == 0:
        return "0"
    # The exponent after rounding: 999.96 has that of 1000.
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return _grouped(f"{value:.{max(0, digits - 1 - exponent)}f}")


def decimal(value: float) -> str:
    """A number with one decimal."""
    return f"{value:.1f}"


def spaced(code: str) -> str:
    """A code as words."""
    return code.replace("-", " ")


_BY_SUFFIX: tuple[tuple[str, Writer], ...] = (
    ("_bps", rate),
    ("_bytes", size),
    ("_share", percent),
    ("_nats", times),
    ("_s", duration),
)


def by_name(name: str) -> Writer | None:
    """The function that writes a value with the unit in its name, ``None`` for a name without one.

    >>> by_name("drain_rate_bps") is rate, by_name("lost")
    (True, None)
    """
    return next((write for suffix, write in _BY_SUFFIX if name.endswith(suffix)), None)


def written(name: str, value: Any) -> str:
    """A value by the unit in its name; a name or a number of things without one.

    >>> written("rate_bps", 2e6).replace(NO_BREAK, " "), written("lost", 12), written("rate_bps", None)
    ('2.00 Mbit/s', '12', 'unknown')
    """
    if value is None:
        return "unknown"
    return value if isinstance(value, str) else (by_name(name) or count)(value)


def with_unit(number: str, unit: str) -> str:
    """A number and its unit, which no line break separates."""
    return f"{number}{NO_BREAK}{unit}"


def _grouped(digits: str) -> str:
    """The digits of a number in groups of three, from four on."""
    whole, point, decimals = digits.partition(".")
    if not whole.lstrip("-").isdigit():
        return digits
    return f"{int(whole):,}".replace(",", NO_BREAK) + point + decimals if len(whole) > 3 else digits


def _scaled(value: float, scales: tuple[tuple[float, str], ...]) -> str:
    if not math.isfinite(value):
        return with_unit("∞" if value > 0 else str(value), scales[0][1])
    for scale, unit in scales:
        # The rounding must not carry a value into the next unit: 999.6 kbit/s is 1.00 Mbit/s.
        if abs(value) >= 0.9995 * scale:
            return with_unit(significant(value / scale), unit)
    smallest, unit = scales[-1]
    return with_unit(significant(value / smallest), unit)
