"""Web100 snaplogs: all variables of a TCP connection, every 5 ms, as the kernel counted them.

The format is web100's own (``log.c`` of its userland library): a text header that lists the variables, then records of
fixed length. Both kernels that Measurement Lab ran (2.5.17 and 2.5.27) write the same 142 variables, but the header is
followed, not assumed. What the variables mean is `web100_rows`' subject.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
import numpy.typing as npt

_HEADER_END = b"----End-Of-Header---- -1 -1\n"
_RECORD_MARK = b"----Begin-Snap-Data----\n"
# The longest header seen is 3140 bytes.
_MOST_HEADER = 1 << 18
_MOST_RECORD = 1 << 16
# 83 minutes of a test that lasts ten seconds.
_MOST_RECORDS = 1_000_000
_FIRST_LINE = re.compile(rb"[0-9]+(?:\.[0-9]+)+[ -~]*\n")
_VARIABLE = re.compile(rb"([A-Za-z0-9_]{1,64}) ([0-9]{1,6}) ([0-9]{1,3}) ([0-9]{1,6})")

# Time of the log (u32), name of the group (32 bytes, garbage behind the NUL), connection (16 bytes).
_PREAMBLE = np.dtype(
    [
        ("log_time_s", "<u4"),
        ("group", "V32"),
        ("remote_port", "<u2"),
        ("_1", "V2"),
        ("remote", "u1", (4,)),
        ("local_port", "<u2"),
        ("_2", "V2"),
        ("local", "u1", (4,)),
    ]
)

# Types of web100's variables, in their order (web100.h): as fields of numpy, all little-endian, and their sizes.
_TYPES: tuple[tuple[tuple[Any, ...], int], ...] = (
    (("<i4",), 4),  # INTEGER
    (("<i4",), 4),  # INTEGER32
    (("u1", (4,)), 4),  # IP_ADDRESS
    (("<u4",), 4),  # COUNTER32
    (("<u4",), 4),  # GAUGE32
    (("<u4",), 4),  # UNSIGNED32
    (("<u4",), 4),  # TIME_TICKS
    (("<u8",), 8),  # COUNTER64
    (("<u2",), 2),  # INET_PORT_NUMBER
    (("u1", (17,)), 17),  # INET_ADDRESS: 16 bytes and the kind, 1 for IPv4 (in the first four), 2 for IPv6
    (("u1", (17,)), 17),  # INET_ADDRESS_IPV6
)
_STR32, _OCTET = 11, 12
COUNTER32 = 3


class SnaplogError(ValueError):
    """The header cannot be followed: no record can be read."""


@dataclass(frozen=True)
class Snaplog:
    """A decoded snaplog."""

    kernel: str  # first line: "2.5.27 201001301335 net100"
    log_time_s: int
    remote: str | None  # of the preamble: IPv4 only, IPv6 is zero there
    local: str | None
    remote_port: int
    local_port: int
    records: npt.NDArray[Any]  # structured; one field a variable, those that begin with "_" (deprecated copies) too
    types: dict[str, int]
    body_offset: int
    record_bytes: int
    trailing_bytes: int  # after the last whole record, or after the millionth
    misplaced: int  # records with a damaged mark; they are left out
    misplaced_offset: int | None  # of the first of them

    def address(self, variable: str) -> str | None:
        """The address that the first record gives; of the preamble where it gives none."""
        fallback = self.remote if variable == "RemAddress" else self.local
        if variable not in self.types or not len(self.records) or self.records[variable].ndim != 2:
            return fallback
        return _address(bytes(self.records[variable][0])) or fallback


def is_snaplog(head: bytes) -> bool:
    """True if a file that begins with these bytes is a snaplog."""
    line = _FIRST_LINE.match(head)
    return bool(line and head[line.end() :].lstrip(b"\n ").startswith(b"/"))


def decode(content: bytes) -> Snaplog:
    """The records of a snaplog, as far as they are whole.

    Raises:
        SnaplogError: the header is damaged; the message says where and what was expected.
    """
    end = content.find(_HEADER_END, 0, _MOST_HEADER)
    if end < 0:
        raise SnaplogError(f"the end of the header ({_HEADER_END[:21].decode()}) is not in its first bytes")
    first_line, _, rest = content[:end].partition(b"\n")
    after = end + len(_HEADER_END)
    body = after + _PREAMBLE.itemsize
    if len(content) < body:
        raise SnaplogError(f"ends at offset {len(content)}, within the connection's description")
    preamble = np.frombuffer(content, _PREAMBLE, 1, after)[0]
    group = bytes(preamble["group"]).partition(b"\0")[0]
    layout, types = _layout(rest, group)
    count, trailing = divmod(len(content) - body, layout.itemsize)
    if count > _MOST_RECORDS:
        trailing += (count - _MOST_RECORDS) * layout.itemsize
        count = _MOST_RECORDS
    records = np.frombuffer(content, layout, count, body)
    marked = records["mark"] == np.frombuffer(_RECORD_MARK, "V24")[0]
    wrong = np.flatnonzero(~marked)
    return Snaplog(
        kernel=first_line.decode(errors="backslashreplace").strip(),
        log_time_s=int(preamble["log_time_s"]),
        remote=_ipv4(bytes(preamble["remote"])),
        local=_ipv4(bytes(preamble["local"])),
        remote_port=int(preamble["remote_port"]),
        local_port=int(preamble["local_port"]),
        records=records[marked] if len(wrong) else records,
        types=types,
        body_offset=body,
        record_bytes=layout.itemsize,
        trailing_bytes=trailing,
        misplaced=len(wrong),
        misplaced_offset=body + int(wrong[0]) * layout.itemsize if len(wrong) else None,
    )


def _layout(header: bytes, group: bytes) -> tuple[np.dtype[Any], dict[str, int]]:
    """A record as the header describes the group: numpy's type, and web100's types by variable."""
    lines = iter(header.split(b"\n"))
    if not any(line == b"/" + group for line in lines):
        raise SnaplogError(f"the header has no group {group[:32]!r}, of which the records are said to be")
    fields: list[Any] = [("mark", "V24")]
    types: dict[str, int] = {}
    offset = 0
    for line in lines:
        found = _VARIABLE.fullmatch(line.strip())
        if not found:
            break
        name, (at, kind, length) = found[1].decode(), map(int, found.groups()[1:])
        if at != offset or name in types or name == "mark":
            raise SnaplogError(f"variable {name} in the header: offset {at}, expected {offset} and each name once")
        fields.append((name, *_format(name, kind, length)))
        types[name] = kind
        offset += length
        if offset > _MOST_RECORD:
            raise SnaplogError(f"the header describes records of more than {_MOST_RECORD} bytes")
    if not types:
        raise SnaplogError(f"the header lists no variables of the group {group[:32]!r}")
    return np.dtype(fields), types


def _format(name: str, kind: int, length: int) -> tuple[Any, ...]:
    if kind in (_STR32, _OCTET) and length:
        return (f"V{length}",)
    if kind >= len(_TYPES):
        raise SnaplogError(f"variable {name} in the header: type {kind}, expected 0 to {_OCTET}")
    form, size = _TYPES[kind]
    if size != length:
        raise SnaplogError(f"variable {name} in the header: {length} bytes, expected {size} of type {kind}")
    return form


def _address(raw: bytes) -> str | None:
    if raw[16] == 1:
        return _ipv4(raw[:4])
    return str(IPv6Address(raw[:16])) if raw[16] == 2 and any(raw[:16]) else None


def _ipv4(raw: bytes) -> str | None:
    return str(IPv4Address(raw)) if any(raw) else None


def damage(log: Snaplog) -> str | None:
    """The part of a snaplog that could not be read, in words."""
    found = []
    if log.misplaced:
        found.append(f"{log.misplaced} records lack their mark, the first at offset {log.misplaced_offset}")
    if log.trailing_bytes:
        whole = len(log.records) + log.misplaced
        offset = log.body_offset + whole * log.record_bytes
        if log.trailing_bytes < log.record_bytes:
            found.append(
                f"cut off within a record: {log.trailing_bytes} of {log.record_bytes} bytes at offset {offset}"
            )
        else:
            found.append(f"more than {whole} records: those from offset {offset} on were not read")
    return "; ".join(found) or None
