"""Quantities written for people: decimal units (1 kB is 1 000 bytes), three significant digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from whydrop.explaining.document import Parameter
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


_PARAMETERS: dict[str, tuple[str, Callable[[float], str]]] = {
    "rate_bps": ("rate", rate),
    "peak_rate_bps": ("peak rate", rate),
    "drain_rate_bps": ("drain rate", rate),
    "burst_bytes": ("bucket (burst size)", size),
    "peak_burst_bytes": ("peak bucket", size),
    "limit_packets": ("queue limit", lambda value: f"{count(value)} packets"),
    "limit_bytes": ("queue limit", size),
    "mtu_bytes": ("path MTU", lambda value: f"{value:.0f} B"),
    "outage_s": ("outage", duration),
    "jitter_s": ("delay variation (10th to 90th percentile)", duration),
    "change_s": ("change of delay from packet to packet", duration),
    "batch_interval_s": ("time between batches", duration),
    "batch_packets": ("packets of a batch", count),
    "target_s": ("target delay", duration),
    "interval_s": ("control interval", duration),
    "threshold_s": ("lower threshold", duration),
    "loss_rate": ("loss rate", lambda value: f"{significant(value * 100)} %"),
    "loss_probability": ("loss probability", lambda value: f"{significant(value * 100)} %"),
    "window_bytes": ("window", size),
    "rtt_s": ("round-trip time", duration),
    "base_rtt_s": ("round-trip time without load", duration),
    "induced_delay_s": ("delay added by load", duration),
    "limited_share": ("share of time", percent),
    "fairness_index": ("Jain's index", significant),
}

_SUFFIXES: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("_bps", rate),
    ("_bytes", size),
    ("_packets", lambda value: f"{count(value)} packets"),
    ("_s", duration),
    ("_share", percent),
)


def parameter_words(name: str) -> tuple[str, Callable[[float], str]]:
    """The name of a parameter for people, and how its values are written.

    >>> label, write = parameter_words("drain_rate_bps")
    >>> label, write(60e6)
    ('drain rate', '60.0 Mbit/s')
    """
    if name in _PARAMETERS:
        return _PARAMETERS[name]
    for suffix, write in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " "), write
    return name.replace("_", " "), significant


def ordered(parameters: Mapping[str, Parameter]) -> list[tuple[str, Parameter]]:
    """The parameters as people read them: rates first, then sizes, then what this version does not know."""
    order = list(_PARAMETERS)
    return sorted(parameters.items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order))


def interval(name: str, parameter: Parameter) -> str:
    """The 95 % interval of a parameter.

    >>> interval("rate_bps", Parameter(9.98e6, 9.9e6, None))
    'at least 9.90 Mbit/s'
    >>> interval("rate_bps", Parameter(9.98e6, 9.9e6, 10.1e6))
    '9.90 to 10.1 Mbit/s'
    """
    _, write = parameter_words(name)
    if parameter.low is None and parameter.high is None:
        return "not bounded by this capture"
    if parameter.high is None:
        return f"at least {write(parameter.low)}" if parameter.low is not None else ""
    if parameter.low is None:
        return f"at most {write(parameter.high)}"
    low, high = write(parameter.low), write(parameter.high)
    unit = high.rpartition(" ")[2]
    if low.endswith(f" {unit}"):
        low = low.removesuffix(f" {unit}")
    return f"{low} to {high}"
