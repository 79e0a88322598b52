"""Charts of two captures: their data, and the pictures of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from plain_text import plain
from synthetic_pair import (
    AFTER_GAP_NS,
    DRIFT_PPM,
    FLOW_AT_2,
    OFFSET_S,
    TRANSIT_NS,
    paired_transfer,
)
from test_charts import AT_THE_SENDER, decode_png, layer_data, look
from whydrop import Explanation
from whydrop.explaining.selection import only_flows
from whydrop.show import charts
from whydrop.show.charts.pair_scene import PairScene
from whydrop.show.figure import Figure, NothingToDraw, Panel
from whydrop.show.theme import STYLES
from whydrop.show.thinning import thin

NAMES = [*charts.PATH_CHARTS, *charts.PAIR_FLOW_CHARTS]


@pytest.fixture(scope="module")
def pair() -> Explanation:
    return Explanation(paired_transfer())


def drawing(found: Explanation, name: str) -> Figure:
    return charts.figure(found, name, 0)


def panel(found: Explanation, name: str, number: int = 0) -> Panel:
    return drawing(found, name).panels[number]


def lost_rows(found: Explanation) -> pl.DataFrame:
    return found.table("crossings").filter(pl.col("crossing") == "lost")


def test_every_chart_can_be_drawn_of_two_captures(pair: Explanation):
    drawn = [drawing.key for drawing in charts.figures(pair, 0)]
    assert drawn == [*NAMES, *AT_THE_SENDER]


@pytest.mark.parametrize("name", NAMES)
def test_a_chart_of_one_capture_says_that_two_are_needed(synthetic: Explanation, name: str):
    with pytest.raises(NothingToDraw, match="two captures"):
        charts.figure(synthetic, name, 0)


@pytest.mark.parametrize("name", NAMES)
def test_every_chart_has_a_sentence_as_title_axes_with_units_and_a_line_for_newcomers(pair: Explanation, name: str):
    one = drawing(pair, name)
    assert len(one.title.split()) > 5
    assert len(one.see) > 60
    assert one.see.endswith(".")
    for axes in one.panels:
        assert axes.title or len(one.panels) == 1
        assert "(" in axes.x.title
        assert "(" in axes.y.title or axes.y.words


@pytest.mark.parametrize("name", NAMES)
def test_layers_that_stand_beside_each_other_differ_without_colour(pair: Explanation, name: str):
    for axes in drawing(pair, name).panels:
        looks = [look(layer) for layer in axes.layers]
        assert len(looks) == len(set(looks)), axes.title


def test_crossings_mark_each_lost_packet_where_it_was_sent(pair: Explanation):
    lost = lost_rows(pair)
    drawn = layer_data(panel(pair, "crossings"), "lost packet")
    first = pair.table("crossings").filter(pl.col("payload_bytes") > 0)["sent_ns"].min()
    assert drawn.height == lost.height == 33
    assert drawn["x"][0] == pytest.approx((lost["sent_ns"][0] - first) / 1e9)


def test_crossings_lead_each_packet_from_one_point_to_the_other(pair: Explanation):
    ways = layer_data(panel(pair, "crossings"), "in transit")
    shortest = (ways["x2"] - ways["x"]).min()
    assert shortest == pytest.approx(TRANSIT_NS / 1e9, abs=1e-9)
    assert ways.height == 6000


def test_a_sequence_number_that_wraps_goes_on_upwards(pair: Explanation):
    drawn = layer_data(panel(pair, "crossings"), "at capture 1")
    assert drawn["y"].min() == pytest.approx(0.000724)
    assert drawn["y"].max() == pytest.approx(5999.5 * 1448 / 1e6)


def test_lost_packets_are_never_thinned_away(pair: Explanation):
    for name in ("crossings", "transit", "models"):
        for axes in drawing(pair, name).panels:
            for layer in axes.layers:
                if layer.style == STYLES["lost"]:
                    assert thin(layer, axes, 2, 2).data.height == layer.data.height > 0


def test_thinned_slants_still_end_where_the_longest_one_does(pair: Explanation):
    axes = panel(pair, "crossings")
    whole = next(layer for layer in axes.layers if layer.mark == "slants")
    thinned = thin(whole, axes, 200, 100).data
    assert thinned.height < whole.data.height
    assert (thinned["x2"] - thinned["x"]).max() == pytest.approx((whole.data["x2"] - whole.data["x"]).max(), rel=0.1)


def test_the_heaviest_burst_ends_half_way_for_packets_that_were_lost(pair: Explanation):
    axes = panel(pair, "loss-burst")
    crosses, lines = layer_data(axes, "lost packet"), layer_data(axes, "packet that arrived")
    assert crosses.height == 25
    assert crosses["y"].unique().to_list() == [0.55]
    assert lines["y"].unique().to_list() == [1.0]
    assert lines["y2"].unique().to_list() == [0.0]
    assert [word for _, word in axes.y.words] == ["capture 1", "capture 2"]


def test_a_burst_on_a_long_path_is_drawn_early_and_says_so(pair: Explanation):
    far = with_transit(90_000_000)
    axes = panel(far, "loss-burst")
    assert "drawn 83." in axes.x.title
    lines = layer_data(axes, "packet that arrived")
    assert (lines["x2"] - lines["x"]).min() < lines["x"].max() / 5  # type: ignore[operator]


def test_packets_captured_as_one_large_segment_are_reported(pair: Explanation):
    assert "segmentation offload" not in drawing(pair, "loss-burst").see
    analysis = paired_transfer()
    rows = analysis.table("crossings")
    analysis._pair["crossings"] = rows.with_columns(sent_ns=pl.col("sent_ns") // 10_000_000 * 10_000_000)
    for name in ("loss-burst", "crossings"):
        assert "segmentation offload" in drawing(Explanation(analysis), name).see


def with_transit(more_ns: int) -> Explanation:
    """The pair with so much more transit of every packet."""
    analysis = paired_transfer()
    rows = analysis.table("crossings")
    later = pl.col("transit_ns") + more_ns
    analysis._pair["crossings"] = rows.with_columns(transit_ns=later)
    return Explanation(analysis)


def test_transit_marks_packets_after_a_pause_and_every_loss(pair: Explanation):
    there, back = drawing(pair, "transit").panels
    paused = layer_data(there, "after a pause of 1.30 ms or more")
    assert paused["y"].min() >= (TRANSIT_NS + AFTER_GAP_NS) / 1e3  # type: ignore[operator]
    assert layer_data(there, "lost packet").height == 33
    assert "lost packet" not in [layer.name for layer in back.layers]
    assert there.x_ends() == back.x_ends()


def test_the_variation_of_a_long_path_is_seen(pair: Explanation):
    low, high = panel(with_transit(90_000_000), "transit").y_ends()
    assert low > 90
    assert high < 91


def test_histograms_count_every_packet_and_mark_the_quantiles(pair: Explanation):
    there, back = drawing(pair, "transit-histogram").panels
    assert layer_data(there, "packets")["y"].sum() == 6000
    assert layer_data(back, "packets")["y"].sum() == 6000
    marks = [layer.name for layer in there.layers[1:]]
    assert [name.partition(":")[0] for name in marks] == ["fastest", "median", "99 % took no longer"]
    assert plain(marks[0]) == "fastest: 450 µs"


def test_a_histogram_over_orders_of_magnitude_has_a_logarithmic_axis():
    analysis = paired_transfer()
    rows = analysis.table("crossings").with_row_index("row")
    stretched = pl.when(pl.col("row") % 100 == 0).then(pl.col("transit_ns") * 1000).otherwise("transit_ns")
    analysis._pair["crossings"] = rows.with_columns(transit_ns=stretched).drop("row")
    axes = panel(Explanation(analysis), "transit-histogram")
    bars = layer_data(axes, "packets")
    assert axes.x.scale == "log"
    assert bars["y"].sum() == 6000
    assert (bars["x2"] / bars["x"]).max() == pytest.approx((bars["x2"] / bars["x"]).min())


def test_the_models_stand_side_by_side_on_the_same_axes_with_what_the_loser_gets_wrong(pair: Explanation):
    winner, rival, *waits = drawing(pair, "models").panels
    assert (winner.x_ends(), winner.y_ends()) == (rival.x_ends(), rival.y_ends())
    assert [layer.name for layer in winner.layers if layer.name.startswith("wrong")] == []
    rows = pair.table("model").filter("rival")
    wrong = rows.filter(pl.col("predicted_drop") & ~pl.col("seen_lost")).height
    assert layer_data(rival, "wrong: predicted, but arrived").height == wrong > 100
    missed = rows.filter(~pl.col("predicted_drop") & pl.col("seen_lost")).height
    assert layer_data(rival, "wrong: lost, not predicted").height == missed
    assert len(waits) == 2
    assert waits[0].y_ends() == waits[1].y_ends() == waits[0].x_ends()
    assert layer_data(waits[1], "packet")["y"].max() > 40  # type: ignore[operator]
    assert layer_data(waits[0], "packet")["y"].max() == 0


def test_the_close_up_of_the_models_shows_one_window_of_time_in_both(pair: Explanation):
    winner, rival, *_ = drawing(pair, "models-close-up").panels
    assert winner.x_ends() == rival.x_ends()
    assert winner.x_ends()[1] - winner.x_ends()[0] < 1


def test_a_model_with_waits_only_is_drawn_by_what_drains_meanwhile():
    analysis = paired_transfer()
    whole = drawing(Explanation(paired_transfer()), "models").panels[1]
    unknown = pl.when("rival").then(float("nan")).otherwise("level_bytes")
    analysis._pair["model"] = analysis.table("model").with_columns(level_bytes=unknown)
    rival = drawing(Explanation(analysis), "models").panels[1]
    one, other = layer_data(rival, "bytes queued"), layer_data(whole, "bytes queued")
    assert one.height == other.height
    assert one["y"].max() == pytest.approx(other["y"].max(), rel=0.03)


def test_a_model_alone_is_not_compared(synthetic: Explanation):
    analysis = paired_transfer()
    model = analysis.table("model")
    analysis._pair["model"] = model.filter(~pl.col("rival"))
    with pytest.raises(NothingToDraw, match="no two models"):
        drawing(Explanation(analysis), "models")


def test_the_clock_chart_has_the_fitted_line_between_both_directions(pair: Explanation):
    difference, residuals = drawing(pair, "clock").panels
    line = layer_data(difference, "difference found")
    slope = (line["y"][-1] - line["y"][0]) / (line["x"][-1] - line["x"][0])
    assert slope * 1e3 == pytest.approx(DRIFT_PPM, rel=1e-3)
    assert f"beyond {OFFSET_S * 1e3:.3f} ms" in plain(difference.y.title)
    there, back = (
        layer_data(residuals, f"from capture {one} to capture {other}")["y"] for one, other in ((1, 2), (2, 1))
    )
    assert there.min() == pytest.approx(TRANSIT_NS / 1e3, abs=0.01)
    assert back.max() == pytest.approx(-TRANSIT_NS / 1e3, abs=0.01)
    assert [plain(layer.name) for layer in residuals.layers if layer.mark == "rule"] == [
        "difference found", "at least, for certain: −450 µs", "at most, for certain: +450 µs",
    ]  # fmt: skip


def test_a_transit_that_was_cut_off_at_zero_does_not_bend_the_line():
    analysis = paired_transfer()
    rows = analysis.table("crossings").with_row_index("row")
    cut = pl.when(pl.col("row") % 50 == 0).then(0).otherwise("transit_ns")
    analysis._pair["crossings"] = rows.with_columns(transit_ns=cut).drop("row")
    line = layer_data(panel(Explanation(analysis), "clock"), "difference found")
    assert (line["y"].diff().abs().max() or 0) < 0.01  # type: ignore[operator]


def test_a_clock_that_was_stepped_has_a_step_in_its_line():
    line = layer_data(panel(Explanation(paired_transfer(steps=True)), "clock"), "difference found")
    steps = line["y"].diff().drop_nulls()
    # In milliseconds.
    assert steps.max() == pytest.approx(1000, abs=1)
    assert steps.filter(steps > 1).len() == 1


def test_captures_of_one_direction_only_have_a_panel_for_it():
    analysis = paired_transfer()
    analysis._pair["crossings"] = analysis.table("crossings").filter(pl.col("direction") == 0)
    found = Explanation(analysis)
    assert len(drawing(found, "transit").panels) == 1
    assert len(drawing(found, "transit-histogram").panels) == 1
    assert drawing(found, "clock").title


def test_captures_that_share_no_packet_have_no_charts_of_packets():
    analysis = paired_transfer()
    analysis._pair["crossings"] = analysis.table("crossings").clear()
    found = Explanation(analysis)
    assert charts.path_figures(found, 0) == []


def test_of_more_captures_the_stretch_that_lost_most_is_drawn():
    analysis = paired_transfer()
    document = analysis._document
    quiet = {**document["pair"], "from": 0, "to": 1, "lost_1_to_2": 0, "flows": []}
    document["hops"] = [quiet, {**document["pair"], "from": 1, "to": 2}]
    document["captures"] = [document["captures"][0], *document["captures"]]
    analysis._pair["crossings"] = analysis.table("crossings").with_columns(hop=pl.lit(1, pl.UInt32))
    found = Explanation(analysis)
    scene = PairScene.of(found, 0)
    assert (scene.first, scene.second) == ("capture 2", "capture 3")
    assert layer_data(panel(found, "crossings"), "lost packet").height == 33
    assert "between capture 2 and capture 3" in drawing(found, "crossings").title


def test_a_filter_leaves_the_packets_of_the_flows_that_match(pair: Explanation):
    left = only_flows(pair, "203.0.113.9")
    assert left.pair is not None
    assert [flow.flow_at_2 for flow in left.pair.flows] == [FLOW_AT_2]
    rows = left.table("crossings")
    assert rows["flow"].unique().to_list() == [0]
    assert rows.height == 6033
    assert rows.columns == pair.table("crossings").columns


def test_a_hostile_file_name_stays_text_in_a_chart():
    found = Explanation(paired_transfer(path="/tmp/a\x1b[2J<b>.pcap"))
    assert drawing(found, "clock").subtitle == "capture 1: near.pcap; capture 2: a\\x1b[2J<b>.pcap"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_png_pictures_are_whole_and_not_blank(pair: Explanation, tmp_path: Path):
    written = pair.write_charts(tmp_path, "png")
    assert {path.stem for path in written} == {*NAMES, *AT_THE_SENDER}
    for path in written:
        width, height, pixels = decode_png(path.read_bytes())
        assert width >= 1800, path.name
        assert height >= 800, path.name
        assert len(set(pixels[:: 997 * 4])) > 2, path.name


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_other_pictures_are_written_of_every_chart(pair: Explanation, tmp_path: Path, kind: str):
    written = pair.write_charts(tmp_path, kind)
    assert {path.stem for path in written} == {*NAMES, *AT_THE_SENDER}
    assert all(path.stat().st_size > 5_000 for path in written)
