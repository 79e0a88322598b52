"""Charts of when packets come, and the numbers in words below charts of bursts."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from plain_text import plain
from synthetic_pair import paired_transfer
from test_charts import figure, layer_data
from whydrop import Explanation
from whydrop.explaining import bursts
from whydrop.show import charts, sending
from whydrop.show.charts import timing
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.charts.scene import Scene
from whydrop.show.figure import NothingToDraw


def packets(times: list[float], lost: set[int] = frozenset(), size: int = 1500) -> pl.DataFrame:  # type: ignore[assignment]
    fates = ["lost" if number in lost else "delivered" for number in range(len(times))]
    return pl.DataFrame({"t": times, "fate": fates, "ip_bytes": [size] * len(times)})


def trains(number: int, length: int, apart_s: float = 0.1, gap_s: float = 0.0001) -> list[float]:
    return [train * apart_s + place * gap_s for train in range(number) for place in range(length)]


def test_a_pause_ends_a_burst():
    found = bursts.each(bursts.numbered(packets([0.0, 0.001, 0.002, 0.05, 0.051]), 0.01))
    assert found["packets"].to_list() == [3, 2]


def test_losses_are_counted_from_the_first_loss_of_each_burst_on():
    found = bursts.each(bursts.numbered(packets(trains(2, 5), lost={2, 4}), 0.01))
    assert found["before_loss"].to_list() == [2, None]
    assert (found["after_onset"].to_list(), found["lost_after"].to_list()) == ([2, 0], [1, 0])
    assert plain(bursts.onset_in_words(found)) == (
        "1 of 2 bursts lost packets; before the first loss came 2 packets of the burst (median). "
        "Of the 2 packets after the first loss of their burst, 50 % were lost."
    )


def test_a_burst_that_loses_only_its_last_packet_has_nothing_after_the_first_loss():
    found = bursts.each(bursts.numbered(packets(trains(2, 5), lost={4, 9}), 0.01))
    assert "always the last packet" in str(bursts.onset_in_words(found))


def test_nothing_is_said_of_losses_where_nothing_was_lost():
    assert bursts.onset_in_words(bursts.each(bursts.numbered(packets(trains(2, 5)), 0.01))) is None


def test_a_sender_has_the_length_rate_and_pause_of_its_bursts():
    found = bursts.Sending.of(packets(trains(20, 10)), 0.04)
    assert found is not None
    assert (found.packets_median, found.packets_most) == (10, 10)
    assert found.pause_s == pytest.approx(0.1 - 9 * 0.0001)
    assert found.rate_bps == pytest.approx(1500 * 8 / 0.0001)
    assert found.line_bps == pytest.approx(1500 * 8 / 0.0001)


def behind_losses() -> pl.DataFrame:
    """Twenty bursts of ten at the receiver: the last of each is lost, and of every second burst also the third.

    A lost packet has the time of the next one that came.
    """
    times, lost = [], set()
    for train in range(20):
        for place in range(10):
            tail, third = place == 9, place == 2 and train % 2 == 0
            if tail or third:
                lost.add(len(times))
            times.append((train + 1) * 0.1 if tail else train * 0.1 + (place + third) * 0.0001)
    return packets(times[:-1], lost)


def test_a_capture_behind_the_losses_is_known_by_their_times():
    assert bursts.is_behind_losses(behind_losses())
    assert not bursts.is_behind_losses(packets(trains(20, 10), lost=set(range(9, 200, 10))))
    assert not bursts.is_behind_losses(packets(trains(20, 10)))


def test_offloaded_bursts_that_lose_their_ends_are_not_behind_the_losses():
    assert not bursts.is_behind_losses(packets(trains(20, 10, gap_s=0.0), lost=set(range(9, 200, 10))))


def test_losses_between_two_bursts_are_not_called_the_start_of_the_later_one():
    numbered = bursts.numbered(behind_losses(), 0.01)
    assert plain(bursts.onset_in_words(bursts.each(bursts.without_unplaced(numbered)))) == (
        "10 of 20 bursts lost packets; before the first loss came 2 packets of the burst (median). "
        "Of the 60 packets after the first loss of their burst, 0 % were lost."
    )
    before = bursts.numbered(packets(trains(5, 10), lost={0, 10}), 0.01)
    assert bursts.without_unplaced(before).equals(before)


def test_packets_that_never_reached_the_capture_point_are_in_no_burst_there():
    found = bursts.Sending.of(behind_losses(), 0.04)
    assert found is not None
    assert (found.packets_median, found.packets_most) == (8.5, 9)
    assert found.rate_bps is not None


def test_the_time_between_packets_is_that_of_the_packets_that_came(synthetic: Explanation):
    scene = Scene.of(synthetic, 0)
    following = pl.col("t").shift(-1).fill_null(pl.col("t"))
    lost = pl.col("fate") == "lost"
    behind = scene.segments.with_columns(t=pl.when(lost & ~lost.shift(-1)).then(following).otherwise("t"))
    behind = behind.filter(~(lost & lost.shift(-1, fill_value=False)))
    drawn = timing.interarrival(replace(scene, segments=behind))
    came = behind.filter(~lost)
    assert layer_data(drawn, "time since the packet before").height == int((came["t"].diff() > 0).sum())
    same = int((came["t"].diff() == 0).sum())
    assert all("captured at the time" not in note or str(same) in note for note in drawn.notes)


@pytest.mark.parametrize(("step_ns", "is_known"), [(1, True), (1000, True), (100_000, False)])
def test_timestamps_as_coarse_as_the_time_between_packets_give_no_rate(step_ns: int, is_known: bool):
    times = trains(20, 10, gap_s=0.000123)
    stamped = packets(times).with_columns(time_ns=(pl.col("t") * 1e9).round().cast(pl.Int64) // step_ns * step_ns)
    stamped = stamped.with_columns(t=pl.col("time_ns") / 1e9)
    found = bursts.Sending.of(stamped, 0.04)
    assert found is not None
    assert (found.line_bps is not None) == is_known


def test_packets_of_one_timestamp_have_no_rate():
    found = bursts.Sending.of(packets(trains(20, 10, gap_s=0.0)), 0.04)
    assert found is not None
    assert (found.rate_bps, found.line_bps) == (None, None)


def test_packets_that_never_follow_each_other_closely_show_no_line_rate():
    times = [number * 0.001 * (1 + number % 7) for number in range(200)]
    found = bursts.Sending.of(packets(sorted(times)), 0.04)
    assert found is not None
    assert found.line_bps is None


def test_few_packets_say_nothing_of_a_sender():
    assert bursts.Sending.of(packets(trains(2, 10)), 0.04) is None


def test_the_arrivals_at_a_model_are_all_of_its_packets_and_losses(synthetic: Explanation):
    drawn = figure(synthetic, "arrivals")
    counts = drawn.panels[1]
    model = Scene.of(synthetic, 0).model
    assert layer_data(counts, "packets")["y"].sum() == model.height
    assert layer_data(counts, "of them lost")["y"].sum() == model["seen_lost"].sum()
    width_s = float(layer_data(counts, "packets").select(pl.col("x2") - pl.col("x")).to_series()[0])
    rates = layer_data(drawn, "arriving (IP bytes)")["y"]
    assert rates.sum() * 1e6 * width_s / 8 == pytest.approx(model["ip_bytes"].cast(pl.Int64).sum())


def test_the_time_between_packets_is_drawn_for_each_but_the_first(synthetic: Explanation):
    segments = Scene.of(synthetic, 0).segments
    drawn = layer_data(figure(synthetic, "interarrival"), "time since the packet before")
    same = int(segments["t"].diff().eq(0).sum())
    assert drawn.height == segments.height - 1 - same
    assert drawn["y"].min() > 0  # type: ignore[operator]


def test_only_a_capture_at_the_receiver_shows_how_long_it_took_to_acknowledge(synthetic: Explanation):
    with pytest.raises(NothingToDraw, match="at the receiver"):
        figure(synthetic, "ack-delay")
    scene = Scene.of(synthetic, 0)
    drawn = timing.ack_delay(replace(scene, flow=replace(scene.flow, vantage="receiver")))
    delays = scene.segments["rtt_ns"].drop_nulls() / 1e6
    assert layer_data(drawn, "time to the acknowledgment")["y"].to_list() == pytest.approx(delays.to_list())
    assert "95th percentile" in drawn.notes[0]


def test_jitter_is_the_moving_average_of_changes_of_the_transit_time():
    found = Explanation(paired_transfer())
    scene = PairScene.of(found, 0)
    drawn = timing.jitter(scene)
    changes = layer_data(drawn, "change from the packet before")["y"].to_list()
    average, expected = abs(changes[0]), []
    for change in changes:
        average += (abs(change) - average) / 16
        expected.append(average)
    assert layer_data(drawn, "interarrival jitter (RFC 3550)")["y"].to_list() == pytest.approx(expected)


def test_segmentation_offload_is_named_where_it_varies_the_transit_times():
    scene = PairScene.of(Explanation(paired_transfer()), 0)
    together = scene.rows.with_columns(sent_ns=pl.col("sent_ns") // 10_000_000 * 10_000_000)
    assert not any("offload" in note for note in timing.jitter(scene).notes)
    assert any("offload" in note for note in timing.jitter(replace(scene, rows=together)).notes)


def test_a_burst_between_two_captures_has_its_length_at_both():
    found = Explanation(paired_transfer())
    (note,) = plain(charts.figure(found, "loss-burst", 0).notes)
    assert "at capture 1" in note
    assert "at capture 2" in note


def two_flows(synthetic: Explanation, lost_of_second: float) -> Explanation:
    """The policed transfer, and the same packets again as another flow with fewer losses."""

    class Doubled(Explanation):
        def table(self, name: str) -> pl.DataFrame:
            rows = synthetic.table(name)
            if name != "segments":
                return rows
            keep = pl.int_range(pl.len()) < pl.len() * lost_of_second
            fate = pl.when((pl.col("fate") == "lost") & ~keep).then(pl.lit("delivered")).otherwise(pl.col("fate"))
            number = pl.lit(1, rows.schema["flow"])
            return pl.concat([rows, rows.with_columns(flow=number, fate=fate)])

    doubled = Doubled(synthetic._analysis)
    other = replace(synthetic.flows[0], flow="192.0.2.8:443 > 198.51.100.23:50124")
    verdict = replace(synthetic.verdicts[0], flows=(synthetic.flows[0].flow, other.flow))
    doubled.__dict__["flows"] = (synthetic.flows[0], other)
    doubled.__dict__["verdicts"] = (verdict,)
    return doubled


def test_senders_to_one_place_stand_side_by_side(synthetic: Explanation):
    table = sending.table(two_flows(synthetic, 0.0))
    assert table is not None
    assert [row[0] for row in table.rows] == [flow.flow for flow in two_flows(synthetic, 0.0).flows]
    assert "A policer with a small bucket drops the end of a long burst" in table.notes[0]
    assert table.notes[1].startswith(synthetic.flows[0].flow)


def test_senders_that_lose_alike_are_not_contrasted(synthetic: Explanation):
    table = sending.table(two_flows(synthetic, 1.0))
    assert table is not None
    assert len(table.notes) == 1


def test_captures_at_the_receivers_do_not_show_how_senders_send(synthetic: Explanation):
    both = two_flows(synthetic, 0.0)
    both.__dict__["flows"] = tuple(replace(flow, vantage="receiver") for flow in both.flows)
    assert sending.table(both) is None


def test_one_sender_needs_no_comparison(synthetic: Explanation):
    assert sending.table(synthetic) is None
