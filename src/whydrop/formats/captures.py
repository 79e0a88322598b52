"""The first bytes of captures of packets, whatever they are called."""

from __future__ import annotations

# pcap in both orders of bytes, of microseconds, nanoseconds and of Kuznetzov's kernels; pcapng.
BEGINNINGS = (
    b"\xa1\xb2\xc3\xd4",
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x4d\x3c\xb2\xa1",
    b"\xa1\xb2\xcd\x34",
    b"\x34\xcd\xb2\xa1",
    b"\n\r\r\n",
)
