"""Two captures on the command line, as a user calls it, with real captures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import whydrop
from example_files import EXAMPLES, POLICED

Run = Callable[..., subprocess.CompletedProcess[str]]

FAR = EXAMPLES / "policed-download-far.pcap.zst"
OTHER = EXAMPLES / "shallow-queue-far.pcap.zst"


@pytest.fixture(scope="module")
def pair() -> whydrop.Explanation:
    return whydrop.explain(POLICED, FAR)


@pytest.mark.slow
def test_explain_says_what_dropped_packets_and_where(run: Run):
    done = run("explain", POLICED, FAR)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "policer" in lines[0]
    assert lines[1].startswith("Where: between capture 1 (policed-download.pcap.zst) and capture 2")
    assert "\nTwo captures\n" in done.stdout


@pytest.mark.slow
def test_json_is_the_document_with_the_pair(run: Run):
    done = run("explain", POLICED, FAR, "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(document["captures"]) == 2
    assert document["pair"]["lost_1_to_2"] + document["pair"]["lost_2_to_1"] == 96
    assert document["verdicts"][0]["cause"] == "policer"


def test_the_truth_about_the_example_is_found(pair: whydrop.Explanation):
    headline = pair.verdicts[0]
    assert pair.pair is not None
    assert (pair.pair.lost_1_to_2, pair.pair.lost_2_to_1) == (96, 0)
    assert headline.place == "between capture 1 and capture 2"
    assert headline.parameters["rate_bps"].value == pytest.approx(20e6, rel=0.02)
    assert headline.parameters["burst_bytes"].value == pytest.approx(51_200, rel=0.1)
    assert any(model.role == "winner" and model.element == "policer" for model in headline.models)


def test_the_packets_agree_with_the_document(pair: whydrop.Explanation):
    rows = pair.table("crossings")
    assert pair.pair is not None
    assert rows.filter(pl.col("crossing") == "lost").height == pair.pair.lost
    assert rows.filter(pl.col("crossing") == "matched").height == pair.pair.matched
    lost = rows.filter(pl.col("crossing") == "lost")
    assert lost["transit_ns"].null_count() == lost.height
    assert lost["burst_position"].min() == 1
    for number, flow in enumerate(pair.pair.flows):
        own = rows.filter(pl.col("flow") == number)
        assert own.filter(pl.col("crossing") == "lost").height == flow.lost, flow.flow


def test_the_models_replay_the_same_packets(pair: whydrop.Explanation):
    rows = pair.table("model").filter(pl.col("verdict") == 0)
    winner, rival = (rows.filter(pl.col("rival") == which) for which in (False, True))
    assert winner.height == rival.height > 10_000
    assert winner["seen_lost"].sum() == rival["seen_lost"].sum() == 96


@pytest.mark.slow
def test_a_filter_a_report_and_charts_work_as_for_one_capture(run: Run, tmp_path: Path):
    done = run("explain", POLICED, FAR, "--flow", ":41001", "--report", tmp_path / "r.html", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert all(":41001" in flow["flow"] for flow in document["pair"]["flows"])
    assert 'id="pair"' in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_charts_of_two_captures_are_written(run: Run, tmp_path: Path):
    done = run("explain", POLICED, FAR, "--charts", tmp_path, "--format", "svg")
    assert done.returncode == 0, done.stderr
    written = {path.stem for path in tmp_path.iterdir()}
    assert {"crossings", "loss-burst", "transit", "transit-histogram", "models", "clock"} <= written


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", str(POLICED), str(POLICED)], "are the same file"),
        (["explain", "-", "-"], "standard input can be read only once"),
        (["match", str(POLICED)], "Missing argument"),
        (["match", str(POLICED), str(FAR), str(OTHER)], "unexpected extra argument"),
        (["match", str(POLICED), str(POLICED)], "are the same file"),
        (["match", str(POLICED), str(FAR), "-o", "packets.xlsx"], ".parquet, .csv or .arrow"),
        (["match", str(POLICED), str(FAR), "-o", "packets"], ".parquet, .csv or .arrow"),
        (["match", str(POLICED), str(FAR), "-o", "/nowhere/at/all/p.csv"], "there is no folder"),
        (["match", str(POLICED), str(FAR), "--frobnicate"], "No such option"),
    ],
)
def test_a_wrong_command_line_exits_with_2_and_says_what_is_wrong(run: Run, arguments: list[str], said: str):
    done = run(*arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_capture_is_never_overwritten_by_the_table(run: Run, tmp_path: Path):
    capture = tmp_path / "capture.csv"
    capture.write_bytes(POLICED.read_bytes())
    done = run("match", capture, FAR, "-o", capture)
    assert done.returncode == 2
    assert "is one of the captures" in done.stderr
    assert capture.read_bytes() == POLICED.read_bytes()


@pytest.mark.parametrize("verb", ["explain", "match"])
def test_a_missing_file_exits_with_1_and_one_line_that_names_it(run: Run, verb: str):
    done = run(verb, POLICED, "missing.pcap")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("whydrop: ")
    assert "missing.pcap" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("verb", ["explain", "match"])
def test_captures_without_a_packet_in_common_are_refused_in_one_line(run: Run, tmp_path: Path, verb: str):
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    done = run(verb, POLICED, empty)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no packet in common" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_match_sums_up_for_a_person_and_writes_the_packets(run: Run, tmp_path: Path):
    target = tmp_path / "packets.parquet"
    done = run("match", POLICED, FAR, "-o", target)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "16 373 packets matched, 96 lost from capture 1 to capture 2."
    assert "Clocks" in done.stdout
    frame = pl.read_parquet(target)
    assert f"Packets: {target} ({frame.height} rows)" in done.stdout
    assert frame.filter(pl.col("crossing") == "lost").height == 96
    assert "10.0.1.1:41001 > 10.0.3.1:5201" in frame["flow_name"].cast(pl.String).to_list()


@pytest.mark.slow
def test_match_with_json_prints_the_pair_and_nothing_else(run: Run, tmp_path: Path):
    done = run("match", POLICED, FAR, "--json", "-o", tmp_path / "packets.csv")
    pair = json.loads(done.stdout)
    assert done.returncode == 0
    assert pair["matched"] == 16_373
    assert "packets.csv" in done.stderr


def test_explain_and_match_find_the_same_pair(run: Run, pair: whydrop.Explanation):
    assert whydrop.match(POLICED, FAR).document == pair.document["pair"]


def test_the_help_of_match_has_an_example(run: Run):
    done = run("match", "--help")
    assert done.returncode == 0
    assert "whydrop match sender.pcap receiver.pcap -o packets.csv" in done.stdout
