"""Reductions of congestion windows in the lab: each has the cause that was laid for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lab import Host, Lab
from lab.measuring import iperf3_server, start_iperf3
from lab.watched import Watched, between, watched
from plots.test_tcp_plots import STUDY
from whydrop.explaining.recordings.document import explain
from whydrop.explaining.sources import analyse
from whydrop.recording.recording import Recording
from whydrop.show.figure import NothingToDraw
from whydrop.show.plots import building, catalogue

pytestmark = [pytest.mark.slow, pytest.mark.needs_kernel("pfifo", "tbf"), pytest.mark.needs_program("iperf3")]

OPTIONS = ("--port", "5201", "--events")
MEASURED_AT_MOST = 3


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
        # On a busy machine the kernel leaves out events, and says so: then it is measured again.
        for turn in range(MEASURED_AT_MOST):
            with iperf3_server(receiver), watched(sender, lab.folder / f"loss-{turn}", *OPTIONS) as found:
                start_iperf3(sender, receiver.address, 3, "-C", "cubic").wait()
            if not found.unreported:
                break
    counted = causes(found)
    assert counted.total() > 10
    # A kernel may run no program for an event: its recovery is seen without its cause.
    assert counted.pop("unexplained", 0) <= 0.01 * counted.total() + 1
    assert set(counted) <= {"fast-retransmit", "timeout", "tail-loss-probe", "application-limited"}
    assert counted["fast-retransmit"] == last(found, "fast_retransmits")
    again = found.table("tcp_events").filter(pl.col("event") == "retransmission")
    # The last sample may be older than the last retransmission.
    assert again.height + found.unreported >= last(found, "retransmitted_packets")
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
    counted, events = causes(found), found.table("tcp_events")
    assert counted["local-queue"] >= 1
    assert set(counted) <= {"local-queue", "fast-retransmit", "application-limited"}
    # The kernel reorders packets when their process moves to another processor; TCP then notices that none was lost.
    assert counted["fast-retransmit"] <= last(found, "reordering_seen") + last(found, "duplicate_sacks")
    dropped = events.filter(pl.col("event") == "local-drop")
    assert dropped.height == last(found, "send_stalls") >= counted["local-queue"]
    assert last(found, "congestion_signals") == counted["local-queue"] + counted["fast-retransmit"]


def _all_figures(sender: Host, receiver: Host, found: Path) -> list[str]:
    """The figures of the study that a recording has no data for; its sender's own queue is short."""
    own = sender.interfaces["router"]
    own.tc("qdisc add dev {} root handle 1: tbf rate 20mbit burst 3k limit 30000")
    own.tc("qdisc add dev {} parent 1:1 pfifo limit 8")
    with iperf3_server(receiver), watched(sender, found, *OPTIONS, "-i", "50ms"):
        start_iperf3(sender, receiver.address, 4, "-C", "cubic", "-P", "8").wait()
    (path,) = found.glob("*.recording")
    recording, empty = Recording.open(path), []
    for name in STUDY:
        try:
            building.build(name, catalogue.find(name), [recording])
        except NothingToDraw:
            empty.append(name)
    return empty


def test_the_nineteen_published_figures_have_data_on_this_kernel(lab: Lab) -> None:
    with lab.network() as network:
        sender, _, receiver = between(network)
        assert _all_figures(sender, receiver, lab.folder / "figures") == []


@pytest.mark.needs_kernel("netem")
def test_the_nineteen_published_figures_have_data_on_debian_s_kernel(lab: Lab) -> None:
    with lab.network() as network:
        sender, _, receiver = between(network)
        assert _all_figures(sender, receiver, lab.folder / "figures") == []


def signals(found: Watched) -> dict[str, Any]:
    """The reductions of the flow that carried most, as `whydrop explain` reports them."""
    (path,) = found.folder.glob("*.recording")
    flows = explain(path).document()["recordings"][0]["flows"]
    counted = [flow["congestion_signals"] for flow in flows if flow["congestion_signals"]]
    return max(counted, key=lambda one: one["duplicate_acks"] + one["count"] + one["falls"])


def _interrupted(sender: Host, router: Host, receiver: Host) -> None:
    running = start_iperf3(sender, receiver.address, 6, "-C", "cubic")
    time.sleep(2)
    device = router.interfaces["receiver"]
    device.tc("qdisc replace dev {} root netem loss 100%")
    time.sleep(1)
    device.tc("qdisc replace dev {} root netem delay 20ms")
    running.wait()


def _steadily(sender: Host, _: Host, receiver: Host) -> None:
    start_iperf3(sender, receiver.address, 4, "-C", "cubic").wait()


