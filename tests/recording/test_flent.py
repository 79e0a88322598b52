"""Flent's files open here, and ours open in Flent, with the same figures."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import recordings
from recording.conftest import Flent
from whydrop.formats import exporting
from whydrop.formats.flent.exporting import as_document
from whydrop.formats.importing import open_recording
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import RecordingError
from whydrop.show.flent_summary import flent_layout

T0 = 1_500_000_000.25


def file(version: int = 4, **changes: Any) -> dict[str, Any]:
    """A small file as Flent writes it."""
    return {
        "version": version,
        "x_values": [0.0, 0.2, 0.4],
        "results": {"Ping (ms) UDP BE": [10.0, 20.0, None], "TCP upload": [1.0, 2.0, 3.0]},
        "raw_values": {
            "Ping (ms) UDP BE": [{"t": T0, "val": 100.0, "dur": 0.2}, {"t": T0 + 0.2, "val": 50.0, "dur": 0.2}],
            "TCP upload": [
                {"t": T0, "val": 1.0, "dur": 0.2},
                {"t": T0 + 0.1, "tcp_cwnd": 10, "tcp_rtt": 12.5},
                {"t": T0 + 0.2, "val": 2.0, "dur": 0.2},
            ],
        },
        "metadata": {
            "NAME": "tcp_upload",
            "TITLE": "synthetic",
            "T0": "2017-07-14T02:40:00.250000Z",
            "TIME": "2017-07-14T02:39:58.000000Z",
            "STEP_SIZE": 0.2,
            "LENGTH": 1,
            "TOTAL_LENGTH": 11,
            "HOSTS": ["server.example"],
            "LOCAL_HOST": "client.example",
            "SERIES_META": {"TCP upload": {"UNITS": "Mbits/s", "MEAN_VALUE": 1.9}},
        },
        **changes,
    }


def write(path: Path, content: Any) -> Path:
    path.write_bytes(gzip.compress(json.dumps(content).encode()))
    return path


def read(path: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(path.read_bytes()))


# Reading.


def test_every_file_of_flents_tests_opens_with_its_series_and_its_grid(flent_file: Path) -> None:
    found, original = open_recording(flent_file), read(flent_file)
    grid = found.grid()
    assert grid["time_s"].to_list() == pytest.approx(original["x_values"])
    for name, values in original["results"].items():
        assert grid[name].to_list() == values
    assert {series.name for series in found.series()} >= set(original["results"])
    assert found.metadata["name"] == original["metadata"]["NAME"]
    assert found.metadata["imported"]["metadata"]["EGRESS_INFO"] == original["metadata"]["EGRESS_INFO"]
    assert found.notes == []


@pytest.mark.slow
def test_every_raw_value_of_flents_files_is_kept(flent_file: Path) -> None:
    """Version 4 has them in the units of the series; before that they are compared by their number and times."""
    original = read(flent_file)
    exported = as_document(open_recording(flent_file))["raw_values"]
    for name, rows in original["raw_values"].items():
        assert [row["t"] for row in exported[name]] == sorted(row["t"] for row in rows)
        if original["version"] < 4:
            continue
        for row, theirs in zip(exported[name], sorted(rows, key=lambda row: row["t"]), strict=True):
            words = {key: value for key, value in theirs.items() if value is None or isinstance(value, str)}
            assert {key: row[key] for key in words} == words
            numbers = {key: value for key, value in theirs.items() if key not in words}
            assert {key: row[key] for key in row if key not in words} == pytest.approx(numbers, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.needs_flent
def test_flents_figures_of_an_exported_file_are_those_of_the_original(
    flent_file: Path, flent: Flent, tmp_path: Path
) -> None:
    exported = tmp_path / flent_file.name
    exporting.write(open_recording(flent_file), "flent", exported)
    assert flent("-f", "summary", exported) == flent("-f", "summary", flent_file)
    theirs, ours = (list(csv.reader(io.StringIO(flent("-f", "stats_csv", path)))) for path in (flent_file, exported))
    assert len(ours) == len(theirs) > 1
    for row, original in zip(ours, theirs, strict=True):
        for cell, expected in zip(row, original, strict=True):
            if cell != expected:
                # One nanosecond of a round-trip time of a millisecond, squared by the variance.
                assert float(cell) == pytest.approx(float(expected), rel=5e-6)


@pytest.mark.slow
@pytest.mark.needs_flent
def test_flents_csv_of_an_exported_file_is_that_of_the_original(flent_file: Path, flent: Flent, tmp_path: Path) -> None:
    exported = tmp_path / flent_file.name
    exporting.write(open_recording(flent_file), "flent", exported)
    # Flent's columns are in another order at each run.
    ours, theirs = (pl.read_csv(io.StringIO(flent("-f", "csv", path))) for path in (exported, flent_file))
    assert ours.select(sorted(ours.columns)).equals(theirs.select(sorted(theirs.columns)))


@pytest.mark.needs_flent
def test_our_summary_of_a_file_is_flents(flent_file: Path, flent: Flent) -> None:
    """All but the units, which Flent has from its tests where the file lacks them."""

    def figures(text: str) -> dict[str, list[str]]:
        lines = (line.rpartition(" : ") for line in text.splitlines() if " : " in line and "Title" not in line)
        return {
            name.strip(): [word for word in values.split() if word == "N/A" or word.replace(".", "").isdigit()]
            for name, _, values in lines
        }

    ours, theirs = (
        figures(flent_layout(Summary(open_recording(flent_file)))),
        figures(flent("-f", "summary", flent_file)),
    )
    # Flent adds what its test computes today and did not when the file was written.
    assert ours.keys() <= theirs.keys()
    for name in ours:
        assert ours[name] == theirs[name], name


def test_version_4_is_read_with_its_values_and_metadata(tmp_path: Path) -> None:
    found = open_recording(write(tmp_path / "a.flent.gz", file()))
    assert found.samples("TCP upload")["value"].to_list() == [1.0, 2.0]
    assert found.samples("TCP upload")["time_ns"].to_list() == [1_500_000_000_250_000_000, 1_500_000_000_450_000_048]
    assert found.samples("TCP upload::tcp_cwnd")["value"].to_list() == [10.0]
    assert found.samples("Ping (ms) UDP BE")["value"].to_list() == [100.0, 50.0]
    metadata = found.metadata
    assert (metadata["title"], metadata["started_ns"]) == ("synthetic", 1_500_000_000_250_000_000)
    assert (metadata["test"]["length_s"], metadata["test"]["delay_s"], found.step_s) == (1.0, 5.0, 0.2)
    assert metadata["hosts"]["local"]["host_name"] == "client.example"
    assert Summary(found).mean(found.series("TCP upload")[0]) == 1.9


def test_before_version_4_transactions_a_second_become_milliseconds(tmp_path: Path) -> None:
    found = open_recording(write(tmp_path / "a.flent.gz", file(3)))
    assert found.samples("Ping (ms) UDP BE")["value"].to_list() == [10.0, 20.0]


def test_before_version_4_seconds_of_fetches_become_milliseconds(tmp_path: Path) -> None:
    content = file(2, results={"HTTP latency": [4.0, 5.0, 6.0]}, raw_values={"HTTP latency": [{"t": T0, "val": 0.004}]})
    found = open_recording(write(tmp_path / "a.flent.gz", content))
    (series,) = found.series("HTTP latency")
    assert (series.kind, series.units) == ("http", "ms")
    assert found.samples("HTTP latency")["value"].to_list() == [4.0]


def test_before_version_4_counts_of_drops_and_airtime_become_those_of_each_interval(tmp_path: Path) -> None:
    raw = {
        "qdisc": [{"t": T0 + n, "dropped": value, "backlog_bytes": 7.0} for n, value in enumerate((5.0, 6.0, 9.0))],
        "wifi": [{"t": T0 + n, "stations": {"aa": {"airtime_tx": value}}} for n, value in enumerate((100.0, 110.0))],
    }
    found = open_recording(write(tmp_path / "a.flent.gz", file(3, raw_values=raw, results={})))
    assert found.samples("qdisc::dropped")["value"].to_list() == [0.0, 1.0, 3.0]
    assert found.samples("qdisc::backlog_bytes")["value"].to_list() == [7.0, 7.0, 7.0]
    assert found.samples("wifi::stations::aa::airtime_tx")["value"].to_list() == [0.0, 10.0]


def test_netperf_wrappers_raw_values_are_found_in_its_metadata(tmp_path: Path) -> None:
    content = file(1)
    rows = content.pop("raw_values")
    del content["version"]
    content["metadata"]["SERIES_META"] = {name: {"RAW_VALUES": values} for name, values in rows.items()}
    content["metadata"]["NETPERF_WRAPPER_VERSION"] = "0.7"
    found = open_recording(write(tmp_path / "a.json.gz", content))
    assert found.samples("Ping (ms) UDP BE")["value"].to_list() == [10.0, 20.0]
    assert found.metadata["imported"]["written_by"] == "0.7"
    assert "RAW_VALUES" not in json.dumps(found.metadata)


def test_netperf_wrappers_files_without_raw_values_have_those_of_the_grid(tmp_path: Path) -> None:
    content = file(1)
    del content["raw_values"], content["metadata"]["SERIES_META"], content["metadata"]["T0"]
    content["metadata"]["TIME"] = "2012-11-24T10:11:12.131415"
    found = open_recording(write(tmp_path / "a.json.gz", content))
    assert found.samples("TCP upload")["value"].to_list() == [1.0, 2.0, 3.0]
    assert found.samples("Ping (ms) UDP BE")["value"].to_list() == [10.0, 20.0]
    assert found.grid("TCP upload", step_s=0.1)["TCP upload"].to_list()[:3] == pytest.approx([1.0, 1.5, 2.0])
    assert found.flows_without_data() == []


def test_a_time_in_an_unknown_zone_is_brought_to_the_hour_of_the_samples(tmp_path: Path) -> None:
    content = file(2)
    content["metadata"]["T0"] = "2017-07-14T09:40:00.250000"
    assert open_recording(write(tmp_path / "a.flent.gz", content)).started_ns == 1_500_000_000_250_000_000


def test_irtts_one_way_delays_and_losses_by_direction_are_read(tmp_path: Path) -> None:
    rows = [
        {"t": T0, "seq": 0, "val": 20.0, "owd_up": 12.0, "owd_down": 8.0},
        {"t": T0 + 0.2, "seq": 1, "lost": True, "lost_dir": "up"},
        {"t": T0 + 0.4, "seq": 2, "lost": True, "lost_dir": None},
        {"t": T0 + 0.6, "seq": 3, "val": 22.0, "owd_up": 13.0, "owd_down": 9.0, "ipdv": 2.5},
    ]
    found = open_recording(write(tmp_path / "a.flent.gz", file(raw_values={"Ping (ms) UDP": rows}, results={})))
    assert found.table("probes")["fate"].to_list() == ["ok", "lost-up", "lost", "ok"]
    assert found.samples("Ping (ms) UDP::owd_up")["value"].drop_nulls().to_list() == [12.0, 13.0]
    assert found.samples("Ping (ms) UDP::ipdv")["value"].to_list() == [2.5]
    (loss,) = Summary(found).losses()
    assert (loss.sent, loss.lost, loss.lost_up, loss.lost_down, loss.percent) == (4, 2, 1, 0, 50.0)


@pytest.mark.parametrize("name", ["a.flent", "a.flent.bz2", "a.flnt", "a.json.gz", "a"])
def test_files_are_known_by_what_is_in_them_and_not_by_their_names(tmp_path: Path, name: str) -> None:
    text = json.dumps(file()).encode()
    for content in (text, gzip.compress(text), bz2.compress(text)):
        (tmp_path / name).write_bytes(content)
        assert open_recording(tmp_path / name).metadata["name"] == "tcp_upload"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (file(5), "version 5 of Flent's file format; this version of whydrop reads versions 1 to 4"),
        (file(x_values="abc"), "x_values: expected a list"),
        (file(x_values=[0, "b"]), "x_values: expected numbers only"),
        (file(results=[]), "results: expected an object"),
        (file(results={"a": [1.0]}), "results of 'a': 1 values; expected 3"),
        (file(results={"a": 5}), "results of 'a': expected a list"),
        (file(metadata=[1]), "metadata: expected an object"),
        ({"a": 1}, "JSON, but of no tool that is known here"),
        ([1, 2], "JSON, but of no tool that is known here"),
    ],
)
def test_what_is_no_file_of_flent_is_refused_in_words(tmp_path: Path, content: Any, words: str) -> None:
    path = write(tmp_path / "a.flent.gz", content)
    with pytest.raises(RecordingError) as refused:
        open_recording(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no recording and no JSON"),
        (b"\x1f\x8b\x08", "ends too early"),
        (gzip.compress(bytes(range(256)) * 40)[:-30], "ends too early"),
        (b"BZh9" + b"x" * 50, "Invalid data stream"),
        (b"\xff\xfe{}", "no recording and no JSON"),
        (b"[" * 200_000, "no recording and no JSON"),
    ],
    # What gzip packs begins with the time: a name made of it differs from process to process.
    ids=["empty", "head of gzip", "gzip cut short", "no bzip2", "no UTF-8", "deep JSON"],
)
def test_damaged_files_are_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(RecordingError, match=words):
        open_recording(tmp_path / "a")


def test_odd_values_cost_only_themselves(tmp_path: Path) -> None:
    raw = {
        "TCP upload": [{"t": "soon", "val": 1}, {"val": 2}, 7, {"t": T0, "val": "many", "tcp_cwnd": []}, {"t": 1e300}],
        "odd": {"not": "a list"},
        "deep": [{"t": T0, "a": {"b": {"c": 1.5}}, "text": "x"}],
    }
    found = open_recording(write(tmp_path / "a.flent.gz", file(raw_values=raw, results={})))
    assert found.samples("TCP upload")["value"].to_list() == [None]
    assert found.samples("deep::a::b::c")["value"].to_list() == [1.5]
    assert found.notes == ["TCP upload: 3 raw values without a time were left out"]
    assert found.flows_without_data() == []


# Writing.


@pytest.mark.slow
@pytest.mark.needs_flent
def test_flent_opens_summarises_and_plots_a_recording_of_ours(flent: Flent, tmp_path: Path) -> None:
    recording = recordings.rrul(tmp_path / "a.recording")
    path = tmp_path / "a.flent.gz"
    exporting.write(recording, "flent", path)
    summary = {
        name.strip(): values.split()
        for name, _, values in (line.rpartition(" : ") for line in flent("-f", "summary", path).splitlines())
    }
    ours = Summary(recording)
    for series in recording.series("TCP*", "Ping*"):
        mean = ours.of(series).mean
        assert float(summary[series.name][0]) == pytest.approx(mean, abs=0.006), series.name
    for name in ("TCP upload BE", "Ping (ms) UDP BE", "Ping (ms) ICMP"):
        found = ours.of(recording.series(name)[0])
        assert float(summary[name][1]) == pytest.approx(found.median, abs=0.006)
        assert float(summary[name][2]) == pytest.approx(found.p99, abs=0.006)
    for plot in ("all_scaled", "ping_cdf", "box_totals"):
        picture = tmp_path / f"{plot}.png"
        flent("-p", plot, "-o", picture, path)
        assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.needs_flent
def test_a_test_that_flent_does_not_know_opens_in_it_under_a_name_that_it_knows(flent: Flent, tmp_path: Path) -> None:
    path = tmp_path / "a.flent.gz"
    exporting.write(recordings.rrul(tmp_path / "a", name="mine", title="before"), "flent", path)
    text = flent("-f", "summary", path)
    assert "Summary of rrul_be test run" in text
    assert "mine: before" in text


def test_an_export_read_again_holds_the_same_samples(tmp_path: Path) -> None:
    recording = recordings.rrul(tmp_path / "a")
    path = tmp_path / "a.flent.gz"
    exporting.write(recording, "flent", path)
    again = open_recording(path)
    for name in ("TCP upload BE", "TCP upload BE::tcp_cwnd", "TCP upload BE::tcp_rtt", "Ping (ms) UDP BE::owd_up"):
        ours, theirs = (each.samples(name)["value"].drop_nulls().to_list() for each in (recording, again))
        assert theirs == pytest.approx(ours)
    (loss,) = [loss for loss in Summary(again).losses() if "UDP" in loss.name]
    assert (loss.lost, loss.lost_up) == (2, 2)
    assert again.metadata["imported"]["metadata"]["WHYDROP"]["name"] == "rrul"


def test_the_same_recording_gives_the_same_file(tmp_path: Path) -> None:
    recording = recordings.rrul(tmp_path / "a")
    assert exporting.content(recording, "flent") == exporting.content(recording, "flent")
