"""Contents of pictures built from synthetic recordings with known numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import recordings
from plain_text import plain
from whydrop.recording.recording import Recording
from whydrop.show import figure_numbers as numbers
from whydrop.show.figure import Figure, Layer, NothingToDraw
from whydrop.show.plots import catalogue
from whydrop.show.plots.building import applies, available, build, default
from whydrop.show.plots.options import PlotOptions
from whydrop.show.theme import INK, cycled


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recordings.rrul(tmp_path_factory.mktemp("one") / "a.recording")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    folder = tmp_path_factory.mktemp("two")
    return [
        recordings.rrul(folder / "a.recording", title="fifo run 1"),
        recordings.rrul(folder / "b.recording", scale=2.0, title="fq run 1"),
    ]


def draw(name: str, *of: Recording, **options: object) -> Figure:
    return build(name, catalogue.find(name), of, PlotOptions(**options))  # type: ignore[arg-type]


def legend(picture: Figure, panel: int = 0) -> list[str]:
    return list(dict.fromkeys(trace.name for trace in picture.panels[panel].layers if trace.name))


def is_heavy(trace: Layer) -> bool:
    return trace.style.width > 2


def trace_of(picture: Figure, series: str) -> Layer:
    return next(trace for panel in picture.panels for trace in panel.layers if trace.of["series"] == series)


def test_the_plot_of_the_test_is_the_default(tmp_path: Path, one: Recording) -> None:
    test = {**recordings.metadata()["test"], "default_plot": "totals"}
    assert default([recordings.rrul(tmp_path / "t.recording", test=test)]) == "totals"
    assert default([one]) == "all"


def test_a_plot_that_leaves_out_peaks_must_be_asked_for(tmp_path: Path) -> None:
    test = {**recordings.metadata()["test"], "default_plot": "all_scaled", "plots": ["all_scaled", "totals"]}
    assert default([recordings.rrul(tmp_path / "t.recording", test=test)]) == "totals"


def test_latency_is_drawn_whole_and_goodput_from_zero_where_nothing_else_is_asked_for(
    tmp_path: Path, one: Recording
) -> None:
    steady = recordings.tables()
    noise = pl.int_range(pl.len()).over("flow") % 7
    steady["intervals"] = steady["intervals"].with_columns(goodput_bps=9.5e6 + noise * 1e5)
    # One round trip of 5 s.
    peak = pl.when((pl.col("sequence") == 30) & (pl.col("flow") == 5)).then(5 * recordings.S).otherwise("rtt_ns")
    steady["probes"] = steady["probes"].with_columns(rtt_ns=peak)
    recording = recordings.write(tmp_path / "s.recording", steady)
    picture = draw(default([recording]), recording)
    latency = picture.panels[-1].y.ends
    assert latency is not None
    assert latency[1] > 5000
    assert picture.left_out.beyond == 0
    for name in ("all", "bandwidth", "totals", "tcp_delivery_rate"):
        goodput = [panel for panel in draw(name, recording).panels if "(Mbit/s)" in panel.y.title]
        assert goodput, name
        assert [panel.y.ends[0] for panel in goodput if panel.y.ends] == [0.0] * len(goodput), name
    for name in ("goodput_cdf", "box_download", "bar_download"):
        ends = draw(name, recording).panels[0].x.ends
        assert ends is not None, name
        assert ends[0] == 0, name
    asked_for = draw("bandwidth", recording, zoom=(5.0, 95.0)).panels[0].y.ends
    assert asked_for is not None
    assert asked_for[0] > 9


@pytest.fixture(scope="module")
def between_steps(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """Probes that fall between the steps of the grid, so that a step at the load's edge has both sides around it."""
    tables = recordings.tables()
    later = [pl.col(column) + 90 * recordings.MS for column in ("scheduled_ns", "sent_ns", "received_ns")]
    tables["probes"] = tables["probes"].with_columns(later)
    tables["flows"] = tables["flows"].with_columns(start_ns=pl.col("start_ns") + 50 * recordings.MS)
    return recordings.write(tmp_path_factory.mktemp("between") / "b.recording", tables)


