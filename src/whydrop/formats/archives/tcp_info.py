"""Files of M-Lab's tcp-info: snapshots of sockets as sock_diag gives them. https://github.com/m-lab/tcp-info

* ``.jsonl.zst`` (`netlink/archival-record.go`): a connection's snapshots, one a line, written when something changed.
  One file is up to ten minutes; the number in its name counts them. The first line is the file's metadata.
* The kernel's raw answers: netlink messages one behind the other (RFC 3549), without times, little-endian as on the
  machines that wrote them.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from whydrop.formats.archives import Found, sock_diag
from whydrop.formats.archives.json_text import text
from whydrop.formats.archives.lines import Lines
from whydrop.formats.archives.names import Host, plain, rfc3339_ns, uuid
from whydrop.formats.archives.sock_diag import MESSAGE_BYTES, MOST_SNAPSHOTS, Snapshot

# A snapshot is about a kilobyte.
_MOST_LINE = 1 << 20

_HEADER = struct.Struct("<IHHII")  # length with this header, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("<HH")  # length with this header, type
_SOCK_DIAG_BY_FAMILY, _DONE = 20, 3
_KINDS = (sock_diag.INFO, sock_diag.CONGESTION_CONTROL, sock_diag.BBR)
_TYPE_BITS = 0x3FFF  # the two highest say that an attribute is nested, or in network order


def read(content: bytes, name: str, of: Host | None) -> Found:
    """The snapshots of a file of lines; those that cannot be read are left out."""
    snapshots: list[Snapshot] = []
    connection: str | None = None
    lines = Lines(io.BytesIO(content))
    for line in lines:
        if len(snapshots) == MOST_SNAPSHOTS:
            lines.stop(f"{MOST_SNAPSHOTS} snapshots")
            break
        if line.strip():
            snapshot, found = _line(line) if len(line) <= _MOST_LINE else (None, None)
            connection = connection or found
            if snapshot is not None:
                snapshots.append(snapshot)
            elif found is None:
                lines.refuse("no snapshot of tcp-info in JSON")
    test_id = connection or uuid(name)
    snapshots = [replace(snapshot, test_id=test_id, host=of) for snapshot in snapshots]
    return Found(objects=snapshots, as_rows=sock_diag.rows, damage=lines.damage)


def _line(line: bytes) -> tuple[Snapshot | None, str | None]:
    """A line's snapshot, or the connection's UUID where it is metadata; neither where it is damaged."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(record, dict):
        return None, None
    if isinstance(record.get("Metadata"), dict):
        return None, text(record["Metadata"].get("UUID")) or ""
    attributes = record.get("Attributes")
    attributes = attributes if isinstance(attributes, list) else []
    found = {kind: _bytes(attributes[kind]) for kind in _KINDS if kind < len(attributes)}
    message = _bytes(record.get("RawIDM"))
    if not (message and len(message) >= MESSAGE_BYTES) and found.get(sock_diag.INFO) is None:
        return None, None
    return _snapshot(rfc3339_ns(record.get("Timestamp")), message, found), None


def _bytes(text: Any) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _snapshot(time_ns: int | None, message: bytes | None, attributes: dict[int, Any]) -> Snapshot:
    return Snapshot(time_ns, message, *(attributes.get(kind) for kind in _KINDS))


def is_netlink(head: bytes) -> bool:
    """True if a file that begins with these bytes is one of sock_diag's raw answers."""
    if len(head) < _HEADER.size + 1:
        return False
    length, kind, *_ = _HEADER.unpack_from(head)
    return kind == _SOCK_DIAG_BY_FAMILY and _fits(length) and head[_HEADER.size] in (2, 10)


def read_netlink(content: bytes, name: str, of: Host | None) -> Found:
    """The sockets of raw answers, up to the damage.

    A file holds several answers about the same sockets. It has neither the time of each nor the identity of the
    connection: the file's name and a number distinguish rows, and give their order.
    """
    snapshots: list[Snapshot] = []
    offset, damage = 0, None
    while offset < len(content):
        if len(content) - offset < _HEADER.size:
            damage = f"ends at offset {len(content)}, within the header of a netlink message"
            break
        if len(snapshots) == MOST_SNAPSHOTS:
            damage = f"more than {len(snapshots)} sockets: those from offset {offset} on were not read"
            break
        length, kind, *_ = _HEADER.unpack_from(content, offset)
        if kind not in (_SOCK_DIAG_BY_FAMILY, _DONE) or not _HEADER.size <= length <= len(content) - offset:
            damage = f"offset {offset}: type {kind} and {length} bytes, expected a whole answer of sock_diag (type 20)"
            break
        if kind == _SOCK_DIAG_BY_FAMILY and _fits(length):
            payload = content[offset + _HEADER.size : offset + length]
            snapshot = _snapshot(None, payload[:MESSAGE_BYTES], dict(_attributes(payload[MESSAGE_BYTES:])))
            snapshots.append(replace(snapshot, test_id=f"{plain(name)}/{len(snapshots):07}", host=of))
        offset += _aligned(length)
    return Found(objects=snapshots, as_rows=sock_diag.rows, damage=damage)


def _fits(length: int) -> bool:
    return _HEADER.size + MESSAGE_BYTES <= length <= 1 << 16


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_BITS, data[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)
