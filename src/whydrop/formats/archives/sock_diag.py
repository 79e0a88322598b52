"""Linux's sock_diag answer on a TCP socket (include/uapi/linux/inet_diag.h): its message, and its tcp_info."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address

import numpy as np
import numpy.typing as npt
import polars as pl

from whydrop.formats.archives import linux_tcp
from whydrop.formats.archives.names import Host
from whydrop.store.tables import TCP, conform

MESSAGE_BYTES = 72  # struct inet_diag_msg
# Of one file. Ten minutes of a connection are at most 60 000.
MOST_SNAPSHOTS = 1_000_000
# Attributes' numbers (INET_DIAG_...).
INFO, CONGESTION_CONTROL, BBR = 2, 4, 16

_AF_INET, _AF_INET6 = 2, 10
_ENDS = ("local_address", "local_port", "remote_address", "remote_port")
_IDENTITY = ("time_ns", "test_id", "machine", "site")
_Fields = dict[str, tuple[int, int]]  # offset in a structure and size
# struct tcp_bbr_info: bw_lo, bw_hi (bytes/s), min_rtt (µs); the gains behind them are not read.
_BBR_FIELDS: _Fields = {"low": (0, 4), "high": (4, 4), "min_rtt_us": (8, 4)}


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


def rows(snapshots: Sequence[Snapshot]) -> pl.DataFrame:
    """Snapshots as rows of ``tcp``, source ``tcp-info``."""
    identities = [
        (one.time_ns, one.test_id, getattr(one.host, "machine", None), getattr(one.host, "site", None))
        for one in snapshots
    ]
    ends = [_ends((one.message or b"")[:40] if len(one.message or b"") >= MESSAGE_BYTES else b"") for one in snapshots]
    controls = [(one.congestion_control or b"").partition(b"\0")[0] for one in snapshots]
    parts = [
        _numbers((one.bbr for one in snapshots), _BBR_FIELDS),
        pl.DataFrame(identities, {name: TCP[name] for name in _IDENTITY}, orient="row"),
        pl.DataFrame(ends, {name: TCP[name] for name in _ENDS} | {"_state": pl.Int64()}, orient="row"),
        pl.DataFrame({"control": [name.decode("ascii", "backslashreplace")[:64] or None for name in controls]}),
    ]
    frame = _numbers((one.info for one in snapshots), linux_tcp.FIELDS).hstack(
        [column for part in parts for column in part]
    )
    bandwidth = (pl.col("high").cast(pl.Float64) * 2**32 + pl.col("low")) * 8
    found = frame.with_columns(
        # The message's state is there without tcp_info, and the same where both are.
        State=pl.coalesce("State", "_state")
    ).select(
        *linux_tcp.columns(),
        *_ENDS,
        *_IDENTITY,
        pl.col("control").cast(pl.String).alias("congestion_control"),
        pl.when(bandwidth > 0).then(bandwidth).alias("bbr_bandwidth_bps"),
        pl.when(pl.col("min_rtt_us") < linux_tcp.NO_RTT).then(pl.col("min_rtt_us") * 1000).alias("bbr_min_rtt_ns"),
        pl.lit("tcp-info").alias("source"),
    )
    return conform("tcp", found)


def _numbers(structures: Iterable[bytes | None], fields: _Fields) -> pl.DataFrame:
    """Fields of C's structures, little-endian: null, not zero, where an older kernel's is too short for one."""
    found = [structure or b"" for structure in structures]
    size = max(offset + length for offset, length in fields.values())
    layout = np.dtype(
        {
            "names": list(fields),
            "formats": [f"<u{length}" for _, length in fields.values()],
            "offsets": [offset for offset, _ in fields.values()],
            "itemsize": size,
        }
    )
    records: npt.NDArray[np.void] = np.frombuffer(b"".join(one[:size].ljust(size, b"\0") for one in found), layout)
    lengths = pl.Series([len(one) for one in found], dtype=pl.Int64)
    # The last bytes of 64 bits are beyond Int64: null.
    return pl.DataFrame({name: np.ascontiguousarray(records[name]) for name in fields}).select(
        pl.when(lengths >= offset + length).then(pl.col(name).cast(pl.Int64, strict=False)).alias(name)
        for name, (offset, length) in fields.items()
    )


# Nearly all snapshots of a file are of one socket, and their messages begin alike.
@lru_cache(maxsize=4096)
def _ends(head: bytes) -> tuple[str | int | None, ...]:
    """Addresses and ports as `_ENDS` has them, and the state; null where there is no message, or none of IP.

    Ports are in network order, everything else as the machine has it (little-endian).
    """
    if not head or head[0] not in (_AF_INET, _AF_INET6):
        return (None,) * (len(_ENDS) + 1)
    local, remote = (_address(head[0], head[at : at + 16]) for at in (8, 24))
    return local, int.from_bytes(head[4:6], "big"), remote, int.from_bytes(head[6:8], "big"), head[1]


def _address(family: int, raw: bytes) -> str:
    if family == _AF_INET:
        return str(IPv4Address(raw[:4]))
    address = IPv6Address(raw)
    # IPv4 of sockets that listen to both is written ::ffff:192.0.2.1.
    return str(address.ipv4_mapped or address)
