"""The time to load a page with all its objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import recordings
from recordings import MS, START_NS, S
from whydrop.recording import tables
from whydrop.recording.metrics.definitions import measure
from whydrop.recording.recording import Recording


def recorded(tmp_path: Path, fetches: list[dict[str, Any]], urls: int) -> Recording:
    """A load from 0 to 10 s, and fetches at times in ms."""
    flows = [
        {"flow": 0, "name": "TCP download", "kind": "tcp", "direction": "down", "start_ns": START_NS,
         "end_ns": START_NS + 10 * S},
        {"flow": 1, "name": "HTTP latency", "kind": "http", "facts": f'{{"urls": {urls}}}', "start_ns": START_NS,
         "end_ns": START_NS + 10 * S},
    ]  # fmt: skip
    rows = [
        {**row, "flow": 1, "start_ns": START_NS + row["start_ns"] * MS, "duration_ns": row["duration_ns"] * MS}
        for row in fetches
    ]
    made = {"flows": pl.DataFrame(flows, infer_schema_length=None), "fetches": pl.DataFrame(rows)}
    return Recording(
        tmp_path, recordings.metadata(), {name: tables.conform(name, frame) for name, frame in made.items()}
    )


def fetch(number: int | None, start_ms: int, takes_ms: int, error: str | None = None) -> dict[str, Any]:
    return {"round": number, "start_ns": start_ms, "duration_ns": takes_ms, "error": error}


def test_a_page_is_loaded_from_the_start_of_its_first_fetch_to_the_end_of_its_last(tmp_path: Path) -> None:
    first = [fetch(0, 1000, 200), fetch(0, 1000, 900), fetch(0, 1200, 400)]
    second = [fetch(1, 2000, 100), fetch(1, 2000, 1500), fetch(1, 2100, 100)]
    failed = [fetch(2, 4000, 10), fetch(2, 4000, 10, "status 404"), fetch(2, 4010, 10)]
    late = [fetch(3, 9000, 100), fetch(3, 9000, 2000), fetch(3, 9100, 100)]
    cut_off = [fetch(4, 9900, 50)]
    found = measure(recorded(tmp_path, first + second + failed + late + cut_off, 3))["page-time"]
    assert found.value == pytest.approx((900 + 1500) / 2)
    assert found.basis == "2 loads of 3 objects; 3 did not end in time or had a failed fetch"


def test_a_page_that_never_ended_has_no_time(tmp_path: Path) -> None:
    found = measure(recorded(tmp_path, [fetch(0, 1000, 20_000), fetch(0, 1000, 1)], 2))["page-time"]
    assert found.value != found.value
    assert found.basis.startswith("not known; 0 loads of 2 objects; 1 did not end in time")


@pytest.mark.parametrize(("number", "urls"), [(None, 3), (0, 1)])
def test_single_addresses_and_recordings_without_rounds_have_no_page(
    tmp_path: Path, number: int | None, urls: int
) -> None:
    assert "page-time" not in measure(recorded(tmp_path, [fetch(number, 1000, 20)], urls))
