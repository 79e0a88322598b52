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

from whydrop.formats.archives import Found
from whydrop.formats.archives.columns import tcp_rows
from whydrop.formats.archives.lines import Lines
from whydrop.formats.archives.log_times import line_ns
from whydrop.formats.archives.names import Host, plain, time_ns
from whydrop.formats.archives.noting import counted
from whydrop.store.tables import TCP

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

_COLUMNS = (
    "time_ns", "state", "retransmitted_segments", "socket_drops",
    "local_address", "local_port", "remote_address", "remote_port",
)  # fmt: skip
_SCHEMA = {name: TCP[name] for name in _COLUMNS}


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
    probes: int = 0


def read(content: bytes, name: str, of: Host | None) -> Found:
    """The events as rows of ``tcp``; lines that cannot be read are left out."""
    named_ns = time_ns(plain(name)) or 0
    log = _Log(b"SADDR:SPORT" in content[: 1 << 14], named_ns // _DAY_NS * _DAY_NS)
    lines = Lines(content.splitlines(keepends=True))
    for raw in lines:
        if len(log.rows) == MOST_ROWS:
            lines.stop(f"{MOST_ROWS} events")
            break
        line = raw[:_MOST_LINE].decode("utf-8", "backslashreplace").rstrip()
        # Stacks of the kernel's functions are indented.
        if line and line[0] not in "\t " and not _HEAD.search(line) and not _taken(log, line):
            lines.refuse("expected an event as tcpretrans or tcpdrop prints it")
    frame = pl.DataFrame(log.rows, _SCHEMA)
    rows = tcp_rows(frame, "tcpdrop" if log.drops else "tcpretrans", of, test_id=plain(name))
    return Found([rows], notes=_notes(log), damage=lines.damage)


def _taken(log: _Log, line: str) -> bool:
    """Take a line; False where it is nothing that the programs print."""
    event, count = _EVENT.fullmatch(line), _COUNT.fullmatch(line)
    if event is not None and event["kind"] == "L>":
        log.probes += 1
    elif event is not None:
        hour, minute, second = map(int, event["time"].split(":"))
        at_ns = (hour * 3600 + minute * 60 + second) * 10**9
        if log.before_ns - at_ns > _DAY_NS // 2:  # past midnight
            log.day_ns += _DAY_NS
        log.before_ns = at_ns
        state = _STATES.get(event["state"], event["state"])
        log.rows.append(_row(log, event, 1) | {"time_ns": log.day_ns + at_ns, "state": state})
    elif count is not None:
        log.rows.append(_row(log, count, int(count["count"])))
    elif (moment := line_ns(line)) is not None:
        log.day_ns, log.before_ns = moment[0] // _DAY_NS * _DAY_NS, -1
    else:
        return False
    return True


def _row(log: _Log, found: re.Match[str], grown: int) -> dict[str, Any]:
    # Tcpdrop prints the ends of the packet, which came from the other end; tcpretrans those of the socket.
    local, remote = (found["second"], found["first"]) if log.drops else (found["first"], found["second"])
    log.counts[local, remote] += grown
    row: dict[str, Any] = {"socket_drops" if log.drops else "retransmitted_segments": log.counts[local, remote]}
    for end, text in (("local", local), ("remote", remote)):
        address, _, port = text.rpartition(":")
        row[f"{end}_address"] = address.removeprefix("::ffff:")[:64] or None
        row[f"{end}_port"] = int(port[:9]) % (1 << 16)
    return row


def _notes(log: _Log) -> list[str]:
    notes = []
    if log.rows and log.day_ns < 2 * _DAY_NS:
        notes.append("Neither the file's name nor a line has the day: 1970-01-01 is assumed.")
    if log.probes:
        notes.append(counted("Attempts of tail loss probes left out", log.probes))
    return notes
