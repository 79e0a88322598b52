"""The output of iperf3, as iperf3 3.12 wrote it over the loopback interface."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whydrop.formats.importing import open_recording
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording, RecordingError

FOLDER = Path(__file__).parent / "iperf3"


def content(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())


def opened(name: str) -> Recording:
    return open_recording(FOLDER / f"{name}.json")


def names(recording: Recording) -> list[str]:
    return [series.name for series in recording.series() if not series.key]


def test_streams_side_by_side_are_flows_with_sum_mean_and_fairness() -> None:
    found = opened("tcp-two-streams")
    computed = ["TCP upload avg", "TCP upload sum", "TCP upload fairness"]
    assert names(found) == ["TCP upload 1", "TCP upload 2", *computed]
    original = content("tcp-two-streams")
    for place, name in enumerate(("TCP upload 1", "TCP upload 2")):
        expected = [interval["streams"][place]["bits_per_second"] / 1e6 for interval in original["intervals"]]
        assert found.samples(name)["value"].to_list() == pytest.approx(expected)
        told = original["end"]["streams"][place]["receiver"]["bits_per_second"] / 1e6
        assert Summary(found).mean(found.series(name)[0]) == pytest.approx(told)
    assert found.step_s == 0.25
    assert found.table("flows")["congestion_control"].to_list() == ["bbr", "bbr"]


def test_the_senders_window_and_round_trip_time_are_read() -> None:
    found = opened("tcp-two-streams")
    streams = [interval["streams"][0] for interval in content("tcp-two-streams")["intervals"]]
    rtt = found.samples("TCP upload 1::tcp_rtt")["value"].to_list()
    assert rtt == [stream["rtt"] / 1000 for stream in streams]
    windows = found.samples("TCP upload 1::tcp_cwnd")["value"].to_list()
    assert windows == [round(stream["snd_cwnd"] / 32768) for stream in streams]
    assert Summary(found).retransmissions() == {"TCP upload 1": 0, "TCP upload 2": 0}


def test_the_other_way_and_both_ways_at_once_are_distinguished() -> None:
    assert names(opened("tcp-reverse")) == ["TCP download"]
    assert names(opened("tcp-bidirectional")) == ["TCP upload", "TCP download"]
    assert opened("tcp-bidirectional").table("flows")["direction"].to_list() == ["up", "down"]
    assert names(opened("udp-bidirectional")) == ["UDP upload", "UDP download"]


def test_losses_and_jitter_of_udp_are_the_receivers() -> None:
    changed = content("udp-reverse")
    changed["intervals"][1]["streams"][0] |= {"lost_packets": 1, "packets": 5, "jitter_ms": 0.25}
    found = open_recording(FOLDER / "udp-reverse.json")
    assert [loss.lost for loss in Summary(found).losses()] == [0]
    from whydrop.formats.iperf3 import recording

    found = recording(changed, FOLDER / "x")
    assert found.samples("UDP download::loss")["value"].to_list() == [0.0, 20.0, 0.0, 0.0]
    assert found.samples("UDP download::jitter")["value"].to_list()[1] == 0.25
    (loss,) = Summary(found).losses()
    assert (loss.sent, loss.lost) == (20, 1)


def test_an_upload_of_udp_is_counted_at_the_sender_and_what_arrived_is_known_at_the_end() -> None:
    found = opened("udp")
    facts = json.loads(found.table("flows")["facts"][0])
    assert facts["counted_at"] == "sender"
    told = content("udp")["end"]["streams"][0]["udp"]
    (loss,) = Summary(found).losses()
    assert (loss.sent, loss.lost) == (told["packets"], told["lost_packets"])
    sent = [interval["streams"][0]["bits_per_second"] / 1e6 for interval in content("udp")["intervals"]]
    assert found.samples("UDP upload::sent_mbit")["value"].to_list() == pytest.approx(sent)


def test_a_run_that_measured_nothing_is_refused_with_iperf3s_own_reason() -> None:
    with pytest.raises(RecordingError, match="unable to connect to server: Connection refused"):
        opened("refused")


def test_a_run_that_was_cut_short_is_kept_and_called_failed(tmp_path: Path) -> None:
    cut = {**content("tcp-reverse"), "end": {}, "error": "the server has terminated"}
    (tmp_path / "a.json").write_text(json.dumps(cut))
    found = open_recording(tmp_path / "a.json")
    assert found.status == "failed"
    assert found.metadata["failures"] == ["iperf3: the server has terminated"]
    assert found.samples("TCP download").height == 4


def test_the_stream_of_events_of_newer_versions_is_read_like_the_document(tmp_path: Path) -> None:
    whole = content("tcp-reverse")
    lines = [
        {"event": "start", "data": whole["start"]},
        *({"event": "interval", "data": interval} for interval in whole["intervals"]),
        {"event": "end", "data": whole["end"]},
    ]
    (tmp_path / "a.json").write_text("\n".join(map(json.dumps, lines)))
    assert open_recording(tmp_path / "a.json").grid().equals(opened("tcp-reverse").grid())


def test_omitted_intervals_are_left_out_and_reported(tmp_path: Path) -> None:
    changed = content("tcp-reverse")
    changed["intervals"][0]["streams"][0]["omitted"] = True
    (tmp_path / "a.json").write_text(json.dumps(changed))
    found = open_recording(tmp_path / "a.json")
    assert found.samples("TCP download").height == 3
    assert "omit" in found.notes[0]


@pytest.mark.parametrize("odd", [None, [], "x", 5, {}, {"streams": 5}, {"streams": [5, {"socket": "a"}]}])
def test_odd_intervals_cost_only_themselves(tmp_path: Path, odd: Any) -> None:
    changed = content("tcp-reverse")
    changed["intervals"].append(odd)
    changed["start"]["connected"] = odd
    changed["end"] = {"streams": odd}
    (tmp_path / "a.json").write_text(json.dumps(changed))
    assert open_recording(tmp_path / "a.json").samples("TCP download").height == 4
