"""Triggers, judged by readings of connections."""

from __future__ import annotations

from typing import Any

import pytest

from whydrop.monitoring.rolling import filters
from whydrop.monitoring.rolling.triggers import Judge, TriggerError, Triggers

ENDS = filters.Ends(("192.0.2.1", "198.51.100.1"), (50_000, 443))


def reading(flow: int = 0, **fields: Any) -> dict[str, Any]:
    """A connection as the board of ``whydrop watch`` has it."""
    return {"flow": flow, "retransmitted": 0, "srtt_ns": 20_000_000, "limit": "pacing", "state": "established"} | fields


def judged(judge: Judge, now_s: float, *rows: dict[str, Any]) -> str | None:
    """The kind of the trigger that fires."""
    found = judge.judge(list(rows), lambda _: ENDS, now_s)
    return found and found.kind


def test_a_loss_fires_when_one_connection_retransmits_enough_within_a_second() -> None:
    judge = Judge(Triggers(loss_packets=3), None)
    assert judged(judge, 0.0, reading(retransmitted=2)) is None
    assert judged(judge, 1.5, reading(retransmitted=2)) is None
    found = judge.judge([reading(retransmitted=1)], lambda _: ENDS, 1.75)
    assert found is not None
    assert found.words.startswith("192.0.2.1:50000 > 198.51.100.1:443 retransmitted 3")


def test_losses_of_two_connections_do_not_add_up() -> None:
    judge = Judge(Triggers(loss_packets=3), None)
    assert judged(judge, 0.0, reading(0, retransmitted=2), reading(2, retransmitted=2)) is None


def test_a_connection_seen_for_the_first_time_has_lost_nothing_yet() -> None:
    assert judged(Judge(Triggers(loss_packets=1), None), 0.0, reading(retransmitted=None)) is None


def test_a_delay_fires_above_its_round_trip_time_and_not_for_idle_connections() -> None:
    judge = Judge(Triggers(delay_s=0.1), None)
    assert judged(judge, 0.0, reading()) is None
    assert judged(judge, 0.2, reading(srtt_ns=150_000_000, limit="idle")) is None
    assert judged(judge, 0.4, reading(srtt_ns=150_000_000)) == "delay"


def test_a_verdict_fires_when_it_lasts() -> None:
    judge = Judge(Triggers(limits=("network",)), None)
    assert judged(judge, 0.0, reading(limit="loss recovery")) is None
    assert judged(judge, 0.2, reading(limit="pacing")) is None
    assert judged(judge, 0.4, reading(limit="loss recovery")) is None
    assert judged(judge, 0.6, reading(limit="congestion window")) == "verdict"


def test_connections_outside_the_filter_fire_nothing() -> None:
    judge = Judge(Triggers(delay_s=0.001), filters.read("port 80"))
    assert judged(judge, 0.0, reading()) is None


@pytest.mark.parametrize("wrong", [{"loss_packets": 0}, {"delay_s": 0.0}, {"limits": ("wlan",)}])
def test_a_trigger_that_could_not_fire_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TriggerError):
        Triggers(**wrong)
