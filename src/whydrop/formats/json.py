"""A recording as one JSON document: metadata, series with their samples, and the grid. See docs/recordings.md."""

from __future__ import annotations

import json
from typing import Any

from whydrop.recording import document
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording

SCHEMA = 1


def exported(recording: Recording) -> bytes:
    """The document, in UTF-8."""
    return json.dumps(as_document(recording), ensure_ascii=False, allow_nan=False).encode(errors="backslashreplace")


def as_document(recording: Recording) -> dict[str, Any]:
    """The document as Python's objects.

    Times of samples are seconds since the Unix epoch, with nanoseconds; those of the grid since the start.
    """
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
