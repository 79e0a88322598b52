"""Dates of searches: days, months, years and ages, in UTC."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

_DATE = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d)(?:-(?P<day>\d\d)"
    r"(?:[t ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d))?)?)?)?z?",
    re.ASCII,
)
_AGE = re.compile(r"-(?P<count>\d{1,6})(?P<unit>[hdw])", re.ASCII)
_UNITS_S = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


def span(text: str, now_s: float | None = None) -> tuple[float, float] | None:
    """The time that a date covers, in seconds since the Unix epoch: from its begin to just before its end.

    ``2026``, ``2026-01``, ``2026-01-31``, ``2026-01-31T10:30`` cover a year, a month, a day and a minute; ``today`` and
    ``yesterday`` a day; ``-7d`` (``h`` hours, ``d`` days, ``w`` weeks ago) is a moment. ``None`` if it is no date.

    >>> span("1970-01"), span("-1d", now_s=86_400.0), span("soon")
    ((0.0, 2678400.0), (0.0, 0.0), None)
    """
    now_s = time.time() if now_s is None else now_s
    age = _AGE.fullmatch(text)
    if age:
        moment_s = now_s - int(age["count"]) * _UNITS_S[age["unit"]]
        return moment_s, moment_s
    if text in ("today", "yesterday"):
        begin_s = now_s // 86_400 * 86_400 - (86_400 if text == "yesterday" else 0)
        return begin_s, begin_s + 86_400
    found = _DATE.fullmatch(text)
    if not found:
        return None
    try:
        begin, end = _ends({name: int(value) for name, value in found.groupdict().items() if value is not None})
    except (ValueError, OverflowError):
        return None
    return begin.timestamp(), end.timestamp()


def _ends(parts: dict[str, int]) -> tuple[datetime, datetime]:
    begin = datetime(
        parts["year"], parts.get("month", 1), parts.get("day", 1), parts.get("hour", 0), parts.get("minute", 0),
        parts.get("second", 0), tzinfo=UTC,
    )  # fmt: skip
    if "second" in parts:
        return begin, begin + timedelta(seconds=1)
    if "minute" in parts:
        return begin, begin + timedelta(minutes=1)
    if "day" in parts:
        return begin, begin + timedelta(days=1)
    if "month" in parts:
        return begin, begin.replace(year=begin.year + begin.month // 12, month=begin.month % 12 + 1)
    return begin, begin.replace(year=begin.year + 1)
