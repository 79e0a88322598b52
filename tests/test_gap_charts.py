"""Gaps in the received data: when they open, when they are filled, and how they are drawn."""

from __future__ import annotations

import math
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_text import plain
from synthetic import Synthetic, policed_transfer, simulate
from test_charts import figure, layer_data
from whydrop import Explanation
from whydrop.show.charts import gaps
from whydrop.show.charts.scene import Scene
from whydrop.show.figure import NothingToDraw

SIZE = 1000
RTT_S = 0.04


@pytest.fixture(scope="module")
def base() -> Scene:
    return Scene.of(Explanation(policed_transfer(packets=30)), 0)


def scene_of(base: Scene, sent: int, acks: list[tuple[float, int]], sacks: list[tuple[float, int, int]]) -> Scene:
    """A flow of packets of 1000 bytes, one each millisecond; reports count packets."""
    segments = pl.DataFrame(
        {
            "sequence": [SIZE * number for number in range(sent)],
            "payload_bytes": [SIZE] * sent,
            "ip_bytes": [SIZE + 52] * sent,
            "kind": ["new"] * sent,
            "fate": ["delivered"] * sent,
            "spurious": [False] * sent,
            "rtt_ns": [int(RTT_S * 1e9)] * sent,
            "t": [number / 1000 for number in range(sent)],
        }
    )
    ack_rows = pl.DataFrame(
        {
            "t": [time for time, _ in acks],
            "acknowledged": [SIZE * upto for _, upto in acks],
            "window_bytes": [1] * len(acks),
        },
        schema={"t": pl.Float64, "acknowledged": pl.Int64, "window_bytes": pl.Int64},
    )
    sack_rows = pl.DataFrame(
        [(time, SIZE * low, SIZE * high, False) for time, low, high in sacks],
        schema={"t": pl.Float64, "start": pl.Int64, "end": pl.Int64, "duplicate": pl.Boolean},
        orient="row",
    )
    return replace(base, segments=segments, acks=ack_rows, sacks=sack_rows)


def rows(scene: Scene) -> list[tuple[float | None, ...]]:
    return gaps.gaps(scene).select("start", "end", "opened", "filled").rows()


def test_a_lost_packet_is_a_gap_from_the_first_report_above_it_until_it_is_acknowledged(base: Scene):
    scene = scene_of(base, 5, [(0.05, 1), (0.09, 5)], [(0.06, 2, 3), (0.07, 2, 4)])
    assert rows(scene) == [(1000, 2000, 0.06, 0.09)]


def test_packets_that_are_lost_and_repaired_together_are_one_gap(base: Scene):
    scene = scene_of(base, 6, [(0.05, 1), (0.09, 6)], [(0.06, 4, 5)])
    assert rows(scene) == [(1000, 4000, 0.06, 0.09)]


def test_packets_that_are_repaired_one_after_the_other_are_gaps_of_their_own(base: Scene):
    scene = scene_of(base, 6, [(0.05, 1), (0.08, 2), (0.09, 6)], [(0.06, 3, 5)])
    assert rows(scene) == [(1000, 2000, 0.06, 0.08), (2000, 3000, 0.06, 0.09)]


def test_a_packet_that_comes_late_fills_its_gap_with_a_report_of_its_own(base: Scene):
    scene = scene_of(base, 6, [(0.05, 1), (0.09, 6)], [(0.06, 3, 4), (0.07, 2, 4)])
    assert rows(scene) == [(1000, 2000, 0.06, 0.09), (2000, 3000, 0.06, 0.07)]


def test_a_gap_that_is_open_when_the_capture_ends_has_no_end(base: Scene):
    assert rows(scene_of(base, 4, [(0.05, 1)], [(0.06, 2, 4)])) == [(1000, 2000, 0.06, None)]


def test_data_that_comes_in_order_has_no_gap(base: Scene):
    scene = scene_of(base, 4, [(0.05, 1), (0.06, 3), (0.07, 4)], [])
    assert rows(scene) == []
    with pytest.raises(NothingToDraw, match="SACK"):
        gaps.received(scene)


