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

from whydrop.formats.archives.log_times import LocalTimes, line_ns
from whydrop.formats.archives.names import Host, plain
from whydrop.formats.archives.noting import counted
from whydrop.formats.archives.quantities import LARGEST
from whydrop.store.tables import TCP, conform

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

# Column, key of ss, factor to the column's unit.
_PLAIN: tuple[tuple[str, str, float], ...] = (
    ("acked_bytes", "bytes_acked", 1),
    ("received_bytes", "bytes_received", 1),
    ("sent_bytes", "bytes_sent", 1),
    ("retransmitted_bytes", "bytes_retrans", 1),
    ("sent_segments", "segs_out", 1),
    ("received_segments", "segs_in", 1),
    ("sent_data_segments", "data_segs_out", 1),
    ("lost_segments", "lost", 1),
    ("mss_bytes", "mss", 1),
    ("receive_window_bytes", "snd_wnd", 1),
    ("not_sent_bytes", "notsent", 1),
    ("delivered_packets", "delivered", 1),
    ("delivered_ce_packets", "delivered_ce", 1),
    ("reordering_seen", "reord_seen", 1),
    ("duplicate_sacks", "dsack_dups", 1),
    ("min_rtt_ns", "minrtt", 1e6),
    ("retransmission_timeout_ns", "rto", 1e6),
    ("busy_ns", "busy", 1e6),
    ("receiver_limited_ns", "rwnd_limited", 1e6),
    ("send_buffer_limited_ns", "sndbuf_limited", 1e6),
)
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

    rows: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in TCP})
    taken: int = 0
    times: int = 0
    bad: int = 0
    zones: set[str] = field(default_factory=set)
    local: LocalTimes = field(default_factory=LocalTimes)
    damage: str | None = None


def read(content: bytes, name: str, of: Host | None) -> tuple[pl.DataFrame, list[str], str | None]:
    """The sockets as rows of ``tcp``, what is to be noted, and the damage: lines that cannot be read are left out.

    A time is that of the sockets after it; where a log begins with sockets, of those before it, as Flent's are.
    """
    log = _Log()
    time_ns: int | None = None
    is_behind: bool | None = None
    unstamped = 0
    for number, offset, entry in _entries(content):
        moment = line_ns(entry)
        if moment is not None:
            is_behind = log.taken > 0 if is_behind is None else is_behind
            time_ns = log.local.going_on(*moment)
            log.times += 1
            log.zones.update([moment[1]] if moment[1] else [])
            if is_behind:
                log.rows["time_ns"][unstamped:] = [time_ns] * (log.taken - unstamped)
                unstamped = log.taken
            continue
        if log.taken == MOST_ROWS:
            log.damage = f"more than {MOST_ROWS} sockets: those from offset {offset} on were not read"
            break
        _take(log, entry, None if is_behind else time_ns, f"line {number}, at offset {offset}")
    test_id = plain(name)
    log.rows |= {"test_id": [test_id] * log.taken, "source": ["ss"] * log.taken}
    log.rows |= {key: [getattr(of, key, None)] * log.taken for key in ("machine", "site")}
    frame = pl.DataFrame({key: values for key, values in log.rows.items() if values}, schema=_schema(log.rows))
    if log.damage and log.bad > 1:
        log.damage += f"; {log.bad} such lines were left out"
    return conform("tcp", frame), _notes(log), log.damage


def _schema(rows: dict[str, list[Any]]) -> dict[str, pl.DataType]:
    return {key: TCP[key] for key, values in rows.items() if values}


def _notes(log: _Log) -> list[str]:
    notes = []
    if log.taken and not log.times:
        notes.append(
            "No line says when it was, so a store has each socket once, and nothing can be drawn: put the time "
            "between, as in `while sleep 1; do date +%s.%N; ss -tinmO; done`"
        )
    unsaid = "Times in a time zone of unknown offset, read as UTC"
    if log.local.changes:
        notes.append("Summer time began or ended in this log: times continue without a jump")
    return [*notes, *(counted(unsaid, 1, zone) for zone in sorted(log.zones))]


def _entries(content: bytes) -> Iterator[tuple[int, int, str]]:
    """Number, offset and text of each entry, a line with those behind it that begin with white space."""
    text, began, at = "", 1, 0
    offset = 0
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        words = line[:_MOST_LINE].decode("utf-8", "backslashreplace").rstrip()
        if text and _goes_on(words) and len(text) < _MOST_LINE:
            text += " " + words.strip()
        else:
            if text:
                yield began, at, text
            text, began, at = words, number, offset
        offset += len(line)
    if text:
        yield began, at, text


def _goes_on(line: str) -> bool:
    """True if a line belongs to the socket before it."""
    return line[:1].isspace() and bool(line.strip()) and line_ns(line) is None and not _SOCKET.match(line)


def _take(log: _Log, entry: str, time_ns: int | None, where: str) -> None:
    found = _SOCKET.match(entry)
    if found is None:
        words = entry.split()
        if words and not entry.startswith("---") and not {"Recv-Q", "Send-Q"} & set(words):
            log.bad += 1
            log.damage = log.damage or f"{where}: expected a socket as `ss -tinm` writes it, or a time as `date` does"
        return
    if found["kind"] not in (None, "tcp") or found["state"] == "LISTEN":
        return
    ends, told = _ends(found["rest"])
    if ends is None:
        log.bad += 1
        log.damage = log.damage or f"{where}: expected a socket as `ss -tinm` writes it"
        return
    row = {"time_ns": time_ns, "state": _STATES.get(found["state"] or "ESTAB"), **ends, **_told(told)}
    for name, values in log.rows.items():
        if name not in ("test_id", "source", "machine", "site"):
            values.append(row.get(name))
    log.taken += 1


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


def _told(text: str) -> dict[str, Any]:
    """Parse the output of ``ss -i`` and ``-m`` on a socket, into the units of ``tcp``."""
    memory = re.search(r"\bskmem:\(([^)]*)\)", text)
    bbr = re.search(r"\bbbr:\(([^)]*)\)", text)
    flat = _GROUP.sub(" ", text)
    keys = dict(_WORD.findall(flat))
    row: dict[str, Any] = {column: _number(keys.get(key), factor) for column, key, factor in _PLAIN}
    mss = row["mss_bytes"]
    row["congestion_window_bytes"] = _product(keys.get("cwnd"), mss)
    row["slow_start_threshold_bytes"] = _product(keys.get("ssthresh"), mss)
    row["flight_bytes"] = _product(keys.get("unacked"), mss)
    rtt, _, variation = keys.get("rtt", "").partition("/")
    row["srtt_ns"], row["rtt_variation_ns"] = _number(rtt, 1e6), _number(variation, 1e6)
    row["retransmitted_segments"] = _number(keys.get("retrans", "").partition("/")[2], 1)  # of now, and in all
    row["current_timeout_count"] = _number(keys.get("backoff"), 1)
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
