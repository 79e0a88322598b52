"""Tests that files made for measuring ingestion are what its reader takes them for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ingest import files as made

from whydrop.formats.archives.ingesting import ingest
from whydrop.store.store import Store


@pytest.mark.parametrize("generation", [made.first_generation, made.second_generation])
def test_every_sample_of_the_files_is_read_and_nothing_is_amiss(
    tmp_path: Path, generation: Callable[[Path, int], int]
) -> None:
    samples = generation(tmp_path / "in", 2)
    report = ingest(Store.create(tmp_path / "store"), [tmp_path / "in"])
    assert vars(report.tables()["counters"]) == {"rows": samples, "duplicates": 0, "conflicts": 0}
    assert [file.status for file in report.files] == ["new", "new"]
    assert not any(file.notes for file in report.files)
