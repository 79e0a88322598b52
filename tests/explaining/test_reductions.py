"""Reductions of windows by the kernel's events, in recordings with known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from explaining.made_connections import EVERY_NS, connection, samples
from plain_text import plain
from whydrop.explaining.recordings import document
from whydrop.recording.metrics.summary import Summary
from whydrop.recording.recording import Recording

N = 400


def made(events: list[dict[str, Any]], window: Any, control: str = "cubic", **columns: Any) -> Recording:
    """A recording with these events; their ``time_ns`` are numbers of samples."""
    rows = samples(N, congestion_window_packets=window, unacked_packets=window, **columns)
    recording = connection(rows, control)
    first = rows["time_ns"][0]
    placed = [{"flow": 0, **event, "time_ns": int(first + event["time_ns"] * EVERY_NS)} for event in events]
    empty = {"event": None, "cause": None, "congestion_state": "open", "duplicate_acks": 0}
    frame = pl.DataFrame([{**empty, "duplicate_acks_of_reordering": 0, **event} for event in placed])
    metadata = {**recording.metadata, "test": {"step_s": 0.2, "parameters": {"events": True}}}
    parts = {name: recording.table(name) for name in ("flows", "tcp_info", "intervals")}
    return Recording(recording.path, metadata, {**parts, "tcp_events": frame})


def told(recording: Recording) -> dict[str, Any]:
    (flow,) = document.of_recording(recording).document()["recordings"][0]["flows"]
    signals: dict[str, Any] = flow["congestion_signals"]
    return signals


def falling(*at: int, to: int = 70) -> Any:
    window = np.full(N, 100)
    for place in at:
        window[place : place + 20] = to
    return window


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("fast-retransmit", "fast-retransmit"),
        ("timeout", "timeout"),
        ("ecn", "ecn"),
        ("local-queue", "local-stall"),
        ("tail-loss-probe", "tail-loss-probe"),
    ],
)
def test_each_cause_is_counted_and_explains_the_fall(cause: str, kind: str) -> None:
    found = told(made([{"time_ns": 99.5, "event": "reduction", "cause": cause}], falling(100)))
    assert (found["by"], found["count"], found[kind]) == ("events", 1, 1)
    assert (found["falls"], found["falls_attributed"], found["falls_attributed_share"]) == (1, 1, 1.0)


def test_a_fall_without_an_event_and_one_with_an_unexplained_event_are_not_attributed() -> None:
    events = [{"time_ns": 199.5, "event": "reduction", "cause": "unexplained"}]
    found = told(made(events, falling(100, 200)))
    assert (found["falls"], found["falls_attributed"], found["unexplained"]) == (2, 0, 1)


def test_a_window_that_falls_in_steps_during_a_recovery_falls_by_its_cause() -> None:
    window = np.full(N, 100)
    window[100:103] = [90, 80, 70]
    window[200:] = 60
    begins = {"time_ns": 99.5, "event": "reduction", "cause": "fast-retransmit", "congestion_state": "recovery"}
    ends = {"time_ns": 104.5, "event": "state"}
    found = told(made([begins, ends], window))
    assert (found["falls"], found["falls_attributed"]) == (4, 3)


def test_reductions_that_are_no_signals_are_counted_apart_and_explain_falls() -> None:
    events = [{"time_ns": 99.5, "event": "reduction", "cause": "application-limited"}]
    found = told(made(events, falling(100)))
    assert (found["count"], found["other_reductions"], found["falls_attributed"]) == (0, {"application-limited": 1}, 1)


def test_a_window_that_was_not_used_fell_up_to_two_round_trips_before_its_event() -> None:
    event = {"event": "reduction", "cause": "application-limited", "srtt_ns": 2 * EVERY_NS}
    assert told(made([{"time_ns": 103.5, **event}], falling(100)))["falls_attributed"] == 1
    assert told(made([{"time_ns": 104.5, **event}], falling(100)))["falls_attributed"] == 0


def test_bbr_s_window_falls_by_its_model() -> None:
    found = told(made([], falling(100, 200), "bbr"))
    assert (found["falls"], found["falls_attributed_share"]) == (2, 1.0)


def test_the_sentence_says_the_causes_what_was_undone_and_the_duplicates() -> None:
    events = [
        {"time_ns": 99.5, "event": "reduction", "cause": "fast-retransmit"},
        {"time_ns": 110, "event": "undone", "duplicate_acks": 9, "duplicate_acks_of_reordering": 4},
    ]
    recording = made(events, falling(100), duplicate_acks=np.where(np.arange(N) > 100, 9, 0))
    evidence = " ".join(
        plain(line) for one in document.of_recording(recording).document()["verdicts"] for line in one["evidence"]
    )
    assert "reduced its window once: 1 fast retransmit; once it reverted this" in evidence
    assert "all of the falls between its samples have a known cause" in evidence
    assert "9 duplicate acknowledgments came, 4 of them by reordering alone" in evidence


def test_without_events_samples_show_the_reductions() -> None:
    recording = made([], falling(100))
    recording = Recording(
        recording.path,
        {**recording.metadata, "test": {"step_s": 0.2, "parameters": {"events": False}}},
        {name: recording.table(name) for name in ("flows", "tcp_info", "intervals")},
    )
    assert told(recording)["by"] == "samples"


def test_the_summary_has_the_reductions_by_cause_where_events_were_recorded() -> None:
    causes = ("timeout", "fast-retransmit", "fast-retransmit")
    events = [{"time_ns": place, "event": "reduction", "cause": cause} for place, cause in enumerate(causes)]
    summary = Summary(made(events, falling(100)))
    assert summary.window_reductions() == {"fast-retransmit": 2, "timeout": 1}
    assert Summary(connection(samples(N))).window_reductions() is None


def test_a_sample_was_read_between_the_start_of_its_poll_and_its_time() -> None:
    recording = made([{"time_ns": 98.7, "event": "reduction", "cause": "ecn"}], falling(100))
    assert told(recording)["falls_attributed"] == 0
    starts = recording.table("tcp_info")["time_ns"] - EVERY_NS // 2
    polls = pl.DataFrame({"start_ns": starts, "end_ns": starts + EVERY_NS // 2})
    parts = {name: recording.table(name) for name in ("flows", "tcp_info", "intervals", "tcp_events")}
    assert told(Recording(recording.path, recording.metadata, {**parts, "polls": polls}))["falls_attributed"] == 1
