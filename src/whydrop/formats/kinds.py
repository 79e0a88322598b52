"""The kind of a file by its content: a capture of packets, or a recording of a test.

Of the standard library and of whydrop only what costs nothing to import: each start of ``whydrop explain`` asks.
"""

# ruff: noqa: PTH112, PTH113, PTH116, PTH118, PTH119, PTH123
# Importing pathlib would take longer than the question.

from __future__ import annotations

import os
import stat

# As type checkers know it; importing typing would take longer than the question.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

# The first bytes of captures of packets: pcap in both orders of bytes, of microseconds, nanoseconds and of Kuznetzov's
# kernels; pcapng.
OF_CAPTURES = (
    b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\xcd\x34",
    b"\x34\xcd\xb2\xa1", b"\n\r\r\n",
)  # fmt: skip

_HEAD = 4096
# bzip2 gives nothing before the end of its first block, which is up to 900 kB.
_BZIP2_HEAD = 1 << 20
_DESCRIPTION = "recording.json"
_STORE = "whydrop-store.json"

# Of ss with and without its line of titles; of bcc's tcpretrans and tcpdrop.
_OF_LOGS = (b"Recv-Q", b"ESTAB ", b"LADDR:LPORT", b"SADDR:SPORT")
# Keys of tcp-info's lines and of NDT7's and MSAK's results; and of DISCO's telemetry, Flent's and iperf3's files, and
# of MSAK's latency1.
_OF_CONNECTIONS = (b'"RawIDM"', b'"GitShortCommit"', b'"ServerMeasurements"', b'"Download"', b'"Upload"')
_OF_IPERF3 = (
    (b'"start"', b'"version"', b'"iperf 3'),
    (b'"event"', b'"data"', b'"start"'),
    (b'"start"', b'"intervals"'),
)
# Lists of runs, and of points in time for esmond, as pScheduler writes them.
_OF_PSCHEDULER = (b'"succeeded"', b'"event-type"', b'"result-merged"')
_OF_TESTS = (b'"experiment"', b'"x_values"', b'"intervals"', b'"RoundTrips"')


def is_recording(path: str | Path) -> bool:
    """True if a path is a recording, or another tool's file of a test or of connections, plain or compressed.

    Whatever cannot be read is none: who reads it as a capture says why. Standard input and pipes are captures.
    """
    name = os.fspath(path)
    if name == "-":
        return False
    if os.path.isdir(name):
        return os.path.isfile(os.path.join(name, _DESCRIPTION))
    if os.path.basename(name) == _DESCRIPTION:
        return os.path.isfile(name)
    head = _head(name)
    return _is_json(head) or _is_of_connections(name, head) or _is_log_of_iperf3(head) or _is_list_of_runs(head)


def is_store(path: str | Path) -> bool:
    """True if a path is the folder of a store."""
    return os.path.isfile(os.path.join(os.fspath(path), _STORE))


def is_of_connections(path: str | Path) -> bool:
    """True if a file has TCP's statistics of connections: a snaplog, a log of ss, a platform's archive, ..."""
    name = os.fspath(path)
    return _is_of_connections(name, _head(name))


def _is_json(head: bytes) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def _is_log_of_iperf3(head: bytes) -> bool:
    """True if JSON of iperf3 stands in a log, behind text or stamps, or as UTF-16."""
    plain = head.replace(b"\0", b"")
    return any(all(key in plain for key in keys) for keys in _OF_IPERF3)


def _is_list_of_runs(head: bytes) -> bool:
    return head.lstrip().startswith(b"[") and any(key in head for key in _OF_PSCHEDULER)


def _is_of_connections(name: str, head: bytes) -> bool:
    if _is_json(head):
        return any(key in head for key in _OF_CONNECTIONS) and not any(key in head for key in _OF_TESTS)
    return (
        head.startswith(b"K: ")
        or b"\n/spec\n" in head[:256]
        or head[257:262] == b"ustar"
        or name.endswith(".jsonl.zst")
        or (b"\0" not in head and any(words in head for words in _OF_LOGS))
    )


def _head(name: str) -> bytes:
    """The beginning of what a file holds; empty of a capture, and of what cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            return b""
        with open(name, "rb") as file:
            head = file.read(_HEAD)
            if head.startswith(b"BZh"):
                head += file.read(_BZIP2_HEAD)
    except OSError:
        return b""
    return b"" if head.startswith(OF_CAPTURES) else _plain(head)


def _plain(head: bytes) -> bytes:
    """The beginning of what a file holds, unpacked where it is compressed; empty where it is damaged."""
    try:
        if head.startswith(b"\x1f\x8b"):
            import zlib

            return zlib.decompressobj(31).decompress(head, _HEAD)
        if head.startswith(b"BZh"):
            import bz2

            return bz2.BZ2Decompressor().decompress(head, _HEAD)
        if head.startswith(b"\xfd7zXZ"):
            import lzma

            return lzma.LZMADecompressor().decompress(head, _HEAD)
    except Exception:
        # zlib.error, lzma.LZMAError, OSError, ValueError, EOFError: the reader of the whole file says what is wrong.
        return b""
    return head
