"""Recordings of connections, watched or imported, taken apart: what each met is its own, as each has a path of its own.

The flows of a test share its path, and are judged together. What a host's connections have in common is only the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from whydrop.explaining.recordings.measures.series import COLUMNS
from whydrop.explaining.recordings.thresholds import MOST_CONNECTIONS
from whydrop.recording import document
from whydrop.recording.recording import Recording

# What a recording of connections is called: one that was watched, or imported.
_NAMES = ("watch", "connections")


def are_in(recording: Recording) -> bool:
    """True if a recording is of a host's connections, and not of a test."""
    return recording.metadata["name"] in _NAMES


def apart(recording: Recording) -> tuple[Iterator[Recording], list[str]]:
    """A recording for each connection that carried something, or the test as it is; and what a reader should know.

    Of many connections those that carried most are taken.
    """
    if not are_in(recording):
        return iter([recording]), []
    flows = recording.table("flows")
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in flows.filter(pl.col("kind") == "tcp").iter_rows(named=True):
        facts = document.json_object(row["facts"]) if row["facts"] else {}
        own = facts.get("cookie") if isinstance(facts, dict) else None
        groups.setdefault((own, row["host"]) if own is not None else row["flow"], []).append(row)
    carried = sorted(groups.values(), key=lambda rows: -sum(row["payload_bytes"] or 0 for row in rows))
    notes = []
    if len(carried) > MOST_CONNECTIONS:
        notes.append(
            f"{len(carried)} connections: the {MOST_CONNECTIONS} that carried most are explained; "
            "`whydrop watch` and `whydrop import` can choose others"
        )
        carried = carried[:MOST_CONNECTIONS]
    return _each(recording, flows, carried), notes


def _each(recording: Recording, flows: pl.DataFrame, groups: list[list[dict[str, Any]]]) -> Iterator[Recording]:
    for group in groups:
        numbers = [row["flow"] for row in group]
        tables = {
            name: pl.concat([recording.of_flow(name, number, *columns) for number in numbers])
            for name, columns in COLUMNS.items()
        }
        own = flows.filter(pl.col("flow").is_in(numbers))
        yield Recording(recording.path, recording.metadata, {"flows": own, **tables})