@pytest.mark.parametrize("plot", ["ping", "ping_smooth", "totals", "totals_5s", "totals_combine"])
@pytest.mark.parametrize("named", [True, False], ids=["series of the recording", "computed here"])
def test_no_moving_average_before_the_load_holds_anything_of_it_and_none_of_it_of_before(
    plot: str, named: bool, between_steps: Recording
) -> None:
    known = between_steps
    if not named:
        test = {**known.metadata["test"], "computed": []}
        frames = {name: known.table(name) for name in ("flows", "intervals", "probes")}
        known = Recording("here", {**known.metadata, "test": test}, frames)
    start_s, end_s = recordings.DELAY_S + 0.05, recordings.DELAY_S + recordings.LENGTH_S

    def averages(**options: object) -> pl.DataFrame:
        picture = draw(plot, known, smooth=10, **options)
        found = [trace.data for trace in picture.panels[-1].layers if is_heavy(trace) or plot != "ping"]
        return pl.concat([data.select("x", "y") for data in found if "y" in data]).drop_nulls()

    found = averages()
    loaded = pl.col("x").is_between(start_s, end_s, closed="left")
    idle_ms, loaded_ms = recordings.IDLE_RTT_MS, recordings.LOADED_RTT_MS
    assert found.filter(loaded).height >= 45
    assert found.filter(~loaded).height >= 15
    assert found.filter(loaded)["y"].to_numpy() == pytest.approx(loaded_ms, abs=1)
    assert found.filter(~loaded)["y"].to_numpy() == pytest.approx(idle_ms, abs=1)
    across = averages(smooth_across_load=True)
    assert across.filter(pl.col("y").is_between(idle_ms + 2, loaded_ms - 2)).height > 4


def test_a_moving_average_does_not_bring_back_the_time_that_was_cut(one: Recording) -> None:
    line = trace_of(draw("ping_smooth", one, cut=True), "Ping (ms) ICMP").data.drop_nulls()
    assert line["x"].min() >= recordings.DELAY_S  # type: ignore[operator]
    assert line["x"].max() < recordings.DELAY_S + recordings.LENGTH_S  # type: ignore[operator]


def test_a_moving_average_of_goodput_ends_with_the_load(one: Recording) -> None:
    line = trace_of(draw("totals", one), "sum of 2").data.drop_nulls()
    assert line["x"].min() >= recordings.DELAY_S  # type: ignore[operator]
    assert line["y"].to_numpy() == pytest.approx(7.0)


def test_a_plot_says_which_flow_its_sum_lacks(tmp_path: Path) -> None:
    tables = recordings.tables()
    tables["intervals"] = tables["intervals"].filter(pl.col("flow") != 2)
    for computed in ([], [{"name": "TCP download sum", "by": "sum", "of": ["TCP download*"], "units": "Mbit/s"}]):
        test = {**recordings.metadata()["test"], "computed": computed}
        picture = draw("totals", recordings.write(tmp_path / str(len(computed)), tables, test=test))
        assert picture.left_out.silent == ("TCP download BE",)
        assert "Sums and means lack TCP download BE, which yielded no data." in picture.footnotes()[0]


def test_only_plots_of_series_that_the_recording_has_are_offered(one: Recording) -> None:
    offered = available([one])
    assert {"ping_cdf", "tcp_cwnd", "one_way_delay", "loss", "drops", "ellipsis", "mos"} <= set(offered)
    assert not {"voip_delay", "http_delay", "airtime", "totals_delay"} & set(offered)
    assert not applies(catalogue.find("http_delay"), one)


@pytest.mark.slow
def test_every_plot_that_is_offered_can_be_built_of_one_and_of_two(one: Recording, two: list[Recording]) -> None:
    for name, plot in available([one]).items():
        if plot.combine == "both":
            continue
        assert build(name, plot, [one]).panels, name
        assert build(name, plot, two).panels, name


def test_panels_over_time_share_their_axis_of_time(one: Recording) -> None:
    picture = draw("all_scaled", one)
    assert [panel.title for panel in picture.panels] == ["Download", "Upload", "Latency"]
    assert len({panel.x.ends for panel in picture.panels}) == 1
    assert [panel.x.title for panel in picture.panels] == ["", "", "Time (s)"]


def test_axes_have_units(one: Recording) -> None:
    picture = draw("all_scaled", one)
    assert [panel.y.title for panel in picture.panels] == [
        "Goodput (Mbit/s)",
        "Goodput (Mbit/s)",
        "Round-trip time (ms)",
    ]


def test_the_legend_leaves_out_what_all_names_share(one: Recording) -> None:
    picture = draw("download", one)
    assert picture.panels[0].legend == "TCP download"
    assert legend(picture)[:2] == ["BE", "EF"]
    assert legend(picture)[2].startswith("mean (over 11 steps")


