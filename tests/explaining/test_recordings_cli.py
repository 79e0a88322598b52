"""``whydrop explain RECORDING`` as a user runs it."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pytest

import recordings
from example_files import POLICED, Run
from whydrop.cli import direct
from whydrop.formats.kinds import is_recording

FLENT = {"version": 4, "metadata": {}, "x_values": [], "results": {}, "raw_values": {}}


@pytest.fixture(scope="module")
def rrul(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rrul") / "rrul.recording"
    recordings.rrul(folder)
    return folder


def test_the_verdict_comes_first_and_then_evidence_and_advice(run_here: Run, rrul: Path) -> None:
    done = run_here("explain", rrul)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert text.index("A long queue") == 0
    assert "bufferbloat" in text
    assert text.index("Evidence") < text.index("Parameters") < text.index("What to do")
    assert "under load" in text


def test_json_holds_the_recording_and_no_capture(run_here: Run, rrul: Path) -> None:
    for path in (rrul, rrul / "recording.json"):
        done = run_here("explain", path, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        document = json.loads(done.stdout)
        assert document["captures"] == document["flows"] == document["transfers"] == []
        assert document["recordings"][0]["test"] == "rrul"
        assert len(document["recordings"][0]["flows"]) == 4
        assert document["verdicts"][0]["cause"] == "deep-queue"


def test_the_short_way_to_json_knows_recordings_too(rrul: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert direct.explain(str(rrul)) == 0
    assert json.loads(capfdbinary.readouterr().out)["recordings"][0]["path"] == str(rrul)


def test_a_report_is_one_page_with_the_verdict(run_here: Run, rrul: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    done = run_here("explain", rrul, "--report", page)
    assert (done.returncode, done.stderr) == (0, "")
    text = page.read_text()
    assert str(rrul) in text
    assert "bufferbloat" in text
    assert 'id="charts"' not in text


def test_what_is_for_captures_alone_says_so(run_here: Run, rrul: Path, tmp_path: Path) -> None:
    for words in (["--sequence"], ["--charts", tmp_path], ["--flow", ":443"], [rrul / "recording.json"]):
        done = run_here("explain", rrul, *words)
        assert done.returncode == 2
        assert "recording" in done.stderr


def test_a_capture_of_another_time_is_explained_beside_the_test(run_here: Run, rrul: Path) -> None:
    document = json.loads(run_here("explain", rrul, POLICED, "--json").stdout)
    assert {(one["cause"], *one.get("sources", ())) for one in document["verdicts"]} >= {
        ("deep-queue", "recording"),
        ("policer",),
    }
    assert document["captures"][0]["notes"] == ["not of the time of the test: explained by itself"]
    assert len(document["recordings"]) == 1
    assert document["transfers"]


def test_a_capture_in_the_folder_of_a_recording_is_read_with_it(run_here: Run, tmp_path: Path) -> None:
    recordings.rrul(tmp_path / "rrul.recording")
    (tmp_path / "rrul.recording/client.pcap.zst").write_bytes(POLICED.read_bytes())
    document = json.loads(run_here("explain", tmp_path / "rrul.recording", "--json").stdout)
    assert [Path(one["path"]).name for one in document["captures"]] == ["client.pcap.zst"]


def test_damaged_and_empty_recordings_end_with_one_line(run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "a.recording").mkdir()
    (tmp_path / "a.recording/recording.json").write_text("{")
    (tmp_path / "b.json").write_text('{"some": "thing"}')
    (tmp_path / "c.flent").write_text(json.dumps(FLENT))
    for name in ("a.recording", "b.json", "c.flent"):
        done = run_here("explain", tmp_path / name)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.count("\n") == 1
        assert str(tmp_path / name) in done.stderr


def test_recordings_are_known_by_what_they_hold_and_not_by_name(rrul: Path, tmp_path: Path) -> None:
    content = json.dumps(FLENT).encode()
    for number, packed in enumerate((content, gzip.compress(content), bz2.compress(content), lzma.compress(content))):
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(packed)
        assert is_recording(path)
    capture = bytes.fromhex("d4c3b2a1") + bytes(20)
    for number, packed in enumerate((capture, gzip.compress(capture), b"", b"\x1f\x8b{")):
        path = tmp_path / f"{number}.flent.gz"
        path.write_bytes(packed)
        assert not is_recording(path)
    assert is_recording(rrul)
    assert not is_recording(POLICED)
    assert not is_recording("-")
    assert not is_recording(tmp_path)
    assert not is_recording(tmp_path / "missing")
