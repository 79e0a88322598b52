"""Logs of bcc's ``tcpretrans`` and ``tcpdrop`` (https://github.com/iovisor/bcc), as rows of ``tcp``.

Each line is an event, and so a row: how many segments of the connection were retransmitted, or how many packets to it
this host's TCP dropped, since the log began. Lines have only the time of the day: the day is that of the file's name,
or of a line with a date before; the clock is taken for UTC.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from whydrop.formats.archives.log_times import line_ns
from whydrop.formats.archives.names import Host, plain, time_ns
from whydrop.formats.archives.noting import counted
from whydrop.store.tables import TCP, conform

MOST_ROWS = 1_000_000
_DAY_NS = 86_400 * 10**9

_MOST_LINE = 1024

_HEADS = (b"LADDR:LPORT", b"SADDR:SPORT")
# Of columns, what the program says of itself, and what people leave out when they quote.
_HEAD = re.compile(r"LADDR:LPORT|SADDR:SPORT|^Tracing |^\^C|^\[\.\.\.\]$|^#")
_EVENT = re.compile(
    r"(?P<time>\d\d:\d\d:\d\d) +(?P<pid>\d+) +(?:(?P<version>[46]) +)?(?P<first>\S+:\d+) +(?P<kind>[RL]?>|) *"
    r"(?P<second>\S+:\d+) +(?P<state>[A-Z_0-9]+)(?P<flags> +\([A-Z|]*\))?.*"
)
# tcpretrans -c counts, and prints no time.
_COUNT = re.compile(r"(?P<first>\S+:\d+) +<-> +(?P<second>\S+:\d+) +(?P<count>\d{1,18})\s*")
_STATES = {
    "SYN_SENT": "SYN-SENT", "SYN_RECV": "SYN-RECEIVED", "NEW_SYN_RECV": "SYN-RECEIVED", "FIN_WAIT1": "FIN-WAIT-1",
    "FIN_WAIT2": "FIN-WAIT-2", "TIME_WAIT": "TIME-WAIT", "CLOSE": "CLOSED", "CLOSE_WAIT": "CLOSE-WAIT",
    "LAST_ACK": "LAST-ACK",
}  # fmt: skip


def is_bcc(head: bytes) -> bool:
    """True if a file begins as the output of one of the two does."""
    return any(words in head for words in _HEADS)


@dataclass
class _Log:
    """The content of a log so far; ``day_ns`` is when the day of the lines began."""

    drops: bool
    day_ns: int
    before_ns: int = -1
    rows: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    bad: int = 0
    probes: int = 0
    damage: str | None = None


def read(content: bytes, name: str, of: Host | None) -> tuple[pl.DataFrame, list[str], str | None]:
    """The events as rows of ``tcp``, what is to be noted, and the damage: lines that cannot be read are left out."""
    named_ns = time_ns(plain(name)) or 0
    log = _Log(b"SADDR:SPORT" in content[: 1 << 14], named_ns // _DAY_NS * _DAY_NS)
    offset = 0
    for number, raw in enumerate(content.splitlines(keepends=True), 1):
        if len(log.rows) == MOST_ROWS:
            log.damage = f"more than {MOST_ROWS} events: those from offset {offset} on were not read"
            break
        line = raw[:_MOST_LINE].decode("utf-8", "backslashreplace").rstrip()
        # Stacks of the kernel's functions are indented.
        if line and line[0] not in "\t " and not _HEAD.search(line):
            _take(log, line, f"line {number}, at offset {offset}")
        offset += len(raw)
    if log.damage and log.bad > 1:
        log.damage += f"; {log.bad} such lines were left out"
    return _frame(log, name, of), _notes(log), log.damage


def _take(log: _Log, line: str, where: str) -> None:
    event, count = _EVENT.fullmatch(line), _COUNT.fullmatch(line)
    if event is not None and event["kind"] == "L>":
        log.probes += 1
    elif event is not None:
        at_ns = _of_day(event["time"])
        if log.before_ns - at_ns > _DAY_NS // 2:  # past midnight
            log.day_ns += _DAY_NS
        log.before_ns = at_ns
        log.rows.append(_row(log, event, 1, log.day_ns + at_ns, _STATES.get(event["state"], event["state"])))
    elif count is not None:
        log.rows.append(_row(log, count, int(count["count"]), None, None))
    elif (moment := line_ns(line)) is not None:
        log.day_ns, log.before_ns = moment[0] // _DAY_NS * _DAY_NS, -1
    else:
        log.bad += 1
        log.damage = log.damage or f"{where}: expected an event as tcpretrans or tcpdrop prints it"


def _row(log: _Log, found: re.Match[str], grown: int, at_ns: int | None, state: str | None) -> dict[str, Any]:
    # Tcpdrop prints the ends of the packet, which came from the other end; tcpretrans those of the socket.
    local, remote = (found["second"], found["first"]) if log.drops else (found["first"], found["second"])
    log.counts[local, remote] += grown
    counter = "socket_drops" if log.drops else "retransmitted_segments"
    return {"time_ns": at_ns, "state": state, counter: log.counts[local, remote], **_ends(local, remote)}


def _frame(log: _Log, name: str, of: Host | None) -> pl.DataFrame:
    columns = {key: kind for key, kind in TCP.items() if log.rows and key in log.rows[0]}
    told = {
        "test_id": plain(name),
        "source": "tcpdrop" if log.drops else "tcpretrans",
        **{key: getattr(of, key, None) for key in ("machine", "site")},
    }
    frame = pl.DataFrame({key: [row[key] for row in log.rows] for key in columns}, schema=columns)
    return conform("tcp", frame.with_columns(pl.lit(value).alias(key) for key, value in told.items()))


def _notes(log: _Log) -> list[str]:
    notes = []
    if log.rows and log.day_ns < 2 * _DAY_NS:
        notes.append("Neither the file's name nor a line has the day: 1970-01-01 is assumed.")
    if log.probes:
        notes.append(counted("Attempts of tail loss probes left out", log.probes))
    return notes


def _of_day(clock: str) -> int:
    hour, minute, second = (int(part) for part in clock.split(":"))
    return (hour * 3600 + minute * 60 + second) * 10**9


def _ends(local: str, remote: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for end, text in (("local", local), ("remote", remote)):
        address, _, port = text.rpartition(":")
        found |= {
            f"{end}_address": address.removeprefix("::ffff:")[:64] or None,
            f"{end}_port": int(port[:9]) % (1 << 16),
        }
    return found
