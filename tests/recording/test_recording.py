"""Recordings as their readers see them: tables, series, grids; and what they refuse."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import recordings
from recordings import MS, START_NS, STEP_S, S
from whydrop.formats.importing import open_recording
from whydrop.recording.recording import Recording, RecordingError


@pytest.fixture(scope="module")
def rrul(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recordings.rrul(tmp_path_factory.mktemp("rrul") / "a.recording")


def column(recording: Recording, name: str, step_s: float | None = None) -> list[Any]:
    return recording.grid(name, step_s=step_s)[name].to_list()


def test_patterns_choose_series_with_case_and_without_their_further_quantities(rrul: Recording) -> None:
    def names(*patterns: str) -> list[str]:
        return [series.name for series in rrul.series(*patterns)]

    assert names("TCP upload*") == ["TCP upload BE", "TCP upload EF", "TCP upload sum"]
    assert names("tcp upload*") == []
    assert names("*::tcp_cwnd") == ["TCP upload BE::tcp_cwnd", "TCP upload EF::tcp_cwnd"]
    assert names("TCP upload BE::tcp_rtt", "Ping (ms) ICMP") == ["TCP upload BE::tcp_rtt", "Ping (ms) ICMP"]
    assert len(names()) == len(set(names()))


@pytest.mark.parametrize(
    "patterns",
    [
        ("*",), ("*::*",), ("*::tcp_cwnd",), ("TCP upload*::tcp_*",), ("*::tcp_cwn[d]",), ("[[]a::b]*",), ("[a::b]",),
        ("a::b::tcp_cwnd",), ("a::*::tcp_cwnd",), ("*b::tcp_cwnd",), ("*b",), ("a::b",), ("Ping*", "*::tcp_rtt", "a*"),
        ("cpu*::*",), ("*::",), ("::",), ("",), ("?::b",), ("[a::b]::tcp_cwnd",), ("Ping (ms) avg", "*fairness"),
    ],
)  # fmt: skip
def test_a_pattern_means_what_each_series_says_of_itself(tmp_path: Path, patterns: tuple[str, ...]) -> None:
    names = {"TCP upload BE": "a::b", "TCP upload EF": "[a::b]"}
    frames = recordings.tables()
    frames["flows"] = frames["flows"].with_columns(pl.col("name").replace(names))
    found = recordings.write(tmp_path / "odd.recording", frames)
    every = found.series()
    assert {"a::b", "[a::b]::tcp_cwnd"} < {series.name for series in every}
    meant = [series for series in every if any(series.matches(pattern) for pattern in patterns)]
    assert Recording.open(found.path).series(*patterns) == meant


def test_what_is_not_asked_for_is_not_read(rrul: Recording, tmp_path: Path) -> None:
    folder = rrul.save(tmp_path / "again.recording")
    path = folder / "tcp_info.parquet"
    frame = pl.read_parquet(path)
    # A column of the wrong type cannot be read.
    frame.with_columns(srtt_ns=pl.lit("much")).write_parquet(path)
    opened = Recording.open(folder)
    name = "TCP upload BE::tcp_cwnd"
    assert [series.name for series in opened.series(name)] == [name]
    assert opened.samples(name).equals(rrul.samples(name))
    assert opened.columns("tcp_info", "mss_bytes", "flow").columns == ["mss_bytes", "flow"]
    with pytest.raises(RecordingError, match="a column has a wrong type"):
        opened.series()


def test_every_series_has_its_unit(rrul: Recording) -> None:
    units = {series.name: (series.quantity, series.units) for series in rrul.series()}
    assert units["TCP download EF"] == ("goodput", "Mbit/s")
    assert units["TCP upload BE::tcp_cwnd"] == ("congestion-window", "packets")
    assert units["TCP upload BE::tcp_pacing_rate"] == ("pacing-rate", "Mbit/s")
    assert units["Ping (ms) UDP BE"] == ("rtt", "ms")
    assert units["Ping (ms) UDP BE::owd_up"] == ("one-way-delay-up", "ms")
    assert units["Ping (ms) UDP BE::loss"] == ("loss", "%")
    assert units["TCP upload sum"] == ("sum", "Mbit/s")
    assert units["qdisc eth0 fq_codel 8001::backlog_bytes"] == ("backlog-bytes", "bytes")
    assert units["qdisc eth0 fq_codel 8001::dropped_packets"] == ("dropped-packets", "packets/s")


def test_who_does_not_know_the_way_of_a_loss_has_no_series_for_it(rrul: Recording) -> None:
    names = [series.name for series in rrul.series()]
    assert "Ping (ms) UDP BE::loss_up" in names
    assert "Ping (ms) ICMP::loss" in names
    assert "Ping (ms) ICMP::loss_up" not in names


def test_samples_are_the_values_as_they_were_measured(rrul: Recording) -> None:
    flow = rrul.samples("TCP download BE")
    assert flow["value"].unique().to_list() == [3.0]
    assert flow["time_ns"][0] == START_NS + 2 * S + 200 * MS
    pings = rrul.samples("Ping (ms) UDP BE")
    assert pings.height == 70
    assert pings["value"].null_count() == 2
    assert rrul.samples("Ping (ms) UDP BE::loss")["value"].sum() == 200.0
    # Three drops a second, counted up.
    assert rrul.samples("qdisc eth0 fq_codel 8001::dropped_packets")["value"].unique().to_list() == [3.0]


def test_delay_variation_is_computed_only_of_successive_probes_that_came_back(rrul: Recording) -> None:
    values = rrul.samples("Ping (ms) UDP BE")["value"].to_list()
    found = rrul.samples("Ping (ms) UDP BE::ipdv")["value"].to_list()
    pairs = itertools.pairwise(values)
    expected = [None, *[None if None in pair else pair[1] - pair[0] for pair in pairs]]
    assert found == [pytest.approx(value) if value is not None else None for value in expected]


def test_the_grid_begins_at_the_start_and_holds_every_series_asked_for(rrul: Recording) -> None:
    grid = rrul.grid("TCP upload BE", "TCP upload sum", "Upload fairness", "TCP totals")
    assert grid.columns == ["time_s", "TCP upload BE", "TCP upload sum", "Upload fairness", "TCP totals"]
    assert grid["time_s"][:3].to_list() == pytest.approx([0.0, 0.2, 0.4])
    loaded = grid.filter(pl.col("time_s").is_between(2.3, 11.9))
    assert loaded["TCP upload sum"].unique().to_list() == [3.0]
    assert loaded["TCP totals"].unique().to_list() == [10.0]
    assert loaded["Upload fairness"].unique().to_list() == pytest.approx([0.9])
    assert grid.filter(pl.col("time_s") < 1.9)["TCP upload sum"].null_count() == 10
    assert rrul.grid("TCP upload BE", step_s=1.0).height == 14


def test_losses_on_the_grid_are_per_cent_of_each_step(rrul: Recording) -> None:
    found = column(rrul, "Ping (ms) UDP BE::loss")
    assert [number for number, value in enumerate(found) if value == 100.0] == [24, 49]
    assert column(rrul, "Ping (ms) UDP BE::loss", step_s=1.0)[4] == 20.0


def test_when_a_flow_dies_the_sum_is_unknown_from_there_on(tmp_path: Path) -> None:
    tables = recordings.tables()
    died_ns = START_NS + 6 * S
    tables["intervals"] = tables["intervals"].filter((pl.col("flow") != 1) | (pl.col("end_ns") <= died_ns))
    found = recordings.write(tmp_path / "a", tables).grid("TCP upload BE", "TCP upload sum")
    behind = found.filter(pl.col("time_s").is_between(6.3, 11.9))
    assert behind["TCP upload BE"].null_count() == 0
    assert behind["TCP upload sum"].null_count() == behind.height
    assert found.filter(pl.col("time_s").is_between(2.3, 5.9))["TCP upload sum"].unique().to_list() == [3.0]


def test_flows_without_data_are_named_and_make_sums_unknown_unless_they_were_optional(tmp_path: Path) -> None:
    tables = recordings.tables()
    tables["intervals"] = tables["intervals"].filter(pl.col("flow") != 3)
    tables["tcp_info"] = tables["tcp_info"].filter(pl.col("flow") != 3)
    tables["probes"] = tables["probes"].filter(pl.col("flow") != 5)
    metadata = recordings.metadata()
    for flow in metadata["test"]["flows"]:
        flow["optional"] = "ICMP" in flow["name"]
    found = recordings.write(tmp_path / "a", tables, test=metadata["test"])
    assert found.flows_without_data() == ["TCP download EF", "Ping (ms) ICMP"]
    assert found.grid("TCP totals")["TCP totals"].null_count() == found.grid().height
    assert found.grid("Ping (ms) avg")["Ping (ms) avg"].null_count() < 5
    assert "TCP download EF" in [series.name for series in found.series()]


def test_a_counter_that_restarts_leaves_a_gap_and_no_negative_rate(tmp_path: Path) -> None:
    tables = recordings.tables()
    counters = tables["counters"].filter(pl.col("counter") == "dropped_packets").head(4)
    tables["counters"] = counters.with_columns(value=pl.Series([10.0, 20.0, 5.0, 6.0]))
    found = recordings.write(tmp_path / "a", tables)
    assert found.samples("qdisc eth0 fq_codel 8001::dropped_packets")["value"].to_list() == [10.0, None, 1.0]


def test_processor_time_is_reported_in_per_cent(tmp_path: Path) -> None:
    counters = pl.DataFrame(
        {
            "time_ns": [START_NS, START_NS + S],
            "host": "far.example",
            "source": "cpu",
            "object": "cpu0",
            "counter": "busy_s",
            "value": [5.0, 5.25],
            "cumulative": True,
        }
    )
    found = recordings.write(tmp_path / "a", {"counters": counters})
    (series,) = found.series("cpu*::*")
    assert (series.name, series.units) == ("cpu cpu0 @far.example::busy_s", "%")
    assert found.samples(series.name)["value"].to_list() == [25.0]


def test_an_unknown_series_is_refused_with_one_that_is_like_it(rrul: Recording) -> None:
    for read in (rrul.samples, rrul.grid):
        with pytest.raises(RecordingError, match=r"'TCP uplod BE'; did you mean 'TCP upload BE'\?"):
            read("TCP uplod BE")


def test_a_clock_that_jumped_is_reported_instead_of_filling_the_memory(tmp_path: Path) -> None:
    tables = recordings.tables()
    tables["counters"] = tables["counters"].with_columns(time_ns=pl.col("time_ns") + 10**18)
    with pytest.raises(RecordingError, match="a clock must have jumped"):
        recordings.write(tmp_path / "a", tables).grid()


def test_a_recording_without_anything_can_be_read(tmp_path: Path) -> None:
    found = recordings.write(tmp_path / "a", {}, test={})
    assert found.series() == []
    assert found.grid().columns == ["time_s"]
    assert found.step_s == STEP_S
    assert found.flows_without_data() == []


def test_a_copy_holds_the_same(rrul: Recording, tmp_path: Path) -> None:
    copy = open_recording(rrul.save(tmp_path / "copy"))
    assert copy.metadata == rrul.metadata
    assert copy.grid().equals(rrul.grid())


def test_a_recording_can_be_opened_by_its_document(rrul: Recording) -> None:
    assert open_recording(rrul.path / "recording.json").metadata == rrul.metadata


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "no JSON"),
        ("[1]", 'expected an object with the key "schema"'),
        ("{}", 'expected an object with the key "schema"'),
        ('{"schema": "1"}', "schema is '1'"),
        ('{"schema": true}', "schema is True"),
        ('{"schema": 2, "whydrop": "9.0"}', "written by whydrop 9.0 with schema 2"),
        ('{"schema": 1, "status": "odd"}', "status is 'odd'; expected one of running, complete"),
        ('{"schema": 1, "test": []}', r"test is \[\]; expected dict"),
        ('{"schema": 1, "started_ns": 1.5}', "started_ns is 1.5; expected int or null"),
        ('{"schema": 1, "failures": {}}', "failures is {}; expected list"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_document_that_is_not_one_is_refused_by_file_and_key(tmp_path: Path, document: str, words: str) -> None:
    (tmp_path / "recording.json").write_text(document)
    with pytest.raises(RecordingError, match=words) as refused:
        open_recording(tmp_path)
    assert str(tmp_path / "recording.json") in str(refused.value)


def test_a_folder_that_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"not a recording: there is no recording\.json in it"):
        open_recording(tmp_path)


def test_keys_that_a_later_version_adds_are_kept(tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(json.dumps({"schema": 1, "status": "complete", "weather": "fine"}))
    assert open_recording(tmp_path).metadata["weather"] == "fine"


def test_damaged_tables_are_refused_by_their_file(tmp_path: Path) -> None:
    found = recordings.rrul(tmp_path / "a")
    path = found.path / "probes.parquet"
    content = path.read_bytes()
    for damaged in (b"", b"PAR1", content[:-9], os.urandom(len(content)), b"\0" * len(content)):
        path.write_bytes(damaged)
        with pytest.raises(RecordingError, match=r"probes\.parquet"):
            open_recording(found.path).table("probes")


def test_a_table_with_other_columns_or_types_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    found = recordings.rrul(tmp_path / "a")
    path = found.path / "clocks.parquet"
    pl.DataFrame({"host": ["x"], "offset_ns": [1], "colour": ["red"]}).write_parquet(path)
    opened = open_recording(found.path)
    assert opened.table("clocks").row(0) == ("x", None, 1, None, None)
    assert "colour" in opened.notes[0]
    pl.DataFrame({"host": ["x"], "offset_ns": ["soon"]}).write_parquet(path)
    with pytest.raises(RecordingError, match=r"clocks\.parquet: a column has a wrong type"):
        open_recording(found.path).table("clocks")