def test_the_mean_is_a_thick_black_line_on_top(one: Recording) -> None:
    mean = draw("download", one).panels[0].layers[-1]
    assert mean.style.light == INK
    assert is_heavy(mean)
    # Flows 2 and 3 have 3 and 4 Mbit/s.
    assert mean.data["y"].drop_nulls().to_numpy() == pytest.approx(3.5)


def test_several_recordings_are_distinguished_by_colour_and_by_what_differs(two: list[Recording]) -> None:
    picture = draw("all", *two)
    assert legend(picture) == ["fifo", "fq"]
    heavy = [trace for trace in picture.panels[0].layers if is_heavy(trace)]
    assert [trace.style.light for trace in heavy] == [cycled(0)[0], cycled(1)[0]]


def test_recordings_side_by_side_have_the_same_axes(two: list[Recording]) -> None:
    picture = draw("ping", *two, paired=True)
    assert picture.columns == 2
    assert [panel.title for panel in picture.panels] == ["Latency: fifo", "Latency: fq"]
    assert picture.panels[0].y.ends == picture.panels[1].y.ends


def test_lost_probes_are_marked_by_direction_and_never_thinned(one: Recording) -> None:
    marks = [trace for trace in draw("ping", one).panels[0].layers if trace.of["mark"] == "crosses"]
    assert [trace.name for trace in marks] == ["probe lost upstream (2)"]
    assert marks[0].rare
    # Probes 24 and 49, every 0.2 s.
    assert marks[0].data["x"].to_list() == pytest.approx([4.8, 9.8])


def test_what_is_left_out_is_counted_by_reason(one: Recording) -> None:
    left_out = draw("ping_cdf", one).left_out
    # 2 streams of 70 probes; 20 of each outside of the 10 s of load; 2 lost.
    assert (left_out.rows, left_out.cut, left_out.lost) == (140, 40, 2)
    assert left_out.share == pytest.approx(42 / 140)
    assert plain(left_out.words()) == (
        "Drawn: 98 of 140 samples; 40 outside the time under load; 2 lost probes, which have no value."
    )


def test_samples_beyond_a_zoomed_axis_count_as_left_out(one: Recording) -> None:
    picture = draw("ping", one, zoom=(0.0, 20.0))
    low, high = picture.panels[0].y.ends or (0.0, 0.0)
    values = np.concatenate([one.samples(name)["value"].drop_nulls().to_numpy() for name in recordings.PINGS])
    assert picture.left_out.beyond == int(((values < low) | (values > high)).sum()) > 0
    assert draw("ping", one, zoom=()).left_out.beyond == 0


def test_lines_break_where_nothing_was_measured(tmp_path: Path) -> None:
    tables = recordings.tables()
    middle = recordings.START_NS + 6 * recordings.S
    gap = pl.col("start_ns").is_between(middle, middle + 2 * recordings.S)
    tables["intervals"] = tables["intervals"].filter(~gap)
    picture = draw("download", recordings.write(tmp_path / "g.recording", tables))
    line = trace_of(picture, "TCP download BE").data
    assert line["y"].null_count() == 1


def test_a_single_sample_is_seen_as_a_point(tmp_path: Path) -> None:
    tables = recordings.tables()
    tables["intervals"] = tables["intervals"].group_by("flow", maintain_order=True).first()
    picture = draw("download", recordings.write(tmp_path / "s.recording", tables))
    points = [trace for trace in picture.panels[0].layers if trace.of["mark"] == "points"]
    assert [trace.data.height for trace in points] == [1, 1]
    for name in ("ping_cdf", "box_download", "bar_download", "matrix"):
        assert draw(name, recordings.write(tmp_path / f"{name}.recording", tables)).panels


def test_more_lines_than_can_be_distinguished_become_a_cloud_with_one_entry(tmp_path: Path) -> None:
    tables = recordings.tables()
    flows = tables["flows"].filter(pl.col("flow") == 2)
    intervals = tables["intervals"].filter(pl.col("flow") == 2)
    many = range(10, 40)
    frames = {
        "flows": pl.concat([flows.with_columns(flow=pl.lit(n), name=pl.lit(f"TCP download {n}")) for n in many]),
        "intervals": pl.concat([intervals.with_columns(flow=pl.lit(n)) for n in many]),
    }
    test = {**recordings.metadata()["test"], "computed": [], "flows": []}
    picture = draw("download", recordings.write(tmp_path / "m.recording", frames, test=test))
    assert "30 series" in legend(picture)
    assert len(legend(picture)) == 2


