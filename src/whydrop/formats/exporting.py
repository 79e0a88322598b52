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
        from whydrop.formats.flent import exporting as flent

        return flent.exported
    if to == "csv":
        from whydrop.formats import csv

        return csv.gridded
    if to == "json":
        from whydrop.formats import json

        return json.exported
    raise KeyError(to)


def content(recording: Recording, to: str, *, raw: bool = False) -> bytes:
    """The contents of an exported file; ``raw``: as CSV with a line for each sample."""
    if raw:
        from whydrop.formats import csv

        return csv.raw(recording)
    return exporter(to)(recording)


def write(recording: Recording, to: str, path: Path, *, raw: bool = False) -> Path:
    """Export a recording into a file, whole or not at all, or copy it into a folder; return the path.

    Raises:
        OSError: the file cannot be written.
        RecordingError: the folder cannot be written.
    """
    if to == "recording":
        return recording.save(path)
    from whydrop.runtime import durable

    durable.write_bytes(path, content(recording, to, raw=raw))
    return path


def beside(recording: Recording, to: str) -> Path:
    """Where a recording is exported to by default: beside it, under its name."""
    path = recording.path
    parent = path.absolute().parent
    if to == "recording":
        from whydrop.recording.writer import folder_for

        metadata = recording.metadata
        return folder_for(parent, str(metadata["name"]), recording.started_ns, str(metadata["title"] or ""))
    name = path.name
    for ending in (".recording", ".gz", ".bz2", ".flent", ".flnt", ".json"):
        name = name.removesuffix(ending)
    return parent / f"{name}{suffix(to)}"


def redacted(recording: Recording) -> Recording:
    """A recording with pseudonyms for names and addresses of hosts, and without secrets."""
    from whydrop.recording import tables
    from whydrop.recording.redaction import redacted as pseudonymous

    frames = [(name, recording.table(name)) for name in tables.TABLES]
    metadata, changed = pseudonymous(recording.metadata, frames)
    return Recording(recording.path, metadata, {name: frame for name, frame in changed.items() if frame.height})
