"""Reductions of congestion windows in the lab: each has the cause that was laid for it."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

from lab import Lab
from lab.measuring import iperf3_server, start_iperf3
from lab.watched import Watched, between, watched

pytestmark = [pytest.mark.slow, pytest.mark.needs_kernel("pfifo", "tbf"), pytest.mark.needs_program("iperf3")]

OPTIONS = ("--port", "5201", "--events")


def causes(found: Watched) -> Counter[str]:
    """Reductions by cause."""
    events = found.table("tcp_events").filter(pl.col("event") == "reduction")
    return Counter(events["cause"].to_list())


def last(found: Watched, column: str) -> int:
    """A count of all senders at the end."""
    rows = found.table("tcp_info").sort("time_ns").group_by("flow").last()
    return int(rows[column].sum())


def test_losses_behind_a_router_are_fast_retransmits_and_timeouts(lab: Lab) -> None:
    with lab.network() as network:
        sender, router, receiver = between(network)
        router.interfaces["receiver"].tc("qdisc add dev {} root tbf rate 20mbit burst 3k limit 8000")
        with iperf3_server(receiver), watched(sender, lab.folder / "loss", *OPTIONS) as found:
            start_iperf3(sender, receiver.address, 3, "-C", "cubic").wait()
    counted = causes(found)
    assert counted.total() > 10
    assert set(counted) <= {"fast-retransmit", "timeout", "tail-loss-probe", "application-limited"}
    assert counted["fast-retransmit"] == last(found, "fast_retransmits")
    again = found.table("tcp_events").filter(pl.col("event") == "retransmission")
    assert again.height == pytest.approx(last(found, "retransmitted_packets"), rel=0.02)
    assert last(found, "duplicate_acks") >= counted["fast-retransmit"]


def test_the_sender_s_own_queue_is_the_cause_where_it_refuses_segments(lab: Lab) -> None:
    with lab.network() as network:
        sender, _, receiver = between(network)
        own = sender.interfaces["router"]
        own.tc("qdisc add dev {} root handle 1: tbf rate 20mbit burst 3k limit 30000")
        own.tc("qdisc add dev {} parent 1:1 pfifo limit 8")
        with iperf3_server(receiver), watched(sender, lab.folder / "local", *OPTIONS) as found:
            start_iperf3(sender, receiver.address, 3, "-C", "cubic", "-P", "4").wait()
    counted = causes(found)
    assert counted["local-queue"] >= 1
    assert set(counted) <= {"local-queue", "application-limited"}
    dropped = found.table("tcp_events").filter(pl.col("event") == "local-drop")
    assert dropped.height == last(found, "send_stalls") >= counted["local-queue"]
    assert last(found, "congestion_signals") == counted["local-queue"]
