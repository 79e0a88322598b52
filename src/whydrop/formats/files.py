"""Reading JSON files of other tools: compressed or not, of a size that fits in memory."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import zlib
from pathlib import Path
from typing import IO, Any

from whydrop.formats.kinds import OF_CAPTURES
from whydrop.recording.errors import RecordingError

# Far more than any of these tools writes in a day; a compressed file that grows beyond it is hostile.
MOST_BYTES = 1 << 28

# What is made of JSON may be twenty times as large: bytes of Python for each list, each object, and each further value.
_BYTES_IN_MEMORY = ((b"[", 72), (b"{", 80), (b",", 32))
_MOST_BYTES_IN_MEMORY = 1 << 29

_OPENERS: tuple[tuple[bytes, Any], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ", lzma.open),
)

_END_OF_INT64 = 2.0**63

# Zstd and lz4, which none of the expected files is compressed with.
_COMPRESSED_CAPTURES = (b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")


def require_moderate(content: bytes, path: Path) -> None:
    """Refuse JSON that would take too much memory once it is read.

    Raises:
        RecordingError: it would.
    """
    if sum(content.count(sign) * size for sign, size in _BYTES_IN_MEMORY) > _MOST_BYTES_IN_MEMORY:
        raise RecordingError(f"{path}: more values than a file of such a tool holds: too much to be read")


def parsed(content: bytes, path: Path) -> Any:
    """The JSON document that a file of another tool holds.

    Raises:
        RecordingError: it is no JSON.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as reason:
        if content.startswith(OF_CAPTURES + _COMPRESSED_CAPTURES):
            raise RecordingError(f"{path}: a capture of packets, no recording: try `whydrop explain`") from None
        raise RecordingError(
            f"{path}: no recording and no JSON ({reason}). Expected a folder NAME.recording, a file of Flent or "
            "netperf-wrapper, or the output of iperf3 --json"
        ) from None


def read(path: Path) -> bytes:
    """A file's content, plain or compressed with gzip, bzip2 or xz, whatever the file is called.

    Raises:
        RecordingError: it cannot be read, is damaged, or is larger than such files are.
    """
    try:
        with _opened(path) as file:
            content: bytes = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise RecordingError(f"{path}: there is no such file or folder") from None
    except EOFError as reason:
        raise RecordingError(f"{path}: the compressed file ends too early") from reason
    except (zlib.error, lzma.LZMAError) as reason:
        raise RecordingError(f"{path}: the compressed file is damaged: {reason}") from reason
    except OSError as reason:
        raise RecordingError(f"{path}: {reason.strerror or reason}") from reason
    if len(content) > MOST_BYTES:
        raise RecordingError(f"{path}: more than {MOST_BYTES >> 20} MiB of JSON, the most that whydrop reads")
    return content


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        head = file.read(8)
    opener = next((opener for magic, opener in _OPENERS if head.startswith(magic)), open)
    opened: IO[bytes] = opener(path, "rb")
    return opened


def nanoseconds(seconds: Any) -> int | None:
    """Seconds since the epoch, as JSON has them, in nanoseconds; exact, unlike the product.

    >>> nanoseconds(1496158967.152647), nanoseconds("x"), nanoseconds(float("inf"))
    (1496158967152647018, None, None)
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not abs(seconds) < 9e9:
        return None
    whole = int(seconds // 1)
    return whole * 1_000_000_000 + round((seconds - whole) * 1e9)


def number(value: Any) -> float | None:
    """A finite number, or ``None``.

    >>> number(3), number("35"), number(True), number("many")
    (3.0, 35.0, None, None)
    """
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < float("inf") else None


def rounded(value: float | None, factor: float = 1.0) -> int | None:
    """A number in a smaller unit, rounded; ``None`` where there is none, or none that 64 bits hold.

    >>> rounded(1.5, 1000.0), rounded(None), rounded(1e300), rounded(1e308, 1e9)
    (1500, None, None, None)
    """
    if value is None:
        return None
    product = value * factor
    return round(product) if abs(product) < _END_OF_INT64 else None
