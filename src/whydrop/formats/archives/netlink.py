"""Raw answers of sock_diag, as tcp-info reads them from the kernel: netlink messages one behind the other, no times.

RFC 3549 (netlink), include/uapi/linux/inet_diag.h. All numbers are little-endian, as on the machines that wrote them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from whydrop.formats.archives import sock_diag
from whydrop.formats.archives.names import Host, plain
from whydrop.formats.archives.sock_diag import Snapshot, Snapshots

_HEADER = struct.Struct("<IHHII")  # length with this header, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("<HH")  # length with this header, type
_SOCK_DIAG_BY_FAMILY, _DONE = 20, 3
_TYPE_BITS = 0x3FFF  # the two highest say that an attribute is nested, or in network order


def is_netlink(head: bytes) -> bool:
    """True if a file that begins with these bytes is one of sock_diag's answers."""
    if len(head) < _HEADER.size + 1:
        return False
    length, kind, *_ = _HEADER.unpack_from(head)
    return kind == _SOCK_DIAG_BY_FAMILY and _fits(length) and head[_HEADER.size] in (2, 10)


def read(content: bytes, name: str, of: Host | None) -> Snapshots:
    """The sockets, up to the damage.

    A file holds several answers about the same sockets. It has neither the time of each nor the identity of the
    connection: the file's name and a number distinguish rows, and give their order.
    """
    snapshots: list[Snapshot] = []
    offset, damage = 0, None
    while offset < len(content):
        if len(content) - offset < _HEADER.size:
            damage = f"ends at offset {len(content)}, within the header of a netlink message"
            break
        if len(snapshots) == sock_diag.MOST_SNAPSHOTS:
            damage = f"more than {len(snapshots)} sockets: those from offset {offset} on were not read"
            break
        length, kind, *_ = _HEADER.unpack_from(content, offset)
        end = offset + length
        if kind not in (_SOCK_DIAG_BY_FAMILY, _DONE) or not _HEADER.size <= length <= len(content) - offset:
            damage = f"offset {offset}: type {kind} and {length} bytes, expected a whole answer of sock_diag (type 20)"
            break
        if kind == _SOCK_DIAG_BY_FAMILY and _fits(length):
            test_id = f"{plain(name)}/{len(snapshots):07}"
            snapshots.append(_snapshot(content[offset + _HEADER.size : end], test_id, of))
        offset = offset + _aligned(length)
    return Snapshots(snapshots, damage)


def _fits(length: int) -> bool:
    return _HEADER.size + sock_diag.MESSAGE_BYTES <= length <= 1 << 16


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _snapshot(payload: bytes, test_id: str, of: Host | None) -> Snapshot:
    attributes = dict(_attributes(payload[sock_diag.MESSAGE_BYTES :]))
    return Snapshot(
        time_ns=None,
        message=payload[: sock_diag.MESSAGE_BYTES],
        info=attributes.get(sock_diag.INFO),
        congestion_control=attributes.get(sock_diag.CONGESTION_CONTROL),
        bbr=attributes.get(sock_diag.BBR),
        test_id=test_id,
        host=of,
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, offset)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_BITS, data[offset + _ATTRIBUTE.size : offset + length]
        offset += _aligned(length)