@given(st.data())
def test_gaps_are_what_a_set_of_received_packets_lacks(base: Scene, data: st.DataObject):
    """Packets arrive in any order; each arrival is reported as a receiver does, and gaps are found by counting."""
    number = data.draw(st.integers(2, 12))
    order = data.draw(st.permutations(range(number)))
    arrived = order[: data.draw(st.integers(1, number))]
    acks, sacks, had = [], [], set()
    missing_since: dict[int, float] = {}
    missing_until: dict[int, float] = {}
    for place, packet in enumerate(arrived):
        time = 0.1 + place / 1000
        had.add(packet)
        upto = next(one for one in range(number + 1) if one not in had)
        acks.append((time, upto))
        if packet >= upto:
            low, high = packet, packet + 1
            while low - 1 in had:
                low -= 1
            while high in had:
                high += 1
            sacks.append((time, low, high))
        for lacking in set(range(max(had))) - had:
            missing_since.setdefault(lacking, time)
        for found in missing_since.keys() & had:
            missing_until.setdefault(found, time)
    scene = scene_of(base, number, acks, sacks)
    found = {}
    for start, end, opened, filled in rows(scene):
        for packet in range(int(start or 0) // SIZE, int(end or 0) // SIZE):
            found[packet] = (opened, filled)
    assert found == {packet: (since, missing_until.get(packet)) for packet, since in missing_since.items()}


def test_reports_are_drawn_a_round_trip_before_they_came(base: Scene):
    scene = scene_of(base, 6, [(0.05, 1), (0.09, 6)], [(0.06, 3, 5)])
    drawn = layer_data(gaps.received(scene), "received out of order (SACK)")
    assert drawn["x"].to_list() == pytest.approx([0.06 - RTT_S])


def test_an_acknowledgment_of_nothing_captured_is_not_before_the_first_packet(base: Scene):
    scene = scene_of(base, 6, [(-0.01, 0), (0.05, 1), (0.09, 6)], [(0.06, 3, 5)])
    drawn = layer_data(gaps.received(scene), "received without a gap")
    assert drawn["x"].min() == 0


def test_in_a_capture_at_the_receiver_reports_are_not_moved_by_the_round_trip_to_the_sender(base: Scene):
    scene = scene_of(base, 6, [(0.005, 1), (0.09, 6)], [(0.006, 3, 5)])
    segments = scene.segments.with_columns(rtt_ns=pl.lit(None, pl.Int64))
    scene = replace(scene, segments=segments, flow=replace(scene.flow, vantage="receiver", rtt_min_s=RTT_S))
    drawn = layer_data(gaps.received(scene), "received out of order (SACK)")
    assert drawn["x"].to_list() == pytest.approx([0.006])


def test_hatching_fills_each_gap_and_nothing_else(base: Scene):
    scene = scene_of(base, 6, [(0.05, 1), (0.09, 6)], [(0.06, 3, 5)])
    lines = layer_data(gaps.received(scene), "missing at the receiver")
    assert lines["x"].min() == pytest.approx(0.06 - RTT_S)
    assert lines["x2"].max() == pytest.approx(0.09 - RTT_S)
    assert (lines["y"].unique().to_list(), lines["y2"].unique().to_list()) == ([1.0], [3.0])


def test_the_time_until_a_gap_is_filled_is_drawn_and_said(base: Scene):
    scene = scene_of(base, 6, [(0.05, 1), (0.08, 2), (0.09, 6)], [(0.06, 3, 5)])
    drawn = gaps.gap_time(scene)
    assert layer_data(drawn, "gap")["y"].to_list() == pytest.approx([20, 30])
    assert plain(drawn.notes) == ("2 gaps in the received data; filled after 25.0 ms (median), 30.0 ms at most.",)


def test_the_time_of_a_single_gap_is_said_once(base: Scene):
    scene = scene_of(base, 5, [(0.05, 1), (0.09, 5)], [(0.06, 2, 3)])
    assert plain(gaps.gap_time(scene).notes) == ("1 gap in the received data; filled after 30.0 ms.",)


def test_each_gap_of_a_policed_transfer_holds_a_lost_packet(synthetic: Explanation):
    scene = Scene.of(synthetic, 0)
    lost = scene.lost.filter(pl.col("kind") == "new")
    found = gaps.gaps(scene)
    assert found.height > 5
    for start, end in found.select("start", "end").rows():
        assert lost["sequence"].is_between(start, end, closed="left").any()


def test_a_flow_without_reports_has_no_chart_of_gaps():
    run = simulate(300)
    run.sacks.clear()
    found = Explanation(Synthetic(run, policed_transfer(packets=300).document()))
    for name in ("received", "gap-time"):
        with pytest.raises(NothingToDraw, match="SACK"):
            figure(found, name)
    assert math.isfinite(Scene.of(found, 0).origin_s)


def test_a_flow_without_new_data_has_no_gaps(base: Scene):
    scene = scene_of(base, 3, [(0.05, 1)], [(0.06, 2, 3)])
    again = scene.segments.with_columns(kind=pl.lit("other"))
    assert rows(replace(scene, segments=again)) == []
