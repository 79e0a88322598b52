"""Recordings as files of other tools: Flent's, CSV (RFC 4180, in UTF-8, with a line of names), JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from whydrop.recording import document
from whydrop.recording.recording import Recording
from whydrop.text import csv

SCHEMA = 1  # of a recording as JSON

_SUFFIXES = {"flent": ".flent.gz", "csv": ".csv", "json": ".json"}


def content(recording: Recording, to: str, *, raw: bool = False) -> bytes:
    """The contents of an exported file; ``raw``: as CSV with a line for each sample.

    Raises:
        KeyError: there is no such format.
    """
    if raw:
        return _raw_csv(recording)
    if to == "flent":
        from whydrop.formats.flent import exporting as flent

        return flent.exported(recording)
    if to == "csv":
        # As Flent's: a line a step, ``time_s`` since the start, and a column for each series, empty in gaps.
        return csv.text(recording.grid()).encode()
    if to == "json":
        found = _as_json(recording)
        return json.dumps(found, ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")
    raise KeyError(to)


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
    return parent / f"{name}{_SUFFIXES[to]}"


def redacted(recording: Recording) -> Recording:
    """A recording with pseudonyms for names and addresses of hosts, and without secrets."""
    from whydrop.recording import tables
    from whydrop.recording.redaction import redacted as pseudonymous

    frames = [(name, recording.table(name)) for name in tables.TABLES]
    metadata, changed = pseudonymous(recording.metadata, frames)
    return Recording(recording.path, metadata, {name: frame for name, frame in changed.items() if frame.height})


def _raw_csv(recording: Recording) -> bytes:
    """A line a sample: ``series``, ``units``, ``time_ns`` since the Unix epoch, ``value`` (empty: there is none)."""
    import polars as pl

    frames = [
        recording.samples(series.name).select(
            pl.lit(series.name).alias("series"), pl.lit(series.units).alias("units"), "time_ns", "value"
        )
        for series in recording.series()
    ]
    if not frames:
        return b"series,units,time_ns,value\n"
    return csv.text(pl.concat(frames)).encode()


def _as_json(recording: Recording) -> dict[str, Any]:
    """One document: metadata, series with their samples, and the grid. See docs/recordings.md.

    Times of samples are seconds since the Unix epoch, with nanoseconds; those of the grid since the start.
    """
    from whydrop.recording.metrics.summary import Summary

    grid = recording.grid()
    series = []
    for one in recording.series():
        samples = recording.samples(one.name)
        series.append(
            {
                "name": one.name,
                "kind": one.kind,
                "quantity": one.quantity,
                "units": one.units,
                "flow": one.flow,
                "time_s": (samples["time_ns"] / 1e9).to_list(),
                "value": samples["value"].to_list(),
            }
        )
    return {
        "schema": SCHEMA,
        "metadata": json.loads(document.text(recording.metadata)),
        "summary": json.loads(document.text(Summary(recording).document())),
        "flows": json.loads(document.text({"flows": recording.table("flows").to_dicts()}))["flows"],
        "series": series,
        "grid": {
            "time_s": grid["time_s"].to_list(),
            "values": {name: grid[name].to_list() for name in grid.columns if name != "time_s"},
        },
    }
