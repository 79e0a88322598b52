"""Quantities as people write them in test files: ``20 ms``, ``10 Mbit/s``, ``64 KiB``, ``EF``."""

from __future__ import annotations

import math
import re

from whydrop.runtime.user_files.spelling import suggestion

_TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATES = {"bit/s": 1.0, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9}
# The names that tc(8) and iperf users know.
_RATES |= {short: _RATES[name] for name in list(_RATES) for short in (name[:-2], name.replace("bit/s", "bps"))}
# As iperf3 has them: 10M is 10 Mbit/s.
_RATES |= {prefix: _RATES[f"{prefix}bit/s"] for prefix in "kmg"}
_SIZES = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZES |= {prefix: _SIZES[f"{prefix}b"] for prefix in "kmg"}

# RFC 2474 (class selectors), RFC 2597 (assured forwarding), RFC 3246 (EF), RFC 5865 (VA), RFC 8622 (LE).
CODE_POINTS = {f"CS{number}": number << 3 for number in range(8)}
CODE_POINTS |= {f"AF{level}{drop}": (level << 3) | (drop << 1) for level in range(1, 5) for drop in range(1, 4)}
# BK as in the test RRUL: the background class CS1.
CODE_POINTS |= {"EF": 46, "VA": 44, "LE": 1, "BE": 0, "DF": 0, "BK": 8}

_WRITTEN = re.compile(r"\s*([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([^\s0-9].*?)?\s*")


def seconds(value: object) -> float:
    """A span of time: a number of seconds, or a text with its unit.

    >>> seconds("20 ms"), seconds(5), seconds("2min"), seconds("2m")
    (0.02, 5.0, 120.0, 120.0)
    """
    return _quantity(value, _TIMES, "s", "a time such as 0.2, 20 ms or 1 min")


def rate_bps(value: object) -> float:
    """A rate in bit/s: a number, or a text with its unit.

    >>> rate_bps("10 Mbit/s"), rate_bps("10M"), rate_bps("1gbit"), rate_bps(64000)
    (10000000.0, 10000000.0, 1000000000.0, 64000.0)
    """
    return _quantity(value, _RATES, "bit/s", "a rate such as 10 Mbit/s")


def size_bytes(value: object) -> int:
    """A size in bytes: a whole number, or a text with its unit.

    >>> size_bytes("64 KiB"), size_bytes(1500)
    (65536, 1500)
    """
    found = _quantity(value, _SIZES, "b", "a size such as 1500 or 64 KiB")
    if not found.is_integer():
        raise ValueError(f"{value!r} is no whole number of bytes")
    return int(found)


def dscp(value: object) -> int:
    """A code point of the differentiated services field: 0 to 63, or its name, or ``tos 0xb8`` for the whole byte.

    >>> dscp("EF"), dscp("cs1"), dscp(10), dscp("tos 0xb8")
    (46, 8, 10, 46)
    """
    wanted = "expected 0 to 63, or a name such as EF, CS1, AF41"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is no code point; {wanted}")
    if isinstance(value, str):
        name = value.strip().upper()
        if name in CODE_POINTS:
            return CODE_POINTS[name]
        if name.startswith("TOS "):
            return _of_tos(name.removeprefix("TOS "))
        if not name.isdecimal():
            raise ValueError(f"{value!r} is no code point; {wanted}{suggestion(name, CODE_POINTS)}")
        value = int(name)
    if value != int(value) or not 0 <= value <= 63:
        raise ValueError(f"{value} is no code point; {wanted}; a whole TOS byte is written 'tos 0xb8'")
    return int(value)


def _of_tos(text: str) -> int:
    try:
        byte = int(text, 0)
    except ValueError:
        byte = -1
    if not 0 <= byte <= 255 or byte & 0b11:
        # The low bits belong to ECN (RFC 3168), which is asked for on its own.
        raise ValueError(f"{text.lower()!r} is no TOS byte; expected 0 to 255 with the two lowest bits clear")
    return byte >> 2


def _quantity(value: object, units: dict[str, float] | dict[str, int], plain: str, wanted: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        number, unit = float(value), plain
    elif isinstance(value, str) and (match := _WRITTEN.fullmatch(value)) is not None:
        number, unit = float(match[1]), (match[2] or plain).lower()
    else:
        raise ValueError(f"{value!r}: expected {wanted}")
    if unit not in units:
        raise ValueError(f"{value!r} has an unknown unit; expected {wanted}{suggestion(unit, units)}")
    # Through a text, so that 20 ms is 0.02 s and not the nearest product of two binary fractions.
    found = float(f"{number * units[unit]:.15g}")
    if not math.isfinite(found):
        raise ValueError(f"{value!r}: expected {wanted}")
    return found
