"""Logs of ``ss -tinm`` (iproute2), on one line each (``-O``) or on two, repeated with times between, as ``tcp`` rows.

``ss`` leaves out what is zero; what its kernel does not know is left out as well. So a counter is zero only where
another one that came with the same kernel is there; see `_ZERO`. Times are in ms, rates in bit/s, windows in packets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from whydrop.formats.archives import Found
from whydrop.formats.archives.columns import LARGEST, tcp_rows
from whydrop.formats.archives.lines import Lines
from whydrop.formats.archives.log_times import LocalTimes, line_ns
from whydrop.formats.archives.names import Host, plain
from whydrop.formats.archives.noting import counted
from whydrop.store.tables import TCP

MOST_ROWS = 1_000_000
_MOST_LINE = 1 << 16

_STATES = {
    "ESTAB": "ESTABLISHED", "SYN-SENT": "SYN-SENT", "SYN-RECV": "SYN-RECEIVED", "FIN-WAIT-1": "FIN-WAIT-1",
    "FIN-WAIT-2": "FIN-WAIT-2", "TIME-WAIT": "TIME-WAIT", "UNCONN": "CLOSED", "CLOSE-WAIT": "CLOSE-WAIT",
    "LAST-ACK": "LAST-ACK", "CLOSING": "CLOSING",
}  # fmt: skip
_KNOWN = "|".join([*_STATES, "LISTEN"])
# With one state chosen ss leaves the column out; with sockets of more kinds it begins with the kind.
_SOCKET = re.compile(
    rf"\s*(?:(?P<kind>tcp|mptcp|udp|\S+) +)??(?:(?P<state>{_KNOWN}) +)?(\d+) +(\d+) +(?P<rest>\S.*)", re.DOTALL
)
_HEAD = re.compile(
    rb"(?m)^\s*(?:(?:tcp\s+)?(?:"
    + _KNOWN.encode()
    + rb")\s+\d+\s+\d+\s+\S+:\S+\s|(?:Netid\s+)?(?:State\s+)?Recv-Q\s+Send-Q\s)"
)
_WORD = re.compile(r"([a-z_0-9]+):(\S+)")
_RATE = re.compile(r"(pacing_rate|delivery_rate) ([0-9.]+[KMGT]?bps)(?:/([0-9.]+[KMGT]?bps))?")
# Groups, which hold words of their own.
_GROUP = re.compile(r"\w+:\((?:[^()]|\([^()]*\))*\)")
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

# Columns and the keys of ss that they are: numbers of bytes and segments, and times in ms.
_COUNTS = {
    "acked_bytes": "bytes_acked", "received_bytes": "bytes_received", "sent_bytes": "bytes_sent",
    "retransmitted_bytes": "bytes_retrans", "sent_segments": "segs_out", "received_segments": "segs_in",
    "sent_data_segments": "data_segs_out", "lost_segments": "lost", "mss_bytes": "mss",
    "receive_window_bytes": "snd_wnd", "not_sent_bytes": "notsent", "delivered_packets": "delivered",
    "delivered_ce_packets": "delivered_ce", "reordering_seen": "reord_seen", "duplicate_sacks": "dsack_dups",
    "current_timeout_count": "backoff",
}  # fmt: skip
_TIMES = {
    "min_rtt_ns": "minrtt", "retransmission_timeout_ns": "rto", "busy_ns": "busy",
    "receiver_limited_ns": "rwnd_limited", "send_buffer_limited_ns": "sndbuf_limited",
}  # fmt: skip
_PACKETS = {
    "congestion_window_bytes": "cwnd", "slow_start_threshold_bytes": "ssthresh", "flight_bytes": "unacked",
}  # fmt: skip
# Zero where it is left out and this key is there, which the same kernel, or a later one, prints; the empty one always.
_ZERO = {
    "retransmitted_segments": "", "lost_segments": "", "flight_bytes": "mss",
    "acked_bytes": "bytes_received", "received_bytes": "bytes_acked",
    "not_sent_bytes": "minrtt", "sent_data_segments": "minrtt",
    "receiver_limited_ns": "busy", "send_buffer_limited_ns": "busy",
    "delivered_ce_packets": "delivered",
    "retransmitted_bytes": "bytes_sent", "duplicate_sacks": "bytes_sent", "reordering_seen": "bytes_sent",
}  # fmt: skip


def is_ss(head: bytes) -> bool:
    """True if a file begins as a log of ``ss`` does, behind a line with a time or not."""
    return _HEAD.search(head) is not None and b"\0" not in head


@dataclass
class _Log:
    """The content of a log so far."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)  # of `TCP`
    stamps_ns: list[int | None] = field(default_factory=list)  # of the rows
    times: int = 0
    zones: set[str] = field(default_factory=set)
    local: LocalTimes = field(default_factory=LocalTimes)


