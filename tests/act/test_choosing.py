"""Which fix a verdict suggests, and which verdicts suggest none."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from plain_text import plain
from whydrop.act.fixing import Evidence, NoRemedy, Remedy, choose
from whydrop.act.pacing import Route
from whydrop.act.snapshot import Snapshot

ROUTE = Route((ipaddress.ip_address("192.0.2.1"),), "lo", 1, Snapshot(1, 1000, (), (), ()))


def evidence(cause: str, parameters: dict[str, float], **before: float) -> Evidence:
    told = {name: {"value": value, "low": None, "high": None} for name, value in parameters.items()}
    verdict: dict[str, Any] = {
        "cause": cause,
        "sentence": f"{cause}.",
        "parameters": told,
        "evidence": [],
        "against": [],
    }
    return Evidence(None, {"verdicts": [verdict]}, {key.replace("_", "-"): value for key, value in before.items()})


@pytest.mark.parametrize(
    "cause",
    ["random-loss", "receiver-window", "sender", "reordering", "aqm", "none", "unknown", "capture-loss", "outage"],
)
def test_what_no_queue_and_no_pacing_mends_is_left_alone_with_a_reason(cause: str) -> None:
    chosen = choose(evidence(cause, {"rate_bps": 1e6, "drain_rate_bps": 1e6}), ROUTE)
    assert isinstance(chosen, NoRemedy)
    assert len(chosen.why) > 20


def test_without_a_rate_nothing_is_paced() -> None:
    chosen = choose(evidence("policer", {}), ROUTE)
    assert isinstance(chosen, NoRemedy)
    assert "whydrop pace" in chosen.why


def test_a_policer_is_paced_for_goodput_where_there_is_some_to_gain_and_else_for_fewer_losses() -> None:
    parameters = {"rate_bps": 20e6, "burst_bytes": 50e3}
    slow = choose(evidence("policer", parameters, goodput_up=4.0), ROUTE)
    fast = choose(evidence("policer", parameters, goodput_up=18.5), ROUTE)
    assert isinstance(slow, Remedy)
    assert isinstance(fast, Remedy)
    assert (slow.aim, fast.aim) == ("goodput-up", "retransmits")
    assert slow.change is not None
    assert "19400000bit" in " ".join(slow.change.commands())
    assert "192.0.2.1/32" in " ".join(slow.change.commands())


def test_a_long_queue_elsewhere_is_paced_for_delay() -> None:
    chosen = choose(evidence("deep-queue", {"drain_rate_bps": 10e6, "limit_bytes": 1e6}, induced_latency=200.0), ROUTE)
    assert isinstance(chosen, Remedy)
    assert chosen.aim == "rtt-median"
    assert "200 ms" in plain(chosen.expected)
