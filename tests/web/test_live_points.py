"""Tests of the points of live charts: a row is in the right chart, and what comes late is counted where it belongs."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from whydrop.measure.plan import PlannedFlow
from whydrop.recording import tables
from whydrop.web.work.live_points import LivePoints, Points

SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS
FLOWS = [
    PlannedFlow("up 1", "tcp", "up"),
    PlannedFlow("up 2", "tcp", "up"),
    PlannedFlow("down", "tcp", "down"),
    PlannedFlow("probe", "probe"),
    PlannedFlow("echo", "icmp"),
]


def table(name: str, *rows: dict[str, Any]) -> dict[str, pl.DataFrame]:
    return {name: tables.conform(name, pl.DataFrame(list(rows), infer_schema_length=None))}


def interval(flow: int, at_s: float, goodput_bps: float, length_s: float = 0.2) -> dict[str, Any]:
    start_ns = START_NS + int(at_s * SECOND_NS)
    return {
        "flow": flow,
        "start_ns": start_ns,
        "end_ns": start_ns + int(length_s * SECOND_NS),
        "goodput_bps": goodput_bps,
    }


def probe(flow: int, at_s: float, fate: str, **more: int) -> dict[str, Any]:
    return {"flow": flow, "sent_ns": START_NS + int(at_s * SECOND_NS), "fate": fate, **more}


def values(points: Points, series: str) -> list[float]:
    return [value for _, value in points[series]]


def test_goodput_has_a_line_for_each_flow_and_one_for_their_sum():
    live = LivePoints(FLOWS)
    rows = [interval(flow, 0.2 * step, 10e6 * (flow + 1)) for step in range(20) for flow in (0, 1)]
    live.add(table("intervals", *rows, interval(2, 0, 5e6)))
    points = live.all()
    assert set(values(points, "up/up 1")) == {10.0}
    assert set(values(points, "up/up 2")) == {20.0}
    assert values(points, "up/all flows") == pytest.approx([30.0] * len(points["up/all flows"]))
    # One flow is its own sum.
    assert "down/all flows" not in points


def test_intervals_that_end_at_different_times_add_up_without_a_beat():
    live = LivePoints(FLOWS)
    rows = [interval(flow, 0.2 * step + 0.07 * flow, 10e6) for step in range(30) for flow in (0, 1)]
    live.add(table("intervals", *rows))
    inner = values(live.all(), "up/all flows")[1:]
    assert inner == pytest.approx([20.0] * len(inner), rel=1e-3)


def test_a_flow_that_reports_late_changes_the_sum_of_its_time():
    live = LivePoints(FLOWS)
    first = live.add(table("intervals", *[interval(0, 0.2 * step, 10e6) for step in range(20)]))
    assert set(values(first, "up/all flows")) == {10.0}
    late = live.add(table("intervals", *[interval(1, 0.2 * step, 10e6) for step in range(20)]))
    assert {time for time, _ in first["up/all flows"]} <= {time for time, _ in late["up/all flows"]}
    assert values(live.all(), "up/all flows") == pytest.approx([20.0] * len(live.all()["up/all flows"]))


def test_losses_are_told_by_their_direction_and_never_by_a_guess():
    live = LivePoints(FLOWS)
    fates = ["ok", "ok", "lost-up", "lost-down"]
    live.add(table("probes", *[probe(3, 0.01 * at, fates[at % 4]) for at in range(100)], probe(3, 4, "ok")))
    points = live.all()
    assert values(points, "loss/probe, up")[0] == pytest.approx(25)
    # Of those that arrived at the far end a third was lost on the return.
    assert values(points, "loss/probe, down")[0] == pytest.approx(100 / 3, abs=1e-3)
    assert "loss/probe, direction unknown" not in points
    live.add(table("probes", probe(3, 5.1, "lost"), probe(3, 5.2, "ok"), probe(3, 8, "ok")))
    assert values(live.all(), "loss/probe, direction unknown")[-1] == pytest.approx(50)


def test_an_echo_request_that_was_lost_has_no_direction():
    live = LivePoints(FLOWS)
    live.add(table("probes", probe(4, 0.1, "ok"), probe(4, 0.2, "lost"), probe(4, 3, "ok")))
    assert values(live.all(), "loss/echo") == [pytest.approx(50)]


@pytest.mark.parametrize("fate", ["not-sent", "far-end"])
def test_what_the_path_did_not_lose_is_no_loss(fate: str):
    live = LivePoints(FLOWS)
    live.add(table("probes", probe(3, 0.1, fate), probe(3, 0.2, "ok"), probe(3, 4, "ok")))
    assert values(live.all(), "loss/probe, up")[0] == 0


def test_a_loss_that_is_known_late_is_counted_when_it_happened():
    live = LivePoints(FLOWS)
    live.add(table("probes", *[probe(3, 0.1 * at, "ok") for at in range(40)]))
    assert values(live.all(), "loss/probe, up")[0] == 0
    late = live.add(table("probes", *[probe(3, 0.05 + 0.1 * at, "lost-up") for at in range(10)]))
    assert values(late, "loss/probe, up") == [pytest.approx(50)]
    assert live.all()["loss/probe, up"][0] == late["loss/probe, up"][0]


def test_delays_are_medians_of_a_fifth_of_a_second():
    live = LivePoints(FLOWS)
    delays = [probe(3, 0.02 * at, "ok", rtt_ns=3_000_000, up_ns=1_000_000, down_ns=2_000_000) for at in range(100)]
    live.add(table("probes", *delays))
    points = live.all()
    assert set(values(points, "rtt/probe")) == {3.0}
    assert set(values(points, "delay-up/probe")) == {1.0}
    assert set(values(points, "delay-down/probe")) == {2.0}
    assert len(points["rtt/probe"]) in range(8, 11)


def test_counters_of_the_kernel_become_rates():
    live = LivePoints(FLOWS)
    rows = [
        {
            "flow": 0, "time_ns": START_NS + at * SECOND_NS, "congestion_window_packets": 10 + at,
            "srtt_ns": 20_000_000, "retransmitted_packets": 5 * at,
            "receive_window_limited_ns": at * SECOND_NS // 4, "send_buffer_limited_ns": 0,
        }
        for at in range(5)
    ]  # fmt: skip
    live.add(table("tcp_info", *rows))
    points = live.all()
    assert values(points, "window/up 1") == [10, 11, 12, 13, 14]
    assert set(values(points, "kernel-rtt/up 1")) == {20.0}
    assert values(points, "retransmissions/up 1") == [5.0] * 4
    assert values(points, "limited/up 1: receive window") == [25.0] * 4
    # It was never limited by this.
    assert "limited/up 1: send buffer" not in points


def test_a_chart_has_no_more_lines_than_the_eye_distinguishes():
    live = LivePoints([PlannedFlow(f"flow {number}", "tcp", "up") for number in range(100)])
    live.add(table("intervals", *[interval(flow, 0.2 * step, 1e6) for step in range(20) for flow in range(100)]))
    points = live.all()
    assert len(points) == 33
    assert live.left_out == 68
    assert values(points, "up/all flows") == pytest.approx([100.0] * len(points["up/all flows"]))


def test_a_long_test_keeps_the_newest_points_and_half_of_the_old():
    live = LivePoints(FLOWS)
    live.add(table("intervals", *[interval(2, 0.2 * step, step) for step in range(9000)]))
    live.add(table("intervals", interval(2, 1800, 9000)))
    kept = live.all()["down/down"]
    assert 2000 < len(kept) <= 4000
    assert kept[-1][0] - kept[-2][0] == pytest.approx(0.2, abs=1e-3)
    assert kept == sorted(kept)


def test_a_flow_that_reports_nothing_is_named_until_it_reports_again_or_should_have_ended():
    live = LivePoints([PlannedFlow("up", "tcp", "up", start_s=2, duration_s=20), PlannedFlow("page", "http")])
    assert live.silent(6.9) == []
    assert live.silent(7.1) == ["up"]
    live.add(table("intervals", interval(0, 7, 1e6)), 7.5)
    assert live.silent(8) == []
    assert live.silent(13) == ["up"]
    assert live.silent(23) == []