def read(content: bytes, name: str, of: Host | None) -> Found:
    """The sockets as rows of ``tcp``; lines that cannot be read are left out.

    A time is that of the sockets after it; where a log begins with sockets, of those before it, as Flent's are.
    """
    log = _Log()
    lines = Lines(content.splitlines(keepends=True))
    time_ns: int | None = None
    is_behind: bool | None = None
    unstamped = 0
    for where, entry in _entries(lines):
        moment = line_ns(entry)
        if moment is not None:
            is_behind = bool(log.rows) if is_behind is None else is_behind
            time_ns = log.local.going_on(*moment)
            log.times += 1
            log.zones.update([moment[1]] if moment[1] else [])
            if is_behind:
                log.stamps_ns[unstamped:] = [time_ns] * (len(log.rows) - unstamped)
                unstamped = len(log.rows)
            continue
        if len(log.rows) == MOST_ROWS:
            lines.stop(f"{MOST_ROWS} sockets", where[1])
            break
        row, damage = _row(entry)
        if row is not None:
            log.rows.append(tuple(row.get(name) for name in TCP))
            log.stamps_ns.append(None if is_behind else time_ns)
        elif damage is not None:
            lines.refuse(damage, where)
    frame = pl.DataFrame(log.rows, TCP, orient="row")
    frame = frame.with_columns(pl.Series("time_ns", log.stamps_ns, dtype=pl.Int64))
    return Found([tcp_rows(frame, "ss", of, test_id=plain(name))], notes=_notes(log), damage=lines.damage)


def _notes(log: _Log) -> list[str]:
    notes = []
    if log.rows and not log.times:
        notes.append(
            "No line says when it was, so a store has each socket once, and nothing can be drawn: put the time "
            "between, as in `while sleep 1; do date +%s.%N; ss -tinmO; done`"
        )
    unsaid = "Times in a time zone of unknown offset, read as UTC"
    if log.local.changes:
        notes.append("Summer time began or ended in this log: times continue without a jump")
    return [*notes, *(counted(unsaid, 1, zone) for zone in sorted(log.zones))]


def _entries(lines: Lines) -> Iterator[tuple[tuple[int, int], str]]:
    """Number and offset, and text of each entry, a line with those behind it that begin with white space."""
    text, where = "", (1, 0)
    for line in lines:
        words = line[:_MOST_LINE].decode("utf-8", "backslashreplace").rstrip()
        if text and _goes_on(words) and len(text) < _MOST_LINE:
            text += " " + words.strip()
        else:
            if text:
                yield where, text
            text, where = words, (lines.number, lines.offset)
    if text:
        yield where, text


def _goes_on(line: str) -> bool:
    """True if a line belongs to the socket before it."""
    return line[:1].isspace() and bool(line.strip()) and line_ns(line) is None and not _SOCKET.match(line)


def _row(entry: str) -> tuple[dict[str, Any] | None, str | None]:
    """The socket that an entry describes, if it is one of TCP that is not listening; or what was expected instead."""
    found = _SOCKET.match(entry)
    if found is None:
        words = entry.split()
        is_title = not words or entry.startswith("---") or {"Recv-Q", "Send-Q"} & set(words)
        return None, None if is_title else "expected a socket as `ss -tinm` writes it, or a time as `date` does"
    if found["kind"] not in (None, "tcp") or found["state"] == "LISTEN":
        return None, None
    ends, rest = _ends(found["rest"])
    if ends is None:
        return None, "expected a socket as `ss -tinm` writes it"
    return {"state": _STATES.get(found["state"] or "ESTAB"), **ends, **_statistics(rest)}, None


def _ends(rest: str) -> tuple[dict[str, Any] | None, str]:
    words = rest.split(None, 2)
    if len(words) < 2 or ":" not in words[0] or ":" not in words[1]:
        return None, ""
    local, remote = (end.rpartition(":") for end in words[:2])
    ends = {
        "local_address": _address(local[0]),
        "local_port": _port(local[2]),
        "remote_address": _address(remote[0]),
        "remote_port": _port(remote[2]),
    }
    return ends, words[2] if len(words) > 2 else ""