def test_filters_take_and_refuse_series(one: Recording) -> None:
    def drawn(*filters: str) -> set[str]:
        traces = draw("bandwidth", one, filters=filters).panels[0].layers
        return {trace.of["series"] for trace in traces}

    assert drawn("*BE") == {"TCP upload BE", "TCP download BE"}
    assert drawn("!*BE") == {"TCP upload EF", "TCP download EF"}
    with pytest.raises(NothingToDraw, match="--filter nothing"):
        draw("bandwidth", one, filters=("nothing",))


def test_absolute_time_is_seconds_since_the_epoch_and_milliseconds_in_the_numbers(one: Recording) -> None:
    panel = draw("download", one, absolute_time=True).panels[0]
    assert panel.x.scale == "time"
    assert panel.layers[0].data["x"][0] == pytest.approx(recordings.START_NS / 1e9 + 2.2)
    assert panel.layers[0].numbers is not None
    assert panel.layers[0].numbers["x"][0] == pytest.approx(recordings.START_NS / 1e6 + 2200)


def test_a_distribution_ends_at_all_of_the_samples(one: Recording) -> None:
    curve = trace_of(draw("ping_cdf", one), "Ping (ms) ICMP").data
    assert curve["y"][0] == 0
    assert curve["y"][-1] == 100
    assert curve["x"].is_sorted()
    assert curve["y"].is_sorted()


def test_a_box_has_the_quartiles_of_its_values(one: Recording) -> None:
    box = trace_of(draw("box_ping", one, cut=False), "Ping (ms) ICMP")
    values = one.samples("Ping (ms) ICMP")["value"].to_numpy()
    boxes = [trace for trace in draw("box_ping", one, cut=False).panels[0].layers if trace.of["mark"] == "bars"]
    icmp = next(trace.data for trace in boxes if trace.of["series"] == "Ping (ms) ICMP")
    assert box.of["units"] == "ms"
    assert icmp["x"][0] == pytest.approx(np.percentile(values, 25))
    assert icmp["x2"][0] == pytest.approx(np.percentile(values, 75))
    assert icmp["median"][0] == pytest.approx(np.median(values))
    assert icmp["count"][0] == 70


def test_bars_begin_at_zero_and_end_at_the_mean(one: Recording) -> None:
    panel = draw("bar_download", one).panels[0]
    assert panel.x.ends is not None
    assert panel.x.ends[0] == 0
    bar = next(
        trace.data for trace in panel.layers if trace.of["series"] == "TCP download BE" and trace.of["mark"] == "bars"
    )
    assert (bar["x"][0], bar["x2"][0]) == (0, pytest.approx(3.0))


