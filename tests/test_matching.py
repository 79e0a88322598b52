"""Matching alone: from Python, and the files that are written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from synthetic_pair import FLOW, paired_transfer
from whydrop.explaining.matching import FORMATS, Matching

READERS: dict[str, Callable[[Path], pl.DataFrame]] = {
    ".parquet": pl.read_parquet,
    ".csv": pl.read_csv,
    ".arrow": pl.read_ipc,
}


@pytest.fixture(scope="module")
def matching() -> Matching:
    return Matching(paired_transfer(packets=2000))


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_packet_is_written_with_the_name_of_its_flow(matching: Matching, tmp_path: Path, suffix: str):
    target = tmp_path / f"packets{suffix}"
    rows = matching.write(target)
    frame = READERS[suffix](target)
    assert frame.height == rows == matching.crossings.height
    assert frame.filter(pl.col("crossing") == "lost").height == matching.pair.lost
    assert frame.filter(pl.col("flow_name") == FLOW)["flow"].unique().to_list() == [0]
    assert frame["sent_ns"].to_list() == matching.crossings["sent_ns"].to_list()
    assert frame["transit_ns"].null_count() == matching.pair.lost


def test_parquet_carries_the_pair_in_its_metadata(matching: Matching, tmp_path: Path):
    target = tmp_path / "packets.parquet"
    matching.write(target)
    pair = json.loads(pl.read_parquet_metadata(target)["whydrop_pair"])
    assert pair["clock_offset_s"] == matching.pair.clock_offset_s


def test_a_file_that_is_there_already_is_replaced(matching: Matching, tmp_path: Path):
    target = tmp_path / "packets.csv"
    target.write_text("old")
    matching.write(target)
    assert target.read_text(encoding="utf-8").startswith("flow,")


@pytest.mark.parametrize("name", ["packets.xlsx", "packets", "packets.parquet.zip"])
def test_another_suffix_is_refused_before_anything_is_written(matching: Matching, tmp_path: Path, name: str):
    with pytest.raises(ValueError, match="suffix chooses the format"):
        matching.write(tmp_path / name)
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_full_disk_is_an_error_that_names_the_file(matching: Matching, tmp_path: Path, suffix: str):
    target = tmp_path / f"full{suffix}"
    target.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as raised:
        matching.write(target)
    assert raised.value.filename == str(target)


def test_a_matching_shows_what_it_found(matching: Matching):
    assert "packets matched" in repr(matching)
