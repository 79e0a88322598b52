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


def line_ns(line: str) -> tuple[int, str | None] | None:
    """The time that a line consists of, in nanoseconds since the epoch; None where it is something else.

    Second is the name of a time zone that does not tell how far it is from UTC, if it has such a one: the time is then
    taken for UTC.

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
        offset = "Z" if offset is None else offset if ":" in offset or offset in "Zz" else f"{offset[:3]}:{offset[3:]}"
        moment = rfc3339_ns(f"{day}T{clock}.{fraction or '0'}{offset}")
        return None if moment is None else (moment, None)
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