def _runs(folder: Path, repetitions: int = 3) -> list[Recording]:
    made = []
    for qdisc, scale in (("pfifo", 2.0), ("fq_codel", 1.0)):
        for flows in (1, 4):
            for run in range(repetitions):
                test = {**recordings.metadata()["test"], "parameters": {"qdisc": qdisc, "flows": flows}}
                made.append(
                    recordings.rrul(
                        folder / f"{qdisc}-{flows}-{run}.recording",
                        scale=scale + run / 10,
                        test=test,
                        title=f"{qdisc}-{flows} run {run}",
                    )
                )
    return made


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    return _runs(tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
def test_recordings_are_combined_by_their_metadata(runs: list[Recording]) -> None:
    picture = draw("box_combine", *runs, group_by=("test.parameters.qdisc",))
    assert [word for _, word in picture.panels[0].y.words] == ["download", "upload"]
    assert legend(picture) == ["pfifo", "fq_codel"]
    values = [
        trace.data for trace in picture.panels[0].layers if trace.of["mark"] in ("points", "bars") and not trace.helper
    ]
    # Two numbers of flows, three runs each; goodput of the downloads is 7 Mbit/s times the scale.
    assert values[0]["count"][0] == 6
    assert values[0]["median"][0] == pytest.approx(7 * 2.1)
    assert "pfifo: 6, fq_codel: 6" in " ".join(picture.notes)


def test_induced_latency_is_the_mean_distance_from_the_minimum(runs: list[Recording]) -> None:
    picture = draw("bar_combine", *runs, group_by=("test.parameters.qdisc",))
    bars = [trace for trace in picture.panels[1].layers if trace.of["mark"] == "bars"]
    expected = []
    for run in runs[:6]:
        grid = run.grid("Ping (ms) avg")
        values = grid.filter((pl.col("time_s") >= 2) & (pl.col("time_s") < 12))["Ping (ms) avg"].drop_nulls()
        expected.append(float(values.mean() - values.min()))  # type: ignore[operator,arg-type]
    assert bars[0].data["mean"][0] == pytest.approx(np.mean(expected))


@pytest.mark.slow
def test_series_become_groups_and_groups_become_series(runs: list[Recording]) -> None:
    picture = draw("box_combine_up", *runs, group_by=("test.parameters.qdisc",))
    assert [word for _, word in picture.panels[0].y.words] == ["pfifo", "fq_codel"]
    assert legend(picture) == ["BE", "EF"]


def test_two_keys_make_rows_and_colours(runs: list[Recording]) -> None:
    keys = ("test.parameters.qdisc", "test.parameters.flows")
    picture = draw("box_ping_combine", *runs, group_by=keys, combine="both")
    assert [panel.title for panel in picture.panels] == list(recordings.PINGS)
    assert [word for _, word in picture.panels[0].y.words] == ["pfifo", "fq_codel"]
    assert legend(picture) == ["1", "4"]


def test_without_keys_titles_without_the_number_of_the_run_make_the_groups(runs: list[Recording]) -> None:
    picture = draw("box_combine", *runs)
    assert legend(picture) == ["pfifo-1", "pfifo-4", "fq_codel-1", "fq_codel-4"]


def test_a_line_over_numbers_stands_at_their_places(runs: list[Recording]) -> None:
    keys = ("test.parameters.flows", "test.parameters.qdisc")
    picture = draw("line_combine", *runs, group_by=keys, combine="both")
    line = next(trace for trace in picture.panels[0].layers if trace.of["mark"] == "line")
    assert line.data["x"].to_list() == [1.0, 4.0]
    assert line.data["y"].to_list() == pytest.approx([7 * 2.1, 7 * 2.1])


def test_points_are_averaged_step_by_step_over_recordings(runs: list[Recording]) -> None:
    picture = draw("totals_combine", *runs, group_by=("test.parameters.qdisc",))
    line = next(trace for trace in picture.panels[0].layers if trace.of["recording"] == "pfifo")
    assert line.data["y"].to_numpy() == pytest.approx(7 * 2.1)


def test_samples_of_a_group_are_one_distribution(runs: list[Recording]) -> None:
    picture = draw("ping_cdf_combine", *runs, group_by=("test.parameters.qdisc",), filters=("*ICMP",))
    assert legend(picture) == ["pfifo", "fq_codel"]
    curve = picture.panels[0].layers[0].data
    # Six runs, 50 probes under load each: as many steps of two corners, less those of equal values.
    assert curve.height == 2 * 6 * 50


def test_an_ellipse_is_one_standard_deviation_around_the_mean(runs: list[Recording]) -> None:
    picture = draw("ellipsis_combine", *runs, group_by=("test.parameters.qdisc",))
    outline = next(trace for trace in picture.panels[0].layers if trace.of["mark"] == "outline")
    centre = next(trace for trace in picture.panels[0].layers if trace.of["mark"] == "points")
    assert outline.data["x"].mean() == pytest.approx(centre.data["x"][0], rel=0.02)
    reach = (outline.data["y"].max() - outline.data["y"].min()) / 2  # type: ignore[operator]
    goodput = [10 * (2.0 + run / 10) for run in (0, 1, 2, 0, 1, 2)]
    assert reach == pytest.approx(np.std(goodput, ddof=1), rel=0.01)


def test_quantiles_of_a_doubled_recording_lie_on_a_line_of_slope_two(two: list[Recording]) -> None:
    picture = draw("qq_download", *two)
    points = next(trace.data for trace in picture.panels[0].layers if trace.of["mark"] == "points")
    assert (points["y"] / points["x"]).to_numpy() == pytest.approx(2.0)


def test_everything_drawn_is_in_the_numbers_once(runs: list[Recording]) -> None:
    frame = numbers.frame(draw("box_combine", *runs, group_by=("test.parameters.qdisc",)))
    assert frame.filter(pl.col("mark") == "bars").height == 6
    # The place of a box is its category.
    assert set(frame["y"]) == {"download", "upload", "latency"}
    assert set(frame["recording"]) == {"pfifo", "fq_codel"}


def test_an_interrupted_recording_is_said_to_be_one(tmp_path: Path) -> None:
    recording = recordings.write(tmp_path / "i.recording", recordings.tables(), status="interrupted")
    assert any("interrupted" in note for note in draw("ping", recording).footnotes())


def test_a_recording_without_the_series_says_which_were_looked_for(one: Recording) -> None:
    with pytest.raises(NothingToDraw, match="voip_delay: no samples of series VoIP"):
        draw("voip_delay", one)
