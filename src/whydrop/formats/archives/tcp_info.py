"""M-Lab's tcp-info (``.jsonl.zst``): sock_diag's snapshots of a connection, one a line, written when something changed.

One file is up to ten minutes of one connection; the number in its name counts them. The first line is the file's
metadata. https://github.com/m-lab/tcp-info, `netlink/archival-record.go`.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
from dataclasses import replace
from typing import Any

from whydrop.formats.archives import sock_diag
from whydrop.formats.archives.json_text import text
from whydrop.formats.archives.names import Host, rfc3339_ns, uuid
from whydrop.formats.archives.sock_diag import MOST_SNAPSHOTS, Snapshot, Snapshots

# A snapshot is about a kilobyte.
_MOST_LINE = 1 << 20


def read(content: bytes, name: str, of: Host | None) -> Snapshots:
    """The snapshots of one file. Lines that cannot be read are left out, and the first of them is named."""
    snapshots: list[Snapshot] = []
    connection: str | None = None
    bad = 0
    damage: str | None = None
    offset = 0
    for number, line in enumerate(io.BytesIO(content), 1):
        if len(snapshots) == MOST_SNAPSHOTS:
            damage = f"more than {MOST_SNAPSHOTS} snapshots: those from offset {offset} on were not read"
            break
        if line.strip():
            snapshot, found = _line(line) if len(line) <= _MOST_LINE else (None, None)
            connection = connection or found
            if snapshot is not None:
                snapshots.append(snapshot)
            elif found is None:
                bad += 1
                damage = damage or f"line {number}, at offset {offset}: no snapshot of tcp-info in JSON"
        offset += len(line)
    if damage and bad > 1:
        damage += f"; {bad} such lines were left out"
    test_id = connection or uuid(name)
    return Snapshots([replace(snapshot, test_id=test_id, host=of) for snapshot in snapshots], damage)


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
    if not isinstance(attributes, list):
        attributes = []
    message, info = _bytes(record.get("RawIDM")), _attribute(attributes, sock_diag.INFO)
    if not (message and len(message) >= sock_diag.MESSAGE_BYTES) and info is None:
        return None, None
    return Snapshot(
        time_ns=rfc3339_ns(record.get("Timestamp")),
        message=message,
        info=info,
        congestion_control=_attribute(attributes, sock_diag.CONGESTION_CONTROL),
        bbr=_attribute(attributes, sock_diag.BBR),
    ), None


def _attribute(attributes: list[Any], number: int) -> bytes | None:
    return _bytes(attributes[number]) if number < len(attributes) else None


def _bytes(text: Any) -> bytes | None:
    if not isinstance(text, str):
        return None
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
