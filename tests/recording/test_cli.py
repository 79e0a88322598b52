"""The commands that show, export and import recordings, as a user runs them."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import recordings
from example_files import Run

IPERF3 = Path(__file__).parent / "iperf3"


@pytest.fixture
def run(run_here: Run) -> Run:
    """The program within this process."""
    return run_here


@pytest.fixture(scope="module")
def rrul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rrul") / "rrul.recording"
    recordings.rrul(folder, note="by hand")
    return folder


def test_the_answer_comes_first_and_then_the_figures(run: Run, rrul: Path) -> None:
    done = run("show", rrul)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("rrul to server.example; 2023-11-14 22:13:20.000 UTC; 10.0 s of load; 4 TCP flows")
    assert "complete." in " ".join(lines[:2])
    assert "synthetic" in done.stdout
    row = next(line for line in lines if line.strip().startswith("TCP upload EF")).split()
    assert row[3:] == ["2.00", "2.00", "2.00", "2.00", "2.00", "2.00", "50", "Mbit/s"]
    induced = next(line for line in lines if "Ping (ms) ICMP" in line and "+" in line)
    assert "20." in induced
    assert "+5" in induced or "+6" in induced
    loss = next(line for line in lines if "Ping (ms) UDP BE" in line and "%" in line).split()
    assert loss[4:] == ["70", "2", "2.86", "%", "2", "0", "0"]
    assert "Sum of all uploads: 3.00 Mbit/s; Jain's fairness index 0.900" in done.stdout
    assert "Sum of all downloads: 7.00 Mbit/s; Jain's fairness index 0.980" in done.stdout
    assert "Segments retransmitted: 8" in done.stdout


def test_flows_without_data_and_failures_are_the_first_thing_said(run: Run, tmp_path: Path) -> None:
    tables = recordings.tables()
    tables["intervals"] = tables["intervals"].filter(pl.col("flow") != 3)
    failed = pl.when(pl.col("flow") == 3)
    tables["flows"] = tables["flows"].with_columns(message=failed.then(pl.lit("connection refused")))
    recordings.write(tmp_path / "a", tables, status="failed", failures=["a flow yielded no data"])
    lines = run("show", tmp_path / "a").stdout.splitlines()
    text = "\n".join(lines[:6])
    assert "NO DATA from 1 of 6 flows: TCP download EF" in text
    assert "TCP download EF: connection refused" in text
    assert "a flow yielded no data" in text
    assert "failed." in text


def test_an_interrupted_recording_says_so(run: Run, tmp_path: Path) -> None:
    from whydrop.recording.writer import RecordingWriter

    writer = RecordingWriter(tmp_path / "a", recordings.metadata())
    for name, frame in recordings.tables().items():
        writer.append(name, frame)
    writer.flush()
    writer._unlock()
    done = run("show", tmp_path / "a")
    assert done.returncode == 0
    assert ": interrupted." in done.stdout
    assert "everything up to the last flush is here" in done.stdout


@pytest.mark.slow
def test_the_json_document_holds_the_same_figures(run: Run, rrul: Path) -> None:
    document = json.loads(run("show", rrul, "--json").stdout)
    assert document["fairness"] == {"up": pytest.approx(0.9), "down": pytest.approx(0.98)}
    series = {one["name"]: one for one in document["series"]}
    assert series["TCP upload EF"]["mean"] == 2.0
    assert series["TCP upload sum"]["mean"] == 3.0
    assert series["TCP totals"]["units"] == "Mbit/s"
    assert series["TCP upload BE::tcp_cwnd"]["max"] == 59.0
    assert document["loss"][0] == {
        "name": "Ping (ms) UDP BE", "sent": 70, "lost": 2, "lost_up": 2, "lost_down": 0, "late": 0,
        "percent": pytest.approx(200 / 70),
    }  # fmt: skip
    assert document["retransmitted_segments"] == {"TCP upload BE": 4, "TCP upload EF": 4}
    assert document["flows_without_data"] == []
    induced = {one["name"]: one["induced_ms"] for one in document["induced_latency"]}
    assert induced["Ping (ms) ICMP"] == pytest.approx(60, abs=1.5)
    assert len(json.loads(run("show", rrul, rrul, "--json").stdout)) == 2


def test_files_of_other_tools_are_shown_without_being_imported(run: Run) -> None:
    done = run("show", IPERF3 / "tcp-two-streams.json")
    assert done.returncode == 0
    assert "TCP upload sum" in done.stdout


def test_all_shows_further_quantities_and_counters(run: Run, rrul: Path) -> None:
    done = run("show", rrul, "--all")
    assert "TCP upload BE::tcp_rtt" in done.stdout
    assert "qdisc eth0 fq_codel 8001::backlog_bytes" in done.stdout


@pytest.mark.slow
def test_names_of_series_are_never_broken(run: Run, tmp_path: Path) -> None:
    tables = recordings.tables()
    tables["flows"] = tables["flows"].with_columns(name=pl.col("name") + " " + "through everything" * 3)
    recordings.write(tmp_path / "a", tables)
    for series in ("TCP upload BE", "Ping (ms) UDP BE"):
        assert f"{series} {'through everything' * 3}::" in run("show", tmp_path / "a", "--all").stdout


def test_metadata_are_shown_whole_or_by_key(run: Run, rrul: Path) -> None:
    assert "host_name: client.example" in run("metadata", rrul).stdout
    assert run("metadata", rrul, "hosts.local.host_name").stdout == "client.example\n"
    assert run("metadata", rrul, "test.flows.0.name").stdout == "TCP upload BE\n"
    assert json.loads(run("metadata", rrul, "test.hosts", "--json").stdout) == ["server.example"]
    document = json.loads(run("metadata", rrul, "--json").stdout)
    assert document == json.loads((rrul / "recording.json").read_text())


def test_keys_with_dots_in_them_are_found(run: Run, tmp_path: Path) -> None:
    hosts = {"local": {"sysctls": {"net.ipv4.tcp_ecn": 2}}}
    recordings.write(tmp_path / "a", {}, hosts=hosts)
    assert run("metadata", tmp_path / "a", "hosts.local.sysctls.net.ipv4.tcp_ecn").stdout == "2\n"


def test_a_key_that_is_not_there_is_refused_with_those_that_are(run: Run, rrul: Path) -> None:
    done = run("metadata", rrul, "test.flow")
    assert done.returncode == 1
    assert done.stderr.startswith(f"whydrop: {rrul}: no 'flow' under test; there are ")
    assert "flows" in done.stderr
    assert "list of 6" in run("metadata", rrul, "test.flows.99").stderr


def test_csv_has_a_line_a_step_or_a_line_a_sample(run: Run, rrul: Path) -> None:
    lines = list(csv.reader(run("export", rrul, "--format", "csv", "--output", "-").stdout.splitlines()))
    assert lines[0][:2] == ["time_s", "TCP upload BE"]
    assert len(lines) == 71
    place = lines[0].index("TCP upload sum")
    assert (lines[1][place], float(lines[30][place])) == ("", 3.0)
    lines = list(csv.reader(run("export", rrul, "--format", "csv", "--raw", "--output", "-").stdout.splitlines()))
    assert lines[0] == ["series", "units", "time_ns", "value"]
    assert lines[1] == ["TCP upload BE", "Mbit/s", str(recordings.START_NS + 2_200_000_000), "1.0"]


def test_the_exported_json_is_what_its_description_says(run: Run, rrul: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert run("export", rrul, "--format", "json", "--output", path).stdout == f"{path}\n"
    document = json.loads(path.read_text())
    assert document["schema"] == 1
    assert document["metadata"]["name"] == "rrul"
    flow = next(one for one in document["series"] if one["name"] == "TCP upload BE")
    assert (flow["units"], flow["quantity"], len(flow["value"])) == ("Mbit/s", "goodput", 50)
    assert document["grid"]["time_s"][:2] == pytest.approx([0.0, 0.2])
    assert document["grid"]["values"]["TCP upload sum"][30] == 3.0
    assert document["flows"][0]["congestion_control"] == "cubic"


def test_what_is_there_is_not_written_over_unless_asked(run: Run, rrul: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("mine")
    refused = run("export", rrul, "--format", "csv", "--output", path)
    assert refused.returncode == 2
    assert "--force overwrites it" in refused.stderr
    assert path.read_text() == "mine"
    assert run("export", rrul, "--format", "csv", "--output", path, "--force").returncode == 0


@pytest.mark.slow
def test_a_redacted_export_does_not_name_the_hosts(run: Run, rrul: Path, tmp_path: Path) -> None:
    for to in ("flent", "json", "recording"):
        path = tmp_path / f"out.{to}"
        assert run("export", rrul, "--format", to, "--redact", "--output", path).returncode == 0
    texts = [
        gzip.decompress((tmp_path / "out.flent").read_bytes()).decode(),
        (tmp_path / "out.json").read_text(),
        (tmp_path / "out.recording" / "recording.json").read_text(),
    ]
    for text in texts:
        assert "server.example" not in text
        assert "192.0.2.7" not in text
        assert "host-1" in text
    assert run("show", tmp_path / "out.recording").stdout.startswith("rrul to host-")


def test_files_are_imported_one_by_one_and_a_bad_one_costs_only_itself(run: Run, tmp_path: Path) -> None:
    files = [IPERF3 / "tcp-reverse.json", IPERF3 / "refused.json", IPERF3 / "udp.json"]
    done = run("import", *files, "--output", tmp_path, "--title", "loop")
    assert done.returncode == 1
    assert "refused.json: iperf3 measured nothing" in done.stderr
    folders = done.stdout.splitlines()
    assert len(folders) == 2
    assert all(folder.endswith(".loop.recording") for folder in folders)
    assert "TCP download" in run("show", folders[0]).stdout


@pytest.mark.parametrize("command", [["show"], ["metadata"], ["export", "--format", "csv"], ["import"]])
def test_what_is_no_recording_ends_in_one_line(run: Run, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "x").write_text("hello")
    for path in (tmp_path / "x", tmp_path / "nothing", tmp_path):
        done = run(*command, path)
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith("whydrop: ")
        assert done.stderr.count("\n") == 1
        assert str(path) in done.stderr


@pytest.mark.parametrize(
    "arguments", [["export", "--format", "json", "--raw"], ["export", "--format", "pdf"], ["show", "--format", "xml"]]
)
def test_a_wrong_command_line_exits_with_2(run: Run, rrul: Path, arguments: list[str]) -> None:
    assert run(*arguments, rrul).returncode == 2


def test_names_in_a_recording_do_not_command_the_terminal(run: Run, tmp_path: Path) -> None:
    tables = recordings.tables()
    tables["flows"] = tables["flows"].with_columns(name=pl.col("name") + "\x1b[2J")
    recordings.write(tmp_path / "a", tables, title="\x1b]0;evil\x07")
    for command in (["show"], ["metadata"]):
        assert "\x1b" not in run(*command, tmp_path / "a").stdout


@pytest.mark.parametrize("command", ["show", "metadata", "export", "import"])
def test_help_answers_with_an_example_before_anything_heavy_is_imported(command: str) -> None:
    # What is imported decides how soon it answers; how long that takes, the machine does.
    program = "import sys; from whydrop.__main__ import main; sys.argv[0] = 'whydrop'\n"
    program += "try: main()\nexcept SystemExit: sys.stderr.write(' '.join(sys.modules))"
    words = [sys.executable, "-c", program, command, "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "Examples:" in done.stdout
    assert "whydrop.cli" in done.stderr.split()
    assert {"polars", "numpy", "scipy", "pyarrow", "altair", "rich", "pydantic"}.isdisjoint(done.stderr.split())
