"""Files of iperf3 as people have them: logs of several runs, cut off, with text around, from other systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whydrop.explaining.recordings.document import of_recording
from whydrop.formats.importing import open_recording, open_recordings
from whydrop.formats.iperf3.documents import documents
from whydrop.formats.kinds import is_recording
from whydrop.recording.metrics.definitions import measure
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording, RecordingError

FOLDER = Path(__file__).parent / "iperf3"
REPORTED = FOLDER / "reported"


def text(name: str) -> str:
    return (FOLDER / f"{name}.json").read_text()


def events(name: str) -> str:
    whole = json.loads(text(name))
    lines = [
        {"event": "start", "data": whole["start"]},
        *({"event": "interval", "data": interval} for interval in whole["intervals"]),
        {"event": "end", "data": whole["end"]},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def opened(path: Path, written: str | bytes) -> list[Recording]:
    file = path / "log.json"
    file.write_bytes(written if isinstance(written, bytes) else written.encode())
    assert is_recording(file)
    return open_recordings(file)


def flows(found: list[Recording]) -> list[list[str]]:
    return [one.table("flows")["name"].to_list() for one in found]


def test_the_loss_of_an_upload_of_udp_is_that_of_the_end_section() -> None:
    found = open_recording(REPORTED / "udp_up_loss.json")
    (loss,) = Summary(found).losses()
    assert (loss.sent, loss.lost) == (3453, 690)
    assert Summary(found).goodput()["up"] == pytest.approx(8.0, rel=1e-3)
    assert measure(found)["goodput-up"].value == pytest.approx(8.0, rel=1e-3)
    assert found.samples("UDP upload::jitter")["value"].to_list() == [3.2]


def test_what_the_end_section_reported_of_losses_is_what_the_verdict_says_was_seen() -> None:
    lost, whole = (
        of_recording(open_recording(REPORTED / f"{name}.json")).document() for name in ("udp_up_loss", "udp_up")
    )
    assert lost["verdicts"][0]["sentence"].replace("\xa0", " ").startswith("690 of 3 453 UDP packets (20 %) were lost")
    assert whole["verdicts"][0]["sentence"].startswith("Nothing was lost, and")


def test_more_retransmissions_than_a_kernel_counts_are_none(tmp_path: Path) -> None:
    whole = json.loads((REPORTED / "tiny.json").read_text())
    whole["end"]["streams"][0]["sender"]["retransmits"] = 1e300
    (found,) = opened(tmp_path, json.dumps(whole))
    assert of_recording(found).document()["verdicts"][0]["cause"] == "unknown"


def test_the_senders_retransmissions_of_a_download_are_those_of_the_end_section() -> None:
    assert Summary(open_recording(REPORTED / "tcp_down.json")).retransmissions() == {"TCP download": 15744}


def test_a_receiver_that_an_interrupted_run_never_heard_of_is_no_result() -> None:
    found = open_recording(REPORTED / "interrupted.json")
    assert found.status == "interrupted"
    goodput = Summary(found).goodput()["up"]
    assert goodput == pytest.approx(18444, rel=1e-3)
    assert "no result from the far end" in " ".join(found.notes)


def test_an_interrupted_upload_of_udp_does_not_call_what_was_sent_goodput(tmp_path: Path) -> None:
    whole = json.loads((REPORTED / "udp_up_loss.json").read_text())
    whole["error"] = "interrupt - the client has terminated"
    whole["end"]["streams"][0]["udp"] |= {"lost_packets": 0, "jitter_ms": 0}
    (found,) = opened(tmp_path, json.dumps(whole))
    assert Summary(found).losses() == []
    assert Summary(found).goodput()["up"] is None


def test_every_reported_file_is_read() -> None:
    for file in sorted(REPORTED.iterdir()):
        for one in open_recordings(file):
            assert one.table("flows").height == 1


@pytest.mark.parametrize("name", ["append.json", "stream_two.json"])
def test_runs_one_behind_the_other_are_tests_of_their_own(name: str) -> None:
    found = open_recordings(REPORTED / name)
    assert flows(found) == [["TCP upload"], ["TCP download"]]
    assert [one.samples(one.series()[0].name).height for one in found] == [4, 4]
    with pytest.raises(RecordingError, match=r"holds 2 tests.*whydrop import"):
        open_recording(REPORTED / name)


def test_an_interval_of_microseconds_makes_no_maximum() -> None:
    found = open_recording(REPORTED / "tiny.json")
    assert Summary(found).of(found.series("TCP upload")[0]).maximum == pytest.approx(12278, rel=1e-3)
    assert Summary(found).retransmissions() == {"TCP upload": 7872}


def test_a_file_without_a_time_of_day_says_so_and_claims_none() -> None:
    found = open_recording(REPORTED / "notime.json")
    assert found.metadata["started_ns"] is None
    assert "no time of day" in " ".join(found.notes)


def test_a_document_cut_anywhere_keeps_the_intervals_before_the_cut(tmp_path: Path) -> None:
    whole = text("tcp-reverse")
    first = len(json.loads(whole)["intervals"])
    counts = []
    for cut in range(whole.index('"intervals"'), len(whole) - 4, 97):
        try:
            (found,) = opened(tmp_path, whole[:cut])
        except RecordingError:
            counts.append(0)
            continue
        counts.append(found.samples("TCP download").height)
        assert "cut off" in " ".join(found.notes)
    assert counts == sorted(counts)
    assert {0, first} <= set(counts)


def test_a_run_that_was_cut_off_does_not_mix_with_the_next(tmp_path: Path) -> None:
    whole = text("tcp-reverse")
    cut = whole[: whole.rindex('"streams"') - 40]
    found = opened(tmp_path, cut + "\n" + text("tcp-bidirectional"))
    assert flows(found) == [["TCP download"], ["TCP upload", "TCP download"]]


def test_a_line_of_the_stream_that_is_damaged_costs_only_itself(tmp_path: Path) -> None:
    lines = events("tcp-reverse").splitlines(keepends=True)
    lines[2] = lines[2][:200] + "iperf3: interrupt\n"
    (found,) = opened(tmp_path, "".join(lines))
    assert found.samples("TCP download").height == 3
    assert found.status == "complete"
    assert "passed over" in " ".join(found.notes)


def test_the_whole_document_behind_its_own_events_is_no_second_run(tmp_path: Path) -> None:
    found = opened(tmp_path, events("tcp-reverse") + text("tcp-reverse"))
    assert flows(found) == [["TCP download"]]


def test_a_run_that_could_not_connect_leaves_the_others_and_is_reported(tmp_path: Path) -> None:
    (found,) = opened(tmp_path, text("refused") + text("tcp-reverse"))
    assert "unable to connect" in " ".join(found.notes)


WRAPPED = {
    "text around": lambda whole: f"$ iperf3 -c 10.9.0.2 -J\n{whole}\niperf Done.\n",
    "stamps of ts": lambda whole: "".join(f"Nov 26 11:01:09 {line}\n" for line in whole.splitlines()),
    "stamps in brackets": lambda whole: "".join(f"[2026-11-26 11:01:09] {line}\n" for line in whole.splitlines()),
    "name of a container": lambda whole: "".join(f"iperf3-1  | {line}\n" for line in whole.splitlines()),
    "journal": lambda whole: "".join(f"Nov 26 11:01:09 vm iperf3[812]: {line}\n" for line in whole.splitlines()),
    "CRLF": lambda whole: whole.replace("\n", "\r\n"),
    "byte order mark": lambda whole: "\ufeff" + whole,
}


@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.parametrize("of", [text, events])
def test_what_stands_around_the_json_changes_nothing(tmp_path: Path, how: str, of: Any) -> None:
    (found,) = opened(tmp_path, WRAPPED[how](of("tcp-reverse")))
    assert found.grid().equals(open_recording(FOLDER / "tcp-reverse.json").grid())
    assert found.status == "complete"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_what_powershell_redirects_is_read(tmp_path: Path, encoding: str) -> None:
    (found,) = opened(tmp_path, text("tcp-reverse").encode(encoding))
    assert found.samples("TCP download").height == 4


@pytest.mark.parametrize("nothing", ["nan", "-nan", "inf", "-inf", "-nan(ind)", "1.#QNAN", "NaN", "Infinity"])
def test_what_c_writes_for_no_number_is_none(tmp_path: Path, nothing: str) -> None:
    whole = json.loads(text("udp-reverse"))
    whole["intervals"][1]["streams"][0]["jitter_ms"] = "HERE"
    whole["title"] = "nan, inf"
    (found,) = opened(tmp_path, json.dumps(whole).replace('"HERE"', nothing))
    assert found.samples("UDP download").height == 4
    assert found.samples("UDP download::jitter")["value"].to_list()[1] is None


def test_a_run_without_reports_between_is_its_end_section(tmp_path: Path) -> None:
    whole = json.loads(text("tcp-two-streams"))
    whole["intervals"] = []
    (found,) = opened(tmp_path, json.dumps(whole))
    assert flows([found]) == [["TCP upload 1", "TCP upload 2"]]
    assert Summary(found).goodput()["up"] == pytest.approx(
        whole["end"]["sum_received"]["bits_per_second"] / 1e6, rel=0.01
    )


def test_the_servers_own_output_is_of_the_servers_host(tmp_path: Path) -> None:
    whole = json.loads(text("tcp-two-streams"))
    whole["start"]["accepted_connection"] = {"host": "10.9.0.1", "port": 40000}
    del whole["start"]["connecting_to"]
    for interval in whole["intervals"]:
        for stream in interval["streams"]:
            del stream["sender"]
    (found,) = opened(tmp_path, json.dumps(whole))
    assert flows([found]) == [["TCP download 1", "TCP download 2"]]
    assert found.table("flows")["host"].to_list() == ["10.9.0.1", "10.9.0.1"]


def test_the_zeros_at_the_end_of_a_servers_own_output_are_no_result(tmp_path: Path) -> None:
    whole = json.loads(text("udp-reverse"))
    whole["end"]["streams"][0]["udp"] |= {"bytes": 0, "bits_per_second": 0}
    (found,) = opened(tmp_path, json.dumps(whole))
    goodput = Summary(found).goodput()["down"]
    assert goodput is not None
    assert goodput > 0


def test_long_lines_of_whatever_else_take_no_time() -> None:
    assert documents(b"a " * 200_000) == []
    assert len(documents(b"a " * 200_000 + b"\n" + text("udp").encode())) == 1
