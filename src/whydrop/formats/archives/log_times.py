"""When it was, as people have ``date`` write it between the lines of a log."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from whydrop.formats.archives.names import rfc3339_ns

# date +%s.%N, and as Flent's ss_iterate has it. Before 2001 there were nine digits.
_SINCE_EPOCH = re.compile(r"(?:Time: )?(\d{9,10})(?:[.,](\d{1,9}))?")
# date -Is, -Ins, --rfc-3339, and +'%F %T.%N'.
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?\s?([Zz]|[+-]\d\d:?\d\d)?(?: UTC)?")
# date, in the C locale and in that of the United States.
_PLAIN = re.compile(
    r"[A-Z][a-z]{2} +(?:(?P<month>[A-Z][a-z]{2}) +(?P<day>\d\d?)|(?P<day2>\d\d?) +(?P<month2>[A-Z][a-z]{2})) +"
    r"(?P<clock>\d\d?:\d\d:\d\d)(?P<half> [AP]M)? +(?P<zone>[A-Z]{1,5}|[+-]\d\d) +(?P<year>\d{4})"
)
_UTC = ("UTC", "GMT", "Z")

_HOUR_NS = 3600 * 10**9
# Summer time and the time that it replaces, by the names that `date` has for them.
_SUMMER = {
    "CEST": ("CET",), "EEST": ("EET",), "WEST": ("WET",), "MEST": ("MET",), "BST": ("GMT",), "IST": ("GMT",),
    "EDT": ("EST",), "CDT": ("CST",), "MDT": ("MST",), "PDT": ("PST",), "AKDT": ("AKST",), "HDT": ("HST",),
    "ADT": ("AST",), "NDT": ("NST",), "AEDT": ("AEST",), "ACDT": ("ACST",), "NZDT": ("NZST",), "IDT": ("IST",),
}  # fmt: skip
# A log that names no zone is believed to have changed its clock only where it goes on within this time.
_NEXT_LINE_NS = 300 * 10**9


class LocalTimes:
    """The local times of a log, in order, made to go on across the beginning and the end of summer time.

    Attributes:
        changes: how often summer time began or ended.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._shift_ns = 0
        self._last: tuple[int, str] | None = None

    def going_on(self, time_ns: int, zone: str | None) -> int:
        """A time of `line_ns`, in the zone in which the log began.

        >>> log = LocalTimes()
        >>> [log.going_on(hour * _HOUR_NS, zone) // _HOUR_NS for hour, zone in ((2, "CEST"), (2, "CET"), (3, "CET"))]
        [2, 3, 4]
        """
        # UTC is what British summer time ends in, and does not change by itself.
        named = "GMT" if zone is None else zone
        if self._last is not None and {named, self._last[1]} != {"GMT"}:
            change_ns = _change_ns(self._last[1], named, time_ns - self._last[0])
            self.changes += change_ns != 0
            self._shift_ns += change_ns
        self._last = time_ns, named
        return time_ns + self._shift_ns


def _change_ns(before: str, now: str, step_ns: int) -> int:
    """By how much the clock was set back between two lines; negative where it was set forward."""
    if before in _SUMMER.get(now, ()):
        return -_HOUR_NS
    if now in _SUMMER.get(before, ()):
        return _HOUR_NS
    # Without the names of both: an hour back, but for the time between the lines, is no pause of the log's.
    if -_HOUR_NS <= step_ns < 0 and step_ns <= _NEXT_LINE_NS - _HOUR_NS:
        return _HOUR_NS
    return -_HOUR_NS if before != now and 0 <= step_ns - _HOUR_NS < _NEXT_LINE_NS else 0


def line_ns(line: str) -> tuple[int, str | None] | None:
    """The time that a line consists of, in nanoseconds since the epoch; None where it is something else.

    Second is the name of a time zone without a known offset from UTC, if there is one: the time is then
    taken for UTC. It is empty where a local time does not even name its zone.

    >>> line_ns("1700000000.25"), line_ns("Tue Nov 14 22:13:20 CET 2023")
    ((1700000000250000000, None), (1700000000000000000, 'CET'))
    >>> line_ns("2023-11-14T23:13:20,5+01:00"), line_ns("ESTAB 0 0")
    ((1700000000500000000, None), None)
    """
    line = line.strip()
    if found := _SINCE_EPOCH.fullmatch(line):
        return int(found[1]) * 10**9 + int((found[2] or "").ljust(9, "0")), None
    if found := _ISO.fullmatch(line):
        day, clock, fraction, offset = found.groups()
        zone = "" if offset is None and not line.endswith("UTC") else None
        offset = "Z" if offset is None else offset if ":" in offset or offset in "Zz" else f"{offset[:3]}:{offset[3:]}"
        moment = rfc3339_ns(f"{day}T{clock}.{fraction or '0'}{offset}")
        return None if moment is None else (moment, zone)
    if found := _PLAIN.fullmatch(line):
        return _plain(found)
    return None


def _plain(found: re.Match[str]) -> tuple[int, str | None] | None:
    month, day = found["month"] or found["month2"], found["day"] or found["day2"]
    clock = "%I:%M:%S %p" if found["half"] else "%H:%M:%S"
    written = f"{found['year']} {month} {day} {found['clock']}{found['half'] or ''}"
    try:
        moment = datetime.strptime(written, f"%Y %b %d {clock}").replace(tzinfo=UTC)
    except ValueError:
        return None
    zone = found["zone"]
    is_offset = zone[0] in "+-"
    seconds = int(moment.timestamp()) - (int(zone) * 3600 if is_offset else 0)
    return (seconds * 10**9, None if is_offset or zone in _UTC else zone) if seconds > 0 else None