def _address(text: str) -> str | None:
    """Without its interface; IPv4 on a socket of IPv6 is IPv4.

    >>> _address("[::ffff:192.0.2.1]"), _address("[fe80::1]%eth0"), _address("*")
    ('192.0.2.1', 'fe80::1', None)
    """
    known = text.partition("%")[0].strip("[]")[:64]
    return None if known in ("", "*") else known.removeprefix("::ffff:") if "." in known else known


def _port(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 and int(text) < 1 << 16 else None


def _statistics(text: str) -> dict[str, Any]:
    """Parse the output of ``ss -i`` and ``-m`` on a socket, into the units of ``tcp``."""
    memory = re.search(r"\bskmem:\(([^)]*)\)", text)
    bbr = re.search(r"\bbbr:\(([^)]*)\)", text)
    flat = _GROUP.sub(" ", text)
    keys = dict(_WORD.findall(flat))
    row: dict[str, Any] = {column: _number(keys.get(key), 1) for column, key in _COUNTS.items()}
    row |= {column: _number(keys.get(key), 1e6) for column, key in _TIMES.items()}
    row |= {column: _product(keys.get(key), row["mss_bytes"]) for column, key in _PACKETS.items()}
    rtt, _, variation = keys.get("rtt", "").partition("/")
    row["srtt_ns"], row["rtt_variation_ns"] = _number(rtt, 1e6), _number(variation, 1e6)
    row["retransmitted_segments"] = _number(keys.get("retrans", "").partition("/")[2], 1)  # of now, and in all
    for column, key in _ZERO.items():
        if row[column] is None and (not key or key in keys):
            row[column] = 0
    for name, rate, most in _RATE.findall(flat):
        row[f"{name}_bps"] = _bps(rate)
        if most:
            row["max_pacing_rate_bps"] = _bps(most)
    if "delivery_rate_bps" in row:
        row["delivery_rate_app_limited"] = bool(re.search(r"\bapp_limited\b", flat))
    if memory:
        parts = dict(re.findall(r"([a-z]+)(\d+)", memory[1]))
        row["send_buffer_bytes"], row["socket_drops"] = _number(parts.get("tb"), 1), _number(parts.get("d"), 1)
    if bbr:
        parts = dict(part.split(":", 1) for part in bbr[1].split(",") if ":" in part)
        row["bbr_bandwidth_bps"] = _bps(parts.get("bw", ""))
        row["bbr_min_rtt_ns"] = _number(parts.get("mrtt"), 1e6)
    row["congestion_control"] = _control(flat)
    return row


# Options that ss names before the congestion control.
_OPTIONS = {"ts", "sack", "ecn", "ecnseen", "fastopen", "cwnd", "app_limited", "tcp-ulp-mptcp", "ato"}


def _control(flat: str) -> str | None:
    """The name of the congestion control: the word before the window scale, or before the timeout where none is."""
    found = re.search(r"(?:^|\s)([a-z][a-z0-9_]*) (?:wscale:\S+ )?rto:", flat)
    return found[1] if found and found[1] not in _OPTIONS else None


def _number(text: str | None, factor: float) -> int | None:
    """A quantity as a whole number of its column's unit; what stands behind the number is its unit.

    >>> _number("1924ms", 1e6), _number("12ms(3.4%)", 1e6), _number("0.012", 1e6), _number("x", 1)
    (1924000000, 12000000, 12000, None)
    """
    found = re.match(r"\d{1,19}(?:\.\d{1,9})?", text) if text else None
    if found is None:
        return None
    value = int(found[0]) * int(factor) if "." not in found[0] else round(float(found[0]) * factor)
    return value if value <= LARGEST else None


def _product(packets: str | None, mss: int | None) -> int | None:
    count = _number(packets, 1)
    return None if count is None or mss is None or count > LARGEST // max(1, mss) else count * mss


def _bps(text: str) -> float | None:
    """A rate as ``ss`` writes it, exactly (``-n``) or with a prefix.

    >>> _bps("240298666667bps"), _bps("10.5Mbps"), _bps("")
    (240298666667.0, 10500000.0, None)
    """
    found = re.fullmatch(r"(\d{1,19}(?:\.\d{1,9})?)([KMGT]?)bps", text)
    return float(found[1]) * _PREFIXES.get(found[2], 1.0) if found else None
