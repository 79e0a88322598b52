"""Facts of an entry that are known without reading its packets or samples: its metadata, flattened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whydrop.errors import Error
from whydrop.recording.comparing.metadata_difference import flattened
from whydrop.web.library.finding import Candidate

# Longer values are of no use in a search.
_LONGEST = 300
# Hosts have thousands of settings: they are compared, and not searched.
_LEFT_OUT = re.compile(
    r"\.(sysctls|statistics|qdiscs|classes|addresses|routes|offloads|modules)[.\[]|^test\.(flows|plots|computed)"
)
_MOST_FACTS = 400

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


def describe(root: Path, candidate: Candidate) -> Description:
    """Describe an entry; one that cannot be read says why."""
    path = root / candidate.path
    if candidate.kind in ("capture", "store"):
        return Description(path.name)
    try:
        return _of_metadata(metadata(root, candidate))
    except (Error, OSError, ValueError) as reason:
        return Description(path.name, problem=str(reason).partition("\n")[0])


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
    facts: dict[str, str] = {}
    for key, value in flattened(metadata).items():
        if len(facts) < _MOST_FACTS and value not in (None, "") and not _LEFT_OUT.search(key):
            facts[key] = str(value)[:_LONGEST]
    return Description(
        name=str(metadata.get("name") or ""),
        title=str(metadata.get("title") or ""),
        started_ns=started_ns if isinstance(started_ns, int) and abs(started_ns) < 1 << 63 else None,
        duration_s=float(length_s) if isinstance(length_s, (int, float)) else None,
        status=str(metadata.get("status") or ""),
        facts=facts,
    )
