"""Flows that an end limited: a responder's own limit, a send buffer; no cause on the path is named for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from explaining.made_connections import BASE_NS, MSS, clocks, connection, samples
from explaining.made_recordings import FlowQueues, MadePath, Queue, record
from explaining.test_recordings_together import FAR, UP, seen
from plain_text import plain
from whydrop.explaining.recordings import together
from whydrop.explaining.recordings.document import of_recording
from whydrop.explaining.recordings.measures import scene as scenes
from whydrop.measure import end_limits
from whydrop.measure.end_limits import EndLimits
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.tally import Tally
from whydrop.recording import tables
from whydrop.recording.recording import Recording

MBIT = 1e6
PATH = {"aqm", "deep-queue", "shaper", "shallow-queue", "policer", "sender", "unfairness"}


def told(recording: Recording, direction: str, **facts: str) -> Recording:
    """The recording, with these facts of the responder on its flows of one direction."""
    flows = recording.table("flows").with_columns(
        facts=pl.when(pl.col("direction") == direction).then(pl.lit(json.dumps(facts))).otherwise("facts")
    )
    parts = {name: recording.table(name) for name in ("intervals", "tcp_info", "probes")}
    return Recording(recording.path, recording.metadata, {"flows": flows, **parts})


def verdicts(recording: Recording) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = of_recording(recording).document()["verdicts"]
    return found


@pytest.mark.parametrize("queue", [FlowQueues(20 * MBIT, 4), Queue(20 * MBIT, 200)], ids=["queues of flows", "fifo"])
def test_uploads_that_the_responder_reads_late_name_no_cause_on_the_path(queue: Queue, tmp_path: Path) -> None:
    made = record(tmp_path / "made.recording", MadePath(queue, Queue(1000 * MBIT, 10_000)))
    (first, *others) = verdicts(told(made, "up", held_back_s_by_responder="29.5"))
    assert (first["cause"], first["detail"]) == ("peer-application", "responder-limit")
    assert first["at"] == {"kind": "far-end", "direction": "up"}
    assert first["place"] == "at the responder"
    assert "responder's own limit, not the path" in first["sentence"]
    assert not PATH & {one["cause"] for one in others}


def test_downloads_as_fast_as_they_are_paced_name_no_cause_on_the_path(tmp_path: Path) -> None:
    path = MadePath(Queue(1000 * MBIT, 10_000), Queue(20 * MBIT, 100), uploads=0, downloads=4)
    limits = told(record(tmp_path / "made.recording", path), "down", held_to_bps_by_responder=f"{4.9 * MBIT:.0f}")
    first = verdicts(limits)[0]
    assert (first["cause"], first["detail"]) == ("peer-application", "responder-limit")
    assert "paced TCP download 1 to 4.90 Mbit/s" in plain(first["evidence"][0])


@pytest.mark.parametrize("facts", [{"held_to_bps_by_responder": "9e6"}, {"held_back_s_by_responder": "0.8"}])
def test_a_limit_that_is_higher_than_what_the_path_carries_is_not_the_cause(
    facts: dict[str, str], tmp_path: Path
) -> None:
    path = MadePath(Queue(20 * MBIT, 500), Queue(1000 * MBIT, 10_000))
    causes = [one["cause"] for one in verdicts(told(record(tmp_path / "made.recording", path), "up", **facts))]
    assert "deep-queue" in causes
    assert "peer-application" not in causes


def test_a_window_that_the_responder_s_limit_closes_is_attributed_to_the_limit_beside_a_capture_too(
    tmp_path: Path,
) -> None:
    made = record(tmp_path / "made.recording", MadePath(Queue(20 * MBIT, 200), Queue(1000 * MBIT, 10_000)))
    scene = scenes.measure(told(made, "up", held_back_s_by_responder="29.5"))
    assert scene is not None
    window = seen("receiver-window", UP, lost=0)
    found = together.verdicts([scene], [FAR], {"verdicts": [window], "pair": None})
    assert (found[0]["cause"], found[0]["detail"]) == ("peer-application", "responder-limit")
    assert "receiver-window" not in {one["cause"] for one in found}
    assert not any("tcp_rmem" in line for one in found for line in one["advice"])


@pytest.mark.parametrize("words", ["nan", "inf", "-3", "much", "1e400"])
def test_limits_that_are_no_numbers_are_none(words: str, tmp_path: Path) -> None:
    made = record(tmp_path / "made.recording", MadePath(Queue(20 * MBIT, 500), Queue(1000 * MBIT, 10_000), length_s=10))
    found = verdicts(told(made, "up", held_back_s_by_responder=words, held_to_bps_by_responder=words))
    assert all(one["cause"] != "peer-application" for one in found)


# A buffer of 200 kB that holds 60 packets where the window is of 100; of what is in it some is still to leave.
FULL = {"unacked_packets": 50, "send_buffer_bytes": 200_000, "send_memory_bytes": 180_000}


def greedy(rows: pl.DataFrame, control: str = "cubic", **settings: Any) -> list[dict[str, Any]]:
    """Verdicts on one of whydrop's own flows with these samples."""
    recording = connection(rows, control)
    flows = recording.table("flows").with_columns(
        runner=pl.lit("engine"), settings=pl.lit(json.dumps(settings)), facts=pl.lit("{}")
    )
    parts = {"tcp_info": rows, "intervals": recording.table("intervals"), "flows": flows}
    return verdicts(Recording(recording.path, recording.metadata, parts))


