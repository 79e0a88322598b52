"""Facts of an entry that are known without reading its packets or samples: its metadata, flattened."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import struct
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO, Any

from whydrop.errors import Error
from whydrop.formats import kinds
from whydrop.recording.comparing.metadata_difference import flattened
from whydrop.web.library.finding import Candidate, is_named_test

# Longer values are of no use in a search.
_LONGEST = 300
# Hosts have thousands of settings: they are compared, and not searched.
_LEFT_OUT = frozenset(("sysctls", "statistics", "qdiscs", "classes", "addresses", "routes", "offloads", "modules"))
_OF_TESTS = frozenset(("flows", "plots", "computed"))
_MOST_FACTS = 400
# Larger files of other tools are opened, and not described: that would take minutes.
_LARGEST_BYTES = 64 << 20
_LARGEST_CAPTURE_BYTES = 256 << 20

# Magic numbers of pcap.
_MICROSECONDS, _NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D

# Keys of Flent's and iperf3's JSON, and of DISCO's telemetry; where two of them are, the file is theirs.
_MARKS = (
    b'"metadata"', b'"results"', b'"x_values"', b'"raw_values"', b'"start"', b'"intervals"', b'"iperf', b'"experiment"',
    b'"metric"', b'"sample"', b'"connected"', b'"event"', b'"test_start"',
)  # fmt: skip
_FEWEST_MARKS = 2
_HEAD = 1 << 16
_OPENERS: Mapping[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file), b"BZh": bz2.BZ2File, b"\xfd7z": lzma.LZMAFile,
}  # fmt: skip

_NUMBER = re.compile(r"\s*([-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")


@dataclass(frozen=True)
class Description:
    """An entry of the library.

    Attributes:
        name: of the test, or of the file.
        title: that its user gave it.
        started_ns: UTC; ``None`` where that is unknown.
        duration_s: of the test.
        status: of a recording; else empty.
        problem: why it cannot be read; else empty.
        facts: further values by dotted key.
    """

    name: str
    title: str = ""
    started_ns: int | None = None
    duration_s: float | None = None
    status: str = ""
    problem: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)


def describe(root: Path, candidate: Candidate) -> Description | None:
    """Describe an entry; one that cannot be read says why. ``None`` if it is of no kind that is listed."""
    path = root / candidate.path
    try:
        if candidate.kind == "capture":
            return _of_large_capture(path) if candidate.size_bytes > _LARGEST_CAPTURE_BYTES else _of_capture(path)
        if candidate.kind == "store" or candidate.size_bytes > _LARGEST_BYTES:
            return Description(path.name)
        if candidate.kind == "file" and not _is_of_a_test(path):
            return None
        return _of_metadata(metadata(root, candidate))
    except (Error, OSError, ValueError) as reason:
        if not os.path.lexists(path):
            return Description(path.name, problem="its name is no UTF-8, or it has just been removed")
        return Description(path.name, problem=_without(str(reason).partition("\n")[0], path))


def _without(words: str, path: Path) -> str:
    """A sentence about a file without its path, which is shown beside it."""
    return words.replace(f"{path}: ", "").replace(f"{path}/", "")


def _of_capture(path: Path) -> Description:
    """By its first packet, which also shows that it is one."""
    import whydrop

    times = whydrop.packets(path, most=1).table["time_ns"].to_list()
    return Description(path.name, started_ns=times[0] if times else None)


def _of_large_capture(path: Path) -> Description:
    """By its first bytes: :func:`whydrop.packets` reads a file to its end."""
    with path.open("rb") as file:
        head = file.read(32)
    for order in "<>":
        magic, seconds, fraction = (struct.unpack_from(f"{order}I", head.ljust(32), at)[0] for at in (0, 24, 28))
        if magic in (_MICROSECONDS, _NANOSECONDS):
            nanoseconds = fraction * (1000 if magic == _MICROSECONDS else 1)
            return Description(path.name, started_ns=seconds * 1_000_000_000 + nanoseconds)
    return Description(path.name)


def _is_of_a_test(path: Path) -> bool:
    """True if a file looks like a test of a known tool, or is called so; most other JSON is of something else."""
    if is_named_test(path.name):
        return True
    if kinds.is_of_connections(path):
        # An archive of whatever: only a look at all of it could show.
        return not tarfile.is_tarfile(path)
    plain = _head(path).replace(b"\0", b"")
    return sum(mark in plain for mark in _MARKS) >= _FEWEST_MARKS


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        magic = file.read(3)
        opener = next((opener for start, opener in _OPENERS.items() if magic.startswith(start)), None)
        file.seek(0)
        if opener is None:
            return file.read(_HEAD)
        with opener(file) as unpacked:
            try:
                return bytes(unpacked.read(_HEAD))
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
                return b""


def number(text: str) -> float | None:
    """The number that a value begins with: ``50ms`` is 50.

    >>> number("50ms"), number("-1.5"), number("cubic")
    (50.0, -1.5, None)
    """
    found = _NUMBER.match(text)
    return float(found[1]) if found else None


def metadata(root: Path, candidate: Candidate) -> dict[str, Any]:
    """The metadata of a recording, or of another tool's file; of a capture and a store there are none.

    Raises:
        Error: it cannot be read.
    """
    path = root / candidate.path
    if candidate.kind in ("capture", "store"):
        return {}
    if candidate.kind == "recording":
        from whydrop.recording import document

        return document.read(path)
    from whydrop.formats.importing import open_recordings

    return open_recordings(path)[0].metadata


def _of_metadata(metadata: Mapping[str, Any]) -> Description:
    started_ns, test = metadata.get("started_ns"), metadata.get("test") or {}
    length_s = test.get("length_s")
    facts = {key: str(value)[:_LONGEST] for key, value in islice(_facts(metadata), _MOST_FACTS)}
    return Description(
        name=str(metadata.get("name") or ""),
        title=str(metadata.get("title") or ""),
        started_ns=started_ns if isinstance(started_ns, int) and abs(started_ns) < 1 << 63 else None,
        duration_s=float(length_s) if isinstance(length_s, (int, float)) else None,
        status=str(metadata.get("status") or ""),
        facts=facts,
    )


def _facts(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys and values as those of ``flattened``, without the branches that are left out: most of the metadata."""
    for key, value in metadata.items():
        if not isinstance(value, (dict, list)):
            if value not in (None, ""):
                yield key, value
            continue
        kept = _pruned(value, _OF_TESTS if key == "test" else frozenset())
        yield from ((name, leaf) for name, leaf in flattened({key: kept}).items() if leaf not in (None, ""))


def _pruned(value: Any, left_out: frozenset[str] = frozenset()) -> Any:
    if isinstance(value, dict):
        return {
            key: _pruned(child)
            for key, child in value.items()
            if key not in left_out and not (key in _LEFT_OUT and isinstance(child, (dict, list)))
        }
    if isinstance(value, list) and any(isinstance(child, (dict, list)) for child in value):
        return [_pruned(child) for child in value]
    return value
