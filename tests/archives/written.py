"""Files as web100 and tcp-info would write them, with values that a test chooses."""

from __future__ import annotations

import base64
import gzip
import io
import json
import struct
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

MARK = b"----Begin-Snap-Data----\n"
_FORMATS = {0: "<i", 1: "<i", 3: "<I", 4: "<I", 5: "<I", 6: "<I", 7: "<Q", 8: "<H"}

# Variable and web100's type.
VARIABLES: dict[str, int] = {
    "LocalAddress": 9, "RemAddress": 9, "State": 0, "StartTimeSec": 1, "StartTimeUsec": 1, "Duration": 7,
    "ThruBytesAcked": 7, "DataBytesOut": 3, "PktsOut": 3, "PktsRetrans": 3, "SumRTT": 3, "CountRTT": 3, "MinRTT": 4,
    "SmoothedRTT": 4, "CurCwnd": 4, "CurSsthresh": 4, "CongestionSignals": 3, "SndLimTimeRwin": 3,
}  # fmt: skip


def address(text: str) -> bytes:
    """An INET_ADDRESS: 16 bytes and the kind."""
    from ipaddress import ip_address

    packed = ip_address(text).packed
    return packed.ljust(16, b"\0") + bytes([1 if len(packed) == 4 else 2])


def snaplog(
    records: Sequence[Mapping[str, Any]],
    variables: Mapping[str, int] = VARIABLES,
    kernel: str = "2.5.27 201001301335 net100",
) -> bytes:
    """A snaplog. What a record lacks is zero; addresses are text."""
    lines, offset = [], 0
    for name, kind in variables.items():
        size = 17 if kind in (9, 10) else struct.calcsize(_FORMATS[kind])
        lines.append(f"{name} {offset} {kind} {size}")
        offset += size
    listed = "\n".join(lines)
    header = f"{kernel}\n\n/spec\nState 0 0 4\n\n/read\n{listed}\n\n/tune\nState 0 0 4\n\0----End-Of-Header---- -1 -1\n"
    out = [header.encode(), struct.pack("<I32sH2x4sH2x4s", 1493553266, b"read\0?", 53088, b"\0" * 4, 3010, b"\0" * 4)]
    for record in records:
        out.append(MARK)
        for name, kind in variables.items():
            value = record.get(name, "192.0.2.1" if kind in (9, 10) else 0)
            out.append(address(value) if kind in (9, 10) else struct.pack(_FORMATS[kind], value))
    return b"".join(out)


def tcp_info_lines(snapshots: Sequence[tuple[str, bytes]], uuid: str = "host_1500000000_00000000000000AB") -> bytes:
    """tcp-info's JSON lines; each snapshot is a time and the bytes of struct tcp_info."""
    message = bytes([10, 1, 0, 0]) + struct.pack(">HH", 443, 50000) + b"\0" * 10 + b"\xff\xff\xc0\0\2\1"
    message += b"\0" * 10 + b"\xff\xff\xc6\x33\x64\7" + b"\0" * 32
    metadata = {"UUID": uuid, "Sequence": 0, "StartTime": "2019-05-16T00:00:05Z"}
    lines = [json.dumps({"Timestamp": "0001-01-01T00:00:00Z", "Metadata": metadata})]
    for time, info in snapshots:
        attributes = [None, None, base64.b64encode(info).decode(), None, base64.b64encode(b"cubic\0").decode()]
        record = {"Timestamp": time, "RawIDM": base64.b64encode(message).decode(), "Attributes": attributes}
        lines.append(json.dumps(record))
    return "".join(line + "\n" for line in lines).encode()


def zstd(content: bytes) -> bytes:
    import pyarrow

    sink = pyarrow.BufferOutputStream()
    with pyarrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def tar(members: Mapping[str, bytes], *, packed: bool = False, form: int = tarfile.USTAR_FORMAT) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(file.getvalue(), mtime=0) if packed else file.getvalue()


def flipped(content: bytes, bits: Sequence[int]) -> bytes:
    """``content`` with bits turned over, each counted from the start, around the end."""
    changed = bytearray(content)
    for bit in bits:
        changed[bit // 8 % len(changed)] ^= 1 << bit % 8
    return bytes(changed)
