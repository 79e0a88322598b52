"""Names of recordings' folders."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

SUFFIX = ".recording"

# Most file systems take names of 255 bytes; a number may have to be added to make a name unique.
_LONGEST_NAME = 240


def folder_for(parent: Path, test: str, started_ns: int, title: str = "") -> Path:
    """A folder that is not there yet: ``<test>-<time>[.<title>].recording``, the time in UTC.

    >>> folder_for(Path("/nowhere"), "rrul", 1_700_000_000_500_000_000, "fq_codel, 10 Mbit/s").name
    'rrul-2023-11-14T221320.500Z.fq_codel_10_Mbit_s.recording'
    """
    name = f"{_clean(Path(test).stem) or 'test'}-{_time(started_ns)}"
    if title:
        name += f".{_clean(title)}"
    # What is left of the name are ASCII letters, one byte each.
    name = name[: _LONGEST_NAME - len(SUFFIX)]
    folder = parent / f"{name}{SUFFIX}"
    number = 2
    while folder.exists():
        folder = parent / f"{name}-{number}{SUFFIX}"
        number += 1
    return folder


def _time(instant_ns: int) -> str:
    try:
        moment = datetime.fromtimestamp(instant_ns // 1_000_000_000, UTC)
    except (OverflowError, OSError, ValueError):
        return str(instant_ns)
    return f"{moment:%Y-%m-%dT%H%M%S}.{instant_ns // 1_000_000 % 1000:03d}Z"


def _clean(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_")
