"""Tests of what is kept of the series of recordings: it is as if each were read, and read again where it changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import recordings
import whydrop
from whydrop.recording.recording import Recording
from whydrop.web.work import comparison, kept_kinds
from whydrop.web.work.comparison import Comparison
from whydrop.web.work.kept_kinds import KeptKinds


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Two recordings with the same series."""
    paths = [tmp_path / "1.recording", tmp_path / "2.recording"]
    for path in paths:
        recordings.rrul(path)
    return [str(path) for path in paths]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the recordings that were read for their series."""
    found: list[str] = []
    digest = kept_kinds.digest

    def told(recording: Recording) -> bytes:
        found.append(recording.path.name)
        return digest(recording)

    monkeypatch.setattr(kept_kinds, "digest", told)
    return found


def page(paths: list[str], folder: Path) -> dict[str, Any]:
    return Comparison(lambda _: None, paths, [str(folder)]).page()


def test_recordings_are_read_once_and_not_again(two: list[str], tmp_path: Path, read: list[str]):
    first = page(two, tmp_path)
    assert read == ["1.recording", "2.recording"]
    assert page(two, tmp_path) == first
    assert len(read) == 2


def test_a_recording_that_changed_is_read_again(two: list[str], tmp_path: Path, read: list[str]):
    page(two, tmp_path)
    read.clear()
    (Path(two[1]) / "intervals.parquet").unlink()
    recordings.rrul(Path(two[1]).with_name("3.recording"), scale=2.0)
    (tmp_path / "3.recording" / "intervals.parquet").rename(Path(two[1]) / "intervals.parquet")
    page(two, tmp_path)
    assert read == ["2.recording"]


def test_a_damaged_file_of_kinds_is_made_again(two: list[str], tmp_path: Path, read: list[str]):
    (tmp_path / "series.sqlite").write_bytes(b"no database" * 100)
    first = page(two, tmp_path)
    read.clear()
    assert page(two, tmp_path) == first
    assert read == []


def test_without_a_folder_that_can_be_written_all_are_read(two: list[str], tmp_path: Path, read: list[str]):
    assert page(two, tmp_path / "none") == Comparison(lambda _: None, two).page()
    assert len(read) == 4


def test_recordings_with_other_series_are_of_another_kind(two: list[str], tmp_path: Path):
    whole = whydrop.open(two[0])
    (Path(two[1]) / "tcp_info.parquet").unlink()
    metadata = {**whole.metadata, "tables": {}}
    less = Recording(two[1], metadata, {name: whole.table(name) for name in ("flows", "probes")})
    with KeptKinds([tmp_path]) as kept:
        assert kept.kind_of(whole) != kept.kind_of(less)


def test_progress_counts_the_recordings(two: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(comparison, "_TELL_EVERY_S", -1.0)
    told: list[Any] = []
    Comparison(told.append, two).page()
    assert told == [{"done": 1, "of": 2}, {"done": 2, "of": 2}]
