"""Statistics of connections are one thing, whether they were watched, published, or read from a store."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from archives.outcomes import tables
from archives.published import MLAB, folders, published
from archives.written import snaplog, tcp_info_lines
from example_files import Run
from whydrop.formats import connections
from whydrop.formats.importing import open_recording
from whydrop.formats.kinds import is_of_connections, is_recording
from whydrop.recording.errors import RecordingError
from whydrop.store.store import Store

NAME = "20170430T11:54:26.658288000Z_client.example:53088.s2c_snaplog"
WITH_SAMPLES = ("web100", "ndt7", "ndt-web100-archives")


@pytest.mark.slow
@pytest.mark.parametrize("path", folders(*WITH_SAMPLES) or [None], ids=lambda path: path.name[-40:] if path else "none")
def test_every_published_file_of_samples_is_a_recording_of_its_connections(path: Path | None) -> None:
    if path is None:
        pytest.skip(f"Measurement Lab's files are not in {MLAB}: only synthetic files are read")
    tcp, _ = tables(path)
    assert is_recording(path)
    if tcp.is_empty():
        with pytest.raises(RecordingError, match=r"no samples of TCP connections, .*(left out|without a snaplog): 1"):
            open_recording(path)
        return
    found = open_recording(path)
    assert found.table("tcp_info").height == tcp.height
    flows = found.table("flows").filter(pl.col("direction") == "up")
    assert flows.height == tcp["test_id"].n_unique()


def test_a_download_of_web100_has_its_documented_throughput_as_a_recording() -> None:
    found = open_recording(published("web100", "20170430*53088.s2c_snaplog"))
    last = found.table("tcp_info").row(-1, named=True)
    limited_ns = last["receive_window_limited_ns"] + last["congestion_limited_ns"] + last["sender_limited_ns"]
    assert round(8e3 * last["acked_bytes"] / limited_ns, 2) == 12.61
    assert last["send_window_bytes"] == 66560
    assert found.table("flows")["name"].to_list() == ["213.244.128.139:33295 > 80.132.134.233:53088"]


def test_a_download_of_ndt7_has_its_documented_throughput_as_a_recording() -> None:
    last = open_recording(published("ndt7", "*590E.json.gz")).table("tcp_info").row(-1, named=True)
    assert round(8 * last["acked_bytes"] / 10000921, 3) == 38.714


def test_what_is_in_flight_is_by_sequence_numbers_even_where_they_wrap(tmp_path: Path) -> None:
    variables = {"CurMSS": 4, "SndNxt": 5, "SndUna": 3, "CurAppWQueue": 4, "Duration": 7, "StartTimeSec": 1}
    path = tmp_path / NAME
    path.write_bytes(snaplog([{"CurMSS": 1000, "SndNxt": 500, "SndUna": 2**32 - 1500, "CurAppWQueue": 7}], variables))
    tcp, _ = tables(path)
    assert tcp.select("flight_bytes", "not_sent_bytes").row(0) == (2000, 7)


@pytest.mark.parametrize("pattern", ["20170430*53088.s2c_snaplog", "20090601*60630.c2s_snaplog"])
def test_a_recording_of_a_snaplog_gives_the_rows_that_it_was_made_of(pattern: str) -> None:
    path = published("web100", pattern)
    tcp, _ = tables(path)
    back = connections.rows_of(open_recording(path)).sort("time_ns")
    of_packets = ["flight_bytes", "slow_start_threshold_bytes", "max_congestion_window_bytes"]
    left_out = [*of_packets, "elapsed_ns"]
    assert back.drop(left_out).equals(tcp.sort("time_ns").drop(left_out))
    # To whole packets.
    for column in of_packets:
        assert ((back[column] - tcp[column]).abs() <= tcp["mss_bytes"]).all(), column


def test_a_watch_s_recording_goes_into_a_store_s_table_of_connections(tmp_path: Path, run_here: Run) -> None:
    log = tmp_path / "host_1500000000_00000000000000AB.00000.jsonl"
    info = bytes(16) + (1448).to_bytes(4, "little") + bytes(212)
    log.write_bytes(tcp_info_lines([(f"2019-05-16T00:00:0{second}Z", info) for second in range(3)]))
    folder = open_recording(log).save(tmp_path / "watched.recording")
    for expected in (3, 0):
        told = run_here("store", "import", str(tmp_path / "store"), str(tmp_path / "watched.recording"), "--json")
        assert told.returncode == 0, told.stderr
        new = json.loads(told.stdout)
        assert sum(one.get("tables", {}).get("tcp", {}).get("rows", 0) for one in new["files"]) == expected, new
    rows = Store.open(tmp_path / "store").scan("tcp").collect()
    direct, _ = tables(log)
    assert rows.drop("day").sort("time_ns").equals(direct.sort("time_ns"))
    assert folder.is_dir()


def test_files_without_samples_say_what_takes_them(tmp_path: Path) -> None:
    path = tmp_path / "ndt5.json"
    path.write_text('{"GitShortCommit": "x", "Control": {}, "S2C": {"UUID": "a", "MeanThroughputMbps": 1.0}}')
    assert is_of_connections(path)
    with pytest.raises(RecordingError, match=r"no samples .* --store"):
        open_recording(path)


def test_a_damaged_file_is_a_recording_of_what_is_before_the_damage(tmp_path: Path) -> None:
    whole = snaplog([{"Duration": 1000 * number, "StartTimeSec": 1493553266} for number in range(9)])
    path = tmp_path / NAME
    path.write_bytes(whole[:-3])
    found = open_recording(path)
    assert found.table("tcp_info").height == 8
    assert found.status == "failed"
    assert "cut off within a record" in found.notes[-1]
