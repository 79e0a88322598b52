"""Explaining recordings: each finding from the recording alone, and like recordings that must not trigger it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import recordings
from explaining.made_recordings import CoDel, FlowQueues, Lossy, MadePath, Policer, Queue, record
from plain_text import plain
from whydrop.explaining.recordings import wording
from whydrop.explaining.recordings.document import of_recording
from whydrop.explaining.words import recorded_verdicts
from whydrop.explaining.words.recorded_facts import FACTS
from whydrop.formats.importing import open_recording
from whydrop.recording.recording import Recording

FLENT = Path(__file__).parents[2].parent / "shared/data/flent"

MBIT = 1e6
# What accuses the path, or somebody.
ACCUSING = {"policer", "shallow-queue", "deep-queue", "shaper", "aqm", "random-loss", "outage"}

Verdicts = list[dict[str, Any]]


def fast() -> Queue:
    """A direction that never has a queue."""
    return Queue(1e9, 10_000)


def wifi(random: np.random.Generator, _: float) -> float:
    """Delay as of a busy radio: milliseconds of waiting for the medium, now and then a scan."""
    scan = random.uniform(0.02, 0.1) if random.random() < 0.05 else 0.0
    return float(random.exponential(0.004) + scan)


@pytest.fixture
def explained(tmp_path: Path) -> Callable[[MadePath], Verdicts]:
    def explain(path: MadePath) -> Verdicts:
        return verdicts(record(tmp_path / f"{len(list(tmp_path.iterdir()))}.recording", path))

    return explain


def verdicts(recording: Recording) -> Verdicts:
    document = of_recording(recording).document()
    assert document["captures"] == []
    assert [one["path"] for one in document["recordings"]] == [str(recording.path)]
    for verdict in document["verdicts"]:
        assert 0 <= verdict["confidence"] <= 1
        assert verdict["sentence"].endswith(".")
        assert verdict["facts"], verdict
        assert all(fact["code"] in FACTS for fact in verdict["facts"])
        for quantity in verdict["parameters"].values():
            assert quantity["low"] is None or quantity["low"] <= quantity["value"]
            assert quantity["high"] is None or quantity["high"] >= quantity["value"]
    found: Verdicts = document["verdicts"]
    return found


def causes(found: Verdicts) -> set[str]:
    return {verdict["cause"] for verdict in found}


def of_cause(found: Verdicts, cause: str) -> dict[str, Any]:
    return next(verdict for verdict in found if verdict["cause"] == cause)


# Findings of docs/findings.md.


@pytest.mark.parametrize("one_way", [True, False])
def test_rrul_over_a_fifo_of_a_second_is_bufferbloat_of_its_size(explained: Any, one_way: bool) -> None:
    queues = (Queue(10 * MBIT, 1000), Queue(10 * MBIT, 1000))
    found = explained(MadePath(*queues, uploads=4, downloads=4, one_way=one_way))
    assert found[0]["cause"] == "deep-queue"
    assert found[0]["detail"] == "bufferbloat"
    assert 0.4 < found[0]["parameters"]["induced_delay_s"]["value"] < (1.3 if one_way else 2.6)
    assert found[0]["parameters"]["base_rtt_s"]["value"] == pytest.approx(0.05, abs=0.002)
    if one_way:
        assert {(verdict["cause"], verdict["place"].split(" (")[0]) for verdict in found} == {
            ("deep-queue", "upstream"),
            ("deep-queue", "downstream"),
        }


def test_rrul_over_flow_queues_keeps_flows_apart_and_delays_no_other_flow(explained: Any) -> None:
    found = explained(MadePath(FlowQueues(10 * MBIT, 4), FlowQueues(10 * MBIT, 4), uploads=4, downloads=4))
    assert {verdict["cause"] for verdict in found if verdict["cause"] != "unfairness"} == {"aqm"}
    assert found[0]["detail"] == "flow-queueing"


def test_a_short_fifo_favours_the_near_and_the_reason_is_distance(explained: Any) -> None:
    path = MadePath(Queue(10 * MBIT, 100), fast(), rtts_s=(0.01, 0.05, 0.2, 0.5), streams=4, control="reno")
    unfair = of_cause(explained(path), "unfairness")
    assert unfair["detail"] == "distance"
    assert "TCP upload 4" in unfair["flows"]
    assert "TCP upload 1" not in unfair["flows"]


def test_flows_of_equal_distance_are_not_unfair(explained: Any) -> None:
    assert "unfairness" not in causes(explained(MadePath(Queue(10 * MBIT, 100), fast())))


# Queues.


def test_the_drain_rate_of_a_standing_queue_is_within_its_interval(explained: Any) -> None:
    for rate in (4 * MBIT, 25 * MBIT):
        found = explained(MadePath(Queue(rate, 600), fast(), one_way=False))
        drain = of_cause(found, "deep-queue")["parameters"]["drain_rate_bps"]
        assert drain["value"] == pytest.approx(rate, rel=0.03)


def test_a_load_without_a_queue_waits_for_nothing(explained: Any) -> None:
    found = explained(MadePath(Queue(1e9, 5000), fast(), window_packets=30, tells_queue=False))
    assert not causes(found) & ACCUSING
    assert found[0]["cause"] == "none"


def test_a_noisy_radio_is_no_queue_whatever_the_load(explained: Any) -> None:
    for seed in range(3):
        path = MadePath(Queue(300 * MBIT, 5000), fast(), window_packets=30, noise=wifi, tells_queue=False, seed=seed)
        assert not causes(explained(path)) & ACCUSING


def test_bufferbloat_is_seen_through_a_noisy_radio(explained: Any) -> None:
    found = explained(MadePath(Queue(10 * MBIT, 1000), fast(), noise=wifi))
    assert of_cause(found, "deep-queue")["confidence"] > 0.9


@pytest.mark.parametrize("noise", [None, wifi])
def test_an_idle_path_is_accused_of_nothing(explained: Any, noise: Any) -> None:
    quiet = {} if noise is None else {"noise": noise}
    found = explained(MadePath(fast(), fast(), uploads=0, **quiet))
    assert not causes(found) & ACCUSING


# Losses.


def test_losses_with_and_without_load_are_random(explained: Any) -> None:
    path = MadePath(Lossy(300 * MBIT, 9000, chance=0.05), fast(), length_s=40.0, idle_s=20.0)
    random = of_cause(explained(path), "random-loss")
    loss = random["parameters"]["loss_rate"]
    assert loss["low"] < 0.05 < loss["high"]
    assert random["place"].startswith("upstream")


def test_losses_of_a_full_queue_are_not_random(explained: Any) -> None:
    assert "random-loss" not in causes(explained(MadePath(Queue(10 * MBIT, 100), fast(), idle_s=20.0)))


def test_a_policer_is_never_taken_for_a_queue_nor_chance(explained: Any) -> None:
    found = explained(MadePath(Policer(10 * MBIT), fast(), uploads=8))
    assert causes(found) <= {"policer", "unknown"}


# Hosts.


def test_a_receive_window_that_stops_the_sender_is_named(explained: Any) -> None:
    found = explained(MadePath(Queue(100 * MBIT, 1000), fast(), window_packets=20))
    assert found[0]["cause"] == "receiver-window"
    assert found[0]["limited_share"] > 0.9
    assert len(found[0]["flows"]) == 4


def test_a_window_over_a_standing_queue_is_not_what_limits(explained: Any) -> None:
    found = explained(MadePath(Queue(10 * MBIT, 3000), fast(), window_packets=200))
    assert found[0]["cause"] == "shaper"
    assert found[0]["detail"] == "bufferbloat"
    assert "receiver-window" not in causes(found)
    against = {one["cause"]: one["why"] for one in found[0]["against"]}
    assert "larger window" in against["receiver-window"]


def test_an_application_with_nothing_to_send_is_named(explained: Any) -> None:
    found = explained(MadePath(Queue(100 * MBIT, 1000), fast(), window_packets=100, duty=0.2))
    assert found[0]["cause"] == "sender"
    assert found[0]["detail"] == "application"


# Outages.


def test_an_outage_is_named_with_its_time(explained: Any) -> None:
    found = explained(MadePath(Queue(10 * MBIT, 1000), fast(), outage_s=(20.0, 23.0)))
    outage = of_cause(found, "outage")
    duration = outage["parameters"]["duration_s"]
    assert duration["low"] <= 3.0 <= duration["high"]
    assert outage["start_s"] == pytest.approx(recordings.START_NS / 1e9 + 20.0, abs=0.3)
    assert "deep-queue" in causes(found)


def test_half_a_second_without_answers_is_no_outage(explained: Any) -> None:
    assert "outage" not in causes(explained(MadePath(Queue(10 * MBIT, 1000), fast(), outage_s=(20.0, 20.5))))


# Files.


def test_congestion_marks_are_an_aqm_s(tmp_path: Path) -> None:
    tables = recordings.tables()
    marks = pl.int_range(pl.len()).over("flow")
    tables["tcp_info"] = tables["tcp_info"].with_columns(delivered_ce_packets=marks)
    found = verdicts(recordings.write(tmp_path / "a", tables))
    assert any(fact["code"] == "congestion-marks" for verdict in found for fact in verdict["facts"])


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("test-http-1up", "unknown"),
        # BBR through CoDel, by its title: its probes alone do not distinguish that from a long queue.
        ("test-rrul", "unknown"),
        ("test-rrul_be-socket_stats", "none"),
        ("test-rtt-fair", "unfairness"),
        ("test-tcp_nup", "deep-queue"),
        ("test-voip-1up", "unknown"),
    ],
)
def test_every_file_of_flent_has_a_verdict_or_is_honestly_unknown(name: str, cause: str) -> None:
    path = FLENT / f"{name}.flent.gz"
    if not path.exists():
        pytest.skip("shared data are not here")
    assert cause in causes(verdicts(open_recording(path)))


def test_a_managed_queue_is_not_taken_for_a_short_one(explained: Any) -> None:
    for seed in range(3):
        assert causes(explained(MadePath(CoDel(10 * MBIT, 1000), fast(), seed=seed))) <= {"aqm", "unknown"}


def test_delay_and_drops_of_flows_that_do_not_obey_drops_are_no_proof_of_a_long_queue(tmp_path: Path) -> None:
    made = record(tmp_path / "a", MadePath(Queue(20 * MBIT, 250), fast(), control="bbr"))
    assert "deep-queue" in causes(verdicts(made))  # as for seconds packets wait, and none is retransmitted
    uncounted = made.table("tcp_info").with_columns(retransmitted_packets=pl.lit(None, pl.Int64))
    tables = {name: made.table(name) for name in ("flows", "intervals", "probes")}
    found = verdicts(Recording(made.path, made.metadata, {**tables, "tcp_info": uncounted}))
    assert causes(found) <= {"unknown", "aqm"}
    assert "a managed one" in " ".join(one["why"] for one in found[0]["against"])


def test_a_verdict_that_names_nothing_says_first_what_was_seen(explained: Any) -> None:
    found = explained(MadePath(Queue(20 * MBIT, 40), fast()))
    assert re.match(
        r"[0-9 ]+ segments \([0-9.]+ %\) were retransmitted .*; load delays packets", plain(found[0]["sentence"])
    )
    assert found[0]["sentence"].endswith("A recording alone does not show why: capture at the sender.")


def _unknown(**facts: dict[str, Any]) -> str:
    found = [{"code": code.replace("_", "-"), "values": values} for code, values in facts.items()]
    verdict: dict[str, Any] = {
        "cause": "unknown",
        "facts": found,
        "lost": 0,
        "place": {"kind": "path", "direction": "up"},
    }
    verdict |= {"parameters": {}, "detail": None, "limited_share": 0.0, "flows": []}
    return recorded_verdicts.sentence(verdict)


@pytest.mark.parametrize("idle", [0.0, None])
def test_losses_under_load_alone_are_not_said_to_ignore_it(idle: float | None) -> None:
    found = wording.phrase({"code": "losses-with-and-without-load", "values": {"idle_share": idle, "share": 0.007}})
    assert plain(found).startswith("0.70 % of the probes were lost under load")
    assert "follow" not in found


def test_losses_that_were_counted_and_are_none_are_not_called_unmeasured() -> None:
    nothing = {"count": 0, "share": 0.0, "direction": "up"}
    assert _unknown(retransmissions=nothing).startswith("Nothing was lost, and the queueing delay was not measured")
    assert _unknown().startswith("This recording measured neither losses nor delay")


def test_an_unknown_cause_under_the_responder_s_limit_takes_a_higher_limit_and_no_capture() -> None:
    limits = {"flow": "TCP upload", "limits": ["far-end"], "shares": [0.79]}
    found = _unknown(limited_by=limits)
    assert "TCP upload is limited by the responder (its --max-rate) for 79 % of the time." in plain(found)
    assert found.endswith("start the responder with a higher --max-rate.")


def test_a_short_queue_is_unknown_as_a_managed_one_may_look_the_same(explained: Any) -> None:
    found = explained(MadePath(Queue(20 * MBIT, 40), fast()))
    assert found[0]["cause"] == "unknown"
    against = {one["cause"]: one["why"] for one in found[0]["against"]}
    assert "the queue is short or managed" in against["shallow-queue"]
