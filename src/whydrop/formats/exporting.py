"""Recordings as files of other tools: Flent's, CSV, JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from whydrop.recording.recording import Recording

FORMATS = ("flent", "csv", "json")

_SUFFIXES = {"flent": ".flent.gz", "csv": ".csv", "json": ".json"}


def suffix(to: str) -> str:
    """The suffix of exported files' names.

    >>> suffix("flent")
    '.flent.gz'
    """
    return _SUFFIXES[to]


def exporter(to: str) -> Callable[[Recording], bytes]:
    """The function that turns a recording into the contents of a file.

    Raises:
        KeyError: there is no such format.
    """
    if to == "flent":
        from whydrop.formats.flent import writing as flent

        return flent.exported
    if to == "csv":
        from whydrop.formats import csv

        return csv.gridded
    if to == "json":
        from whydrop.formats import json

        return json.exported
    raise KeyError(to)


def write(recording: Recording, to: str, path: Path) -> None:
    """Export a recording into a file, whole or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    from whydrop.runtime import durable

    durable.write_bytes(path, exporter(to)(recording))