def _in_bursts(sender: Host, _: Host, receiver: Host) -> None:
    start_iperf3(
        sender, receiver.address, 5, "-C", "cubic", "-b", "2M", "--pacing-timer", "900000", "-l", "400K"
    ).wait()


SCENES: dict[str, tuple[str, str | None, Callable[[Host, Host, Host], None]]] = {
    "loss": ("netem delay 20ms loss 0.5% rate 50mbit limit 1000", "fast-retransmit", _steadily),
    "reordering": ("netem delay 20ms reorder 95% 25% limit 1000", "fast-retransmit", _steadily),
    "jitter": ("netem delay 20ms 2ms limit 1000", None, _steadily),
    "ecn": ("fq_codel ecn target 2ms interval 20ms", "ecn", _steadily),
    "timeout": ("netem delay 20ms", "timeout", _interrupted),
    "idle": ("netem delay 20ms", "application-limited", _in_bursts),
}


# In virtual time the others take one to two minutes each.
IN_EVERY_RUN = ("loss",)


def test_a_window_that_is_not_used_is_reduced_for_that(lab: Lab) -> None:
    """A kernel may run no program for an event (docs/watching.md): what it missed is watched again, twice at most."""
    for attempt in range(3):
        with lab.network() as network:
            sender, router, receiver = between(network)
            folder = lab.folder / f"idle-{attempt}"
            with iperf3_server(receiver), watched(sender, folder, *OPTIONS, "-i", "20ms") as found:
                _in_bursts(sender, router, receiver)
        assert set(causes(found)) <= {"application-limited", "unexplained"}
        told = signals(found)
        assert told["other_reductions"]["application-limited"] > 0
        if told["falls"] == told["falls_attributed"] and not causes(found)["unexplained"]:
            break
    assert set(causes(found)) == {"application-limited"}
    assert told["falls"] == told["falls_attributed"] > 0


@pytest.mark.needs_kernel("netem", "fq_codel", "htb")
@pytest.mark.parametrize(
    "scene", [pytest.param(one, marks=[] if one in IN_EVERY_RUN else [pytest.mark.exhaustive]) for one in SCENES]
)
def test_each_reduction_has_the_cause_that_was_laid(lab: Lab, scene: str) -> None:
    queue, cause, transfer = SCENES[scene]
    with lab.network() as network:
        sender, router, receiver = between(network)
        device = router.interfaces["receiver"]
        for host in (sender, receiver):
            host.run(["sysctl", "-qw", "net.ipv4.tcp_ecn=1"])
        if scene == "ecn":
            device.tc("qdisc add dev {} root handle 1: htb default 1")
            device.tc("class add dev {} parent 1: classid 1:1 htb rate 20mbit burst 2k cburst 2k")
            device.tc(f"qdisc add dev {{}} parent 1:1 {queue}")
        else:
            device.tc(f"qdisc add dev {{}} root {queue}")
        with iperf3_server(receiver), watched(sender, lab.folder / scene, *OPTIONS, "-i", "20ms") as found:
            transfer(sender, router, receiver)
    counted = causes(found)
    told = signals(found)
    assert cause is None or counted[cause] > 0, counted
    assert counted["unexplained"] <= 0.01 * counted.total()
    assert told["by"] == "events"
    assert told["falls_attributed_share"] is None or told["falls_attributed_share"] >= 0.99
    if scene == "reordering":
        # Packets that are late by a round trip look lost: the window is given back when they have come.
        assert told["undone"] > 0
    if scene == "jitter":
        assert told["duplicate_acks_of_reordering"] > 0


def test_recordings_of_both_ends_make_one_account(lab: Lab) -> None:
    with lab.network() as network:
        sender, router, receiver = between(network)
        device = router.interfaces["receiver"]
        device.tc("qdisc add dev {} root tbf rate 20mbit burst 3k limit 8000")
        with (
            iperf3_server(receiver),
            watched(sender, lab.folder / "sender", *OPTIONS) as here,
            watched(receiver, lab.folder / "receiver", "--port", "5201") as there,
        ):
            start_iperf3(sender, receiver.address, 3, "-C", "cubic").wait()
        dropped = device.dropped()
    paths = [path for found in (there, here) for path in found.folder.glob("*.recording")]
    ends = analyse(paths).document()["ends"]
    carried = max(ends, key=lambda one: one["sent_packets"])
    assert carried["missing_packets"] == pytest.approx(dropped, rel=0.02, abs=2)
    assert carried["receiver_ahead_s"]["low"] <= 0 <= carried["receiver_ahead_s"]["high"]