@pytest.mark.parametrize("waiting", [0, 10 * MSS])
def test_a_full_send_buffer_is_named_with_its_size_and_what_to_set(waiting: int) -> None:
    """The kernel's clock of it runs for a part of the time only: while all that was written has left."""
    first = greedy(samples(**FULL, not_sent_bytes=waiting, **clocks(buffer=0.3)))[0]
    assert (first["cause"], first["detail"]) == ("sender", "send-buffer")
    assert first["at"]["kind"] == "sender"
    assert first["parameters"]["send_buffer_bytes"]["value"] == 200_000
    assert first["parameters"]["needed_bytes"]["low"] >= 200_000
    assert any("net.ipv4.tcp_wmem=" in line for line in first["advice"])


def test_a_greedy_flow_never_has_an_application_without_anything_to_send() -> None:
    rows = samples(unacked_packets=40, not_sent_bytes=0, send_memory_bytes=None, send_buffer_bytes=None)
    found = greedy(rows)
    assert (found[0]["cause"], found[0]["detail"]) == ("sender", "send-buffer")
    # Of a flow with a rate, or of any other program, it is as likely as not.
    assert greedy(rows, rate_bps=5e6)[0]["detail"] == "application"


def test_a_rate_that_the_test_itself_sets_is_no_fault_of_an_application() -> None:
    rows = samples(unacked_packets=40, not_sent_bytes=0, send_memory_bytes=None, send_buffer_bytes=None)
    first = greedy(rows, rate_bps=5e6)[0]
    assert first["sentence"].startswith("The rate that the test sets, not the path, limits ")
    assert any("the rate of 5.00 Mbit/s that the test sets" in line for line in plain(first["evidence"]))
    assert "application" not in " ".join(first["advice"])


@pytest.mark.parametrize("rate", [0, -1.0, True, "fast", None])
def test_a_rate_that_is_none_is_not_said(rate: object) -> None:
    rows = samples(unacked_packets=40, not_sent_bytes=0, send_memory_bytes=None, send_buffer_bytes=None)
    first = greedy(rows, rate_bps=rate)[0]
    assert "that the test sets" not in first["sentence"]


def test_a_buffer_behind_which_packets_stand_in_a_queue_is_not_too_small() -> None:
    found = greedy(samples(**FULL, not_sent_bytes=0, srtt_ns=2 * BASE_NS))
    assert all(one["cause"] != "sender" for one in found)


def test_a_window_of_twice_what_the_path_needs_makes_no_buffer_too_small() -> None:
    """BBR's: its buffer is too small only where it runs dry."""
    for share, cause in ((0.0, False), (0.4, True)):
        rows = samples(**FULL, not_sent_bytes=10 * MSS, **clocks(buffer=share))
        assert any(one["detail"] == "send-buffer" for one in greedy(rows, "bbr")) == cause


def test_the_run_warns_of_a_send_buffer_that_limits_its_flows() -> None:
    flow = PlannedFlow("Up", "tcp", direction="up")
    for columns, warned in ((FULL, True), ({**FULL, "send_memory_bytes": 50_000}, False)):
        limits = EndLimits({0: Tally(0, flow)})
        limits.count({"tcp_info": samples(**columns, not_sent_bytes=0)})
        found = limits.warnings()
        assert bool(found) == warned, found
        assert all("tcp_wmem" in line and "200 kB" in line for line in plain(found))


@pytest.mark.slow
def test_the_run_counts_a_long_test_piece_by_piece_as_it_counts_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end_limits, "_ROWS_AT_ONCE", 70)
    flow = PlannedFlow("Up", "tcp", direction="up")
    rows = samples(**FULL, not_sent_bytes=0)
    found = []
    for pieces in (1, rows.height):
        limits = EndLimits({0: Tally(0, flow)})
        for _ in range(2):
            for piece in rows.iter_slices(rows.height // pieces):
                limits.count({"tcp_info": piece.select(piece.columns[:: 1 if pieces == 1 else -1])})
        found.append(limits.warnings())
    assert found[0] == found[1] != []


def test_the_run_says_nothing_of_flows_that_report_no_memory() -> None:
    flow = PlannedFlow("Up", "tcp", direction="up")
    limits = EndLimits({0: Tally(0, flow)})
    limits.count({})
    limits.count({"tcp_info": tables.conform("tcp_info", pl.DataFrame({"flow": np.zeros(9, np.int32)}))})
    assert limits.warnings() == []


def test_the_run_and_the_explanation_share_the_rule_of_a_paced_flow() -> None:
    tally = Tally(0, PlannedFlow("Down", "tcp", direction="down"))
    tally.facts["held_to_bps_by_responder"] = "8000000"
    tally.first_ns, tally.last_ns = 0, 4 * 10**9
    for sizes, warned in (([990_000] * 4, True), ([400_000] * 4, False)):
        rows = [(0, second * 10**9, (second + 1) * 10**9, size) for second, size in enumerate(sizes)]
        frame = pl.DataFrame(rows, schema=["flow", "start_ns", "end_ns", "payload_bytes"], orient="row")
        limits = EndLimits({0: tally})
        limits.count({"intervals": frame})
        assert bool(limits.warnings()) == warned
