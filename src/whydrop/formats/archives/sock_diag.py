"""Linux's sock_diag answer on a TCP socket (include/uapi/linux/inet_diag.h): its message, and its tcp_info."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
import polars as pl

from whydrop.formats.archives import linux_tcp
from whydrop.formats.archives.names import Host
from whydrop.formats.archives.quantities import column
from whydrop.store.tables import conform

MESSAGE_BYTES = 72  # struct inet_diag_msg
# Of one file. Ten minutes of a connection are at most 60 000.
MOST_SNAPSHOTS = 1_000_000
# Attributes' numbers (INET_DIAG_...).
INFO, CONGESTION_CONTROL, BBR = 2, 4, 16

_AF_INET, _AF_INET6 = 2, 10
_INFO_BYTES = max(offset + size for offset, size in linux_tcp.FIELDS.values())
_LAYOUT = np.dtype(
    {
        "names": list(linux_tcp.FIELDS),
        "formats": [f"<u{size}" for _, size in linux_tcp.FIELDS.values()],
        "offsets": [offset for offset, _ in linux_tcp.FIELDS.values()],
        "itemsize": _INFO_BYTES,
    }
)
# bw_lo, bw_hi (bytes/s), min_rtt (µs), gains: struct tcp_bbr_info
_BBR_LAYOUT = np.dtype([("low", "<u4"), ("high", "<u4"), ("min_rtt_us", "<u4")])


@dataclass(frozen=True)
class Snapshot:
    """One socket at one time, as bytes."""

    time_ns: int | None
    message: bytes | None  # struct inet_diag_msg: `MESSAGE_BYTES`
    info: bytes | None  # struct tcp_info, as long as that kernel's is
    congestion_control: bytes | None = None
    bbr: bytes | None = None
    test_id: str | None = None  # UUID of the connection
    host: Host | None = None  # the socket's host


@dataclass(frozen=True)
class Snapshots:
    """The snapshots of a file. Rows are made of those of many files at once (`rows`): that is much faster."""

    taken: list[Snapshot]
    damage: str | None


@dataclass(frozen=True)
class Socket:
    """The socket's host."""

    state: int
    local_address: str
    local_port: int
    remote_address: str
    remote_port: int


def socket(message: bytes) -> Socket | None:
    """The ends of a socket; None where the family is not one of IP's.

    Ports are in network order, everything else as the machine has it (little-endian).
    """
    if len(message) < MESSAGE_BYTES or message[0] not in (_AF_INET, _AF_INET6):
        return None
    return Socket(
        state=message[1],
        local_address=_address(message[0], message[8:24]),
        local_port=int.from_bytes(message[4:6], "big"),
        remote_address=_address(message[0], message[24:40]),
        remote_port=int.from_bytes(message[6:8], "big"),
    )


def rows(snapshots: Sequence[Snapshot]) -> pl.DataFrame:
    """Snapshots as rows of ``tcp``, source ``tcp-info``."""
    frame = pl.DataFrame(_info_columns(snapshots) | _bbr_columns(snapshots) | _ends(snapshots))
    # The message's state is there without tcp_info, and the same where both are.
    state = pl.coalesce("State", "_state").alias("State")
    kept = [*_ENDS, *_IDENTITY, "congestion_control", "bbr_bandwidth_bps", "bbr_min_rtt_ns"]
    frame = frame.with_columns(state).select(*linux_tcp.columns(), *kept, pl.lit("tcp-info").alias("source"))
    return conform("tcp", frame)


_ENDS = ("local_address", "local_port", "remote_address", "remote_port")
_IDENTITY = ("time_ns", "test_id", "machine", "site")


def _info_columns(snapshots: Sequence[Snapshot]) -> dict[str, pl.Series]:
    lengths = np.array([len(snapshot.info or b"") for snapshot in snapshots], dtype=np.int64)
    padded = b"".join((snapshot.info or b"")[:_INFO_BYTES].ljust(_INFO_BYTES, b"\0") for snapshot in snapshots)
    records = np.frombuffer(padded, _LAYOUT)
    return {
        name: column(records[name], 1, lengths >= offset + size)  # an absent tail is null, not zero
        for name, (offset, size) in linux_tcp.FIELDS.items()
    }


def _bbr_columns(snapshots: Sequence[Snapshot]) -> dict[str, pl.Series]:
    size = _BBR_LAYOUT.itemsize
    bandwidths: list[float | None] = []
    min_rtts: list[int | None] = []
    for snapshot in snapshots:
        record: Any = None
        if snapshot.bbr is not None and len(snapshot.bbr) >= size:
            record = np.frombuffer(snapshot.bbr, _BBR_LAYOUT, 1)[0]
        bandwidth = 8.0 * ((int(record["high"]) << 32) + int(record["low"])) if record is not None else 0.0
        bandwidths.append(bandwidth or None)
        min_rtt = int(record["min_rtt_us"]) if record is not None else 0xFFFFFFFF
        min_rtts.append(min_rtt * 1000 if min_rtt != 0xFFFFFFFF else None)
    return {
        "bbr_bandwidth_bps": pl.Series(bandwidths, dtype=pl.Float64),
        "bbr_min_rtt_ns": pl.Series(min_rtts, dtype=pl.Int64),
    }


def _ends(snapshots: Sequence[Snapshot]) -> dict[str, pl.Series]:
    # Nearly all snapshots of a file are of one socket, and their messages begin alike.
    seen: dict[bytes, Socket | None] = {}
    sockets: list[Socket | None] = []
    names: list[str | None] = []
    for snapshot in snapshots:
        message = snapshot.message or b""
        head = message[:40] if len(message) >= MESSAGE_BYTES else b""
        if head not in seen:
            seen[head] = socket(message)
        sockets.append(seen[head])
        name = (snapshot.congestion_control or b"").partition(b"\0")[0]
        names.append(name.decode("ascii", "backslashreplace")[:64] or None)
    return {
        **{end: pl.Series([getattr(socket, end, None) for socket in sockets], dtype=_kind(end)) for end in _ENDS},
        "_state": pl.Series([getattr(socket, "state", None) for socket in sockets], dtype=pl.Int64),
        "time_ns": pl.Series([snapshot.time_ns for snapshot in snapshots], dtype=pl.Int64),
        "test_id": pl.Series([snapshot.test_id for snapshot in snapshots], dtype=pl.String),
        "machine": pl.Series([getattr(snapshot.host, "machine", None) for snapshot in snapshots], dtype=pl.String),
        "site": pl.Series([getattr(snapshot.host, "site", None) for snapshot in snapshots], dtype=pl.String),
        "congestion_control": pl.Series(names, dtype=pl.String),
    }


def _kind(end: str) -> pl.DataType:
    return pl.Int64() if end.endswith("port") else pl.String()


def _address(family: int, raw: bytes) -> str:
    if family == _AF_INET:
        return str(IPv4Address(raw[:4]))
    address = IPv6Address(raw)
    # IPv4 of sockets that listen to both is written ::ffff:192.0.2.1.
    return str(address.ipv4_mapped or address)
