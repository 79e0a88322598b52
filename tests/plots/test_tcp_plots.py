"""The plots of TCP's statistics: of a web100 log, of Linux's statistics, and of a recording that lacks some of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from archives.published import published
from archives.written import VARIABLES, snaplog, tar, tcp_info_lines, zstd
from recordings import MS, START_NS, S, write
from whydrop.formats.importing import open_recording
from whydrop.recording.recording import Recording
from whydrop.show.figure import Figure, NothingToDraw
from whydrop.show.plots import building, catalogue

# The nineteen figures of the study, in its order.
STUDY = (
    "tcp_goodput", "tcp_throughput", "tcp_cwnd_bytes", "tcp_cwnd_throughput", "tcp_cwnd_throughput_stalled",
    "tcp_cwnd_throughput_unstalled", "tcp_cwnd_throughput_unsignalled", "tcp_send_stalls", "tcp_congestion_signals",
    "tcp_fast_retransmits", "tcp_timeouts", "tcp_duplicate_acks", "tcp_slow_start", "tcp_slow_start_stalls",
    "tcp_packets_sent", "tcp_rtt_kinds", "tcp_rtt_histogram", "tcp_rare_events", "tcp_duplicate_acks_rate",
)  # fmt: skip
WEB100_ONLY = {
    "tcp_cwnd_throughput_stalled", "tcp_cwnd_throughput_unstalled", "tcp_send_stalls", "tcp_congestion_signals",
    "tcp_duplicate_acks", "tcp_slow_start", "tcp_slow_start_stalls", "tcp_duplicate_acks_rate",
}  # fmt: skip
_COUNTERS = (
    "SndLimTimeCwnd", "SndLimTimeSender", "CongestionOverCount", "FastRetran", "Timeouts", "SubsequentTimeouts",
    "AbruptTimeouts", "SendStall", "SlowStart", "DupAcksIn", "QuenchRcvd",
)  # fmt: skip
_GAUGES = ("CurMSS", "SampleRTT", "MaxRTT", "CurTimeoutCount")


def build(name: str, recording: Recording) -> Figure:
    return building.build(name, catalogue.find(name), [recording])


def web100(folder: Path) -> Recording:
    """12 minutes at 10 samples a second over 40 ms: the window grows by one segment a second up to 100 segments.

    Throughput is window / round-trip time up to 20 Mbit/s. A queue of the host is full once every 100 s.
    """
    records: list[dict[str, Any]] = []
    acked = packets = 0
    for step in range(7200):
        window = min(100, 10 + step // 10) * 1000
        rate_bps = min(20e6, window * 8 / 0.04)
        acked += round(rate_bps / 8 * 0.1)
        packets += round(rate_bps / 8000 * 0.1)
        records.append(
            {
                "State": 5, "StartTimeSec": 1_500_000_000, "Duration": (step + 1) * 100_000, "CurMSS": 1000,
                "CurCwnd": window, "ThruBytesAcked": acked, "DataBytesOut": acked, "PktsOut": packets,
                # Their sum of round-trip times is full in between.
                "SumRTT": (2**32 - 50_000 + 40 * 3 * step) % 2**32, "CountRTT": 3 * (step + 1), "SmoothedRTT": 40,
                "SampleRTT": 39 + step % 3, "MinRTT": 39, "MaxRTT": 41, "SendStall": step // 1000,
                "CongestionSignals": step // 1000, "SlowStart": step // 1000 * 5, "DupAcksIn": step // 10,
                "SndLimTimeRwin": step * 25_000, "SndLimTimeCwnd": step * 50_000, "SndLimTimeSender": step * 25_000,
            }
        )  # fmt: skip
    path = folder / "20170430T11:54:26.658288000Z_client.example:53088.s2c_snaplog"
    kinds = {**VARIABLES, **dict.fromkeys(_COUNTERS, 3), **dict.fromkeys(_GAUGES, 4)}
    path.write_bytes(snaplog(records, kinds))
    return open_recording(path)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return web100(tmp_path_factory.mktemp("web100"))


def linux(folder: Path, **columns: Any) -> Recording:
    """A minute of one connection, as Linux reports it: a quarter of the time is the window's, one the application's."""
    steps = range(600)
    rows = {
        "flow": 0,
        "time_ns": [START_NS + step * 100 * MS for step in steps],
        "congestion_window_packets": 100,
        "mss_bytes": 1000,
        "srtt_ns": 40 * MS,
        "acked_bytes": [step * 125_000 for step in steps],
        "sent_packets": [step * 125 for step in steps],
        "retransmitted_packets": 0,
        "busy_ns": [step * 75 * MS for step in steps],
        "receive_window_limited_ns": [step * 25 * MS for step in steps],
        "send_buffer_limited_ns": 0,
        **columns,
    }
    flow = {"flow": 0, "name": "a > b", "kind": "tcp", "direction": "up", "status": "complete"}
    frames = {"flows": pl.DataFrame([flow]), "tcp_info": pl.DataFrame(rows)}
    return write(folder / "watch.recording", frames, test={"test": "watch", "step_s": 0.1})


@pytest.mark.parametrize("name", STUDY)
def test_every_figure_of_the_study_is_drawn_of_a_web100_log(log: Recording, name: str) -> None:
    figure = build(name, log)
    assert sum(layer.data.height for panel in figure.panels for layer in panel.layers) > 0
    assert all("(" in f"{panel.x.title}{panel.y.title}" for panel in figure.panels), "axes have units"


@pytest.mark.parametrize("name", STUDY)
def test_of_a_linux_recording_the_others_are_drawn_and_what_is_lacking_is_named(tmp_path: Path, name: str) -> None:
    recording = linux(tmp_path)
    if name in WEB100_ONLY:
        with pytest.raises(NothingToDraw, match=r"no samples of series .*::tcp_[cds].*web100"):
            build(name, recording)
    elif name in ("tcp_goodput", "tcp_timeouts", "tcp_rare_events"):
        with pytest.raises(NothingToDraw, match="no samples of series"):
            build(name, recording)
    else:
        assert build(name, recording).panels


def test_window_against_throughput_is_a_line_through_the_origin_and_then_a_plateau(log: Recording) -> None:
    points = build("tcp_cwnd_throughput", log).panels[0].layers[0].data
    # Rates at the edge of a step of the window are between those of both.
    grown = points.filter(pl.col("x") < 95_000).select(error=(pl.col("y") - pl.col("x") * 8 / 0.04 / 1e6).abs())
    assert grown["error"].quantile(0.9) < 1e-6  # type: ignore[operator]
    assert points.filter(pl.col("x") == 100_000)["y"].max() == pytest.approx(20.0, rel=1e-3)


def test_steps_with_and_without_stalls_are_all_steps(log: Recording) -> None:
    stalled, unstalled, every = (
        build(f"tcp_cwnd_throughput{kind}", log).panels[0].layers[0].data for kind in ("_stalled", "_unstalled", "")
    )
    assert stalled.height == 7
    # The first step has no growth that is known.
    assert stalled.height + unstalled.height in (every.height, every.height - 1)


def test_the_mean_round_trip_time_survives_that_its_sum_wraps(log: Recording) -> None:
    (flow,) = [series.name for series in log.series("*::tcp_mean_rtt")]
    assert log.samples(flow)["value"].drop_nulls().unique().to_list() == pytest.approx([40.0])


def test_the_window_is_used_whole_while_it_limits(log: Recording) -> None:
    (flow,) = [series.name for series in log.series("*::tcp_window_use")]
    assert log.samples(flow)["value"].drop_nulls().median() == pytest.approx(100.0)


def test_the_first_ten_minutes_are_a_panel_of_their_own_where_more_was_measured(log: Recording, tmp_path: Path) -> None:
    whole, first = build("tcp_cwnd_bytes", log).panels
    assert first.x_ends()[1] < 610 < 715 < whole.x_ends()[1]
    assert len(build("tcp_cwnd_bytes", linux(tmp_path)).panels) == 1


def heights(figure: Figure) -> dict[str, float]:
    """The mean height of each band of the first panel."""
    return {layer.name: float((layer.data["y2"] - layer.data["y"]).mean()) for layer in figure.panels[0].layers}  # type: ignore[arg-type]


def test_limits_are_shares_of_the_time_by_linux_clocks(tmp_path: Path) -> None:
    assert heights(build("tcp_limits", linux(tmp_path))) == pytest.approx(
        {
            "receive window": 25.0, "send buffer": 0.0, "congestion window, pacing or recovery": 50.0,
            "application: nothing to send": 25.0,
        }
    )  # fmt: skip


def test_limits_are_shares_of_the_time_by_web100s_clocks(log: Recording) -> None:
    assert heights(build("tcp_limits", log)) == pytest.approx(
        {"receive window": 25.0, "congestion window, pacing or recovery": 50.0, "application or send buffer": 25.0}
    )


def test_web100s_clocks_run_evenly_between_the_times_at_which_they_are_set() -> None:
    recording = open_recording(published("web100", "20090601*60631.s2c_snaplog"))
    layers = build("tcp_limits", recording).panels[0].layers
    of_steps = (
        pl.concat([layer.numbers for layer in layers if layer.numbers is not None]).group_by("x").agg(pl.sum("y"))
    )
    # What limits since they were set last is not known.
    *known, last = of_steps.sort("x")["y"]
    assert len(known) > 50
    assert min(known) > 97
    assert last < 70


def test_connections_that_only_waited_make_room_for_those_that_sent(tmp_path: Path) -> None:
    sending = linux(tmp_path)
    idle = sending.table("tcp_info").with_columns(
        flow=pl.lit(1, pl.Int32), **{name: pl.lit(0) for name in ("busy_ns", "receive_window_limited_ns")}
    )
    flow = sending.table("flows").with_columns(flow=pl.lit(1, pl.Int32), name=pl.lit("b > a"))
    frames = {
        "flows": pl.concat([sending.table("flows"), flow]),
        "tcp_info": pl.concat([sending.table("tcp_info"), idle], how="vertical_relaxed"),
    }
    figure = build("tcp_limits", write(tmp_path / "both.recording", frames))
    assert [panel.title for panel in figure.panels] == ["a > b"]
    assert "Not shown: 1 more." in figure.notes


def test_drops_stand_on_each_other_by_the_kernels_reason(tmp_path: Path) -> None:
    drops = pl.DataFrame(
        {
            "start_ns": [START_NS + second * S for second in range(-1, 10)] * 2,
            "end_ns": [START_NS + second * S for second in range(11)] * 2,
            "reason": ["NO_SOCKET"] * 11 + ["QDISC_DROP"] * 11,
            "packets": [2] * 11 + [0] * 5 + [10] * 6,
        }
    )
    figure = build("drops_by_reason", write(tmp_path / "drops.recording", {"drops": drops}, test={"step_s": 1.0}))
    (panel,) = figure.panels
    assert panel.y.title == "Dropped (packets/s)"
    assert heights(figure) == pytest.approx({"NO_SOCKET": 22 / 11, "QDISC_DROP": 60 / 11})


def test_a_report_has_those_that_have_data_and_none_else(log: Recording, tmp_path: Path) -> None:
    assert set(STUDY) <= set(building.usual(log))
    of_linux = building.usual(linux(tmp_path))
    assert {"tcp_cwnd_throughput", "tcp_limits"} <= set(of_linux)
    assert not WEB100_ONLY & set(of_linux)


def test_a_picture_of_rare_steps_without_any_is_said_to_have_none(tmp_path: Path) -> None:
    recording = linux(tmp_path, send_stalls=0)
    with pytest.raises(NothingToDraw, match="no step of this kind"):
        build("tcp_cwnd_throughput_stalled", recording)
    from whydrop.show import recordings
    from whydrop.show.document import Figures

    (figures,) = recordings.plots(recording).parts
    assert isinstance(figures, Figures)
    assert "tcp_cwnd_throughput_stalled" not in {figure.key for figure in figures.choices[0].figures}


def test_archives_and_compressed_files_are_recordings_of_their_connections(tmp_path: Path) -> None:
    info = [(f"2019-05-16T00:00:0{second}Z", bytes([1]) + bytes(223)) for second in range(3)]
    lines = tcp_info_lines(info)
    for name, content in (("one.jsonl.zst", zstd(lines)), ("many.tar", tar({"one.jsonl": lines}))):
        (tmp_path / name).write_bytes(content)
        recording = open_recording(tmp_path / name)
        assert recording.table("tcp_info").height == 3
        assert recording.table("flows")["name"].to_list() == ["192.0.2.1:443 > 198.51.100.7:50000"]


@pytest.mark.parametrize(
    ("folder", "pattern"),
    [
        ("web100", "20170430*53088.s2c_snaplog"),
        ("ndt7", "*590E.json.gz"),
        pytest.param("tcpinfo", "20190516T*.tgz", marks=pytest.mark.slow),
    ],
)
def test_published_files_are_recordings_that_can_be_drawn(folder: str, pattern: str) -> None:
    recording = open_recording(published(folder, pattern))
    names = [name for name in building.usual(recording) if name in STUDY]
    assert {"tcp_throughput", "tcp_cwnd_throughput", "tcp_rtt_kinds"} <= set(names)
    for name in ("tcp_cwnd_throughput", "tcp_limits"):
        assert build(name, recording).panels


def test_a_published_download_is_limited_by_its_receive_window_at_the_published_rate() -> None:
    recording = open_recording(published("web100", "20170430*53088.s2c_snaplog"))
    assert heights(build("tcp_limits", recording))["receive window"] > 95
    (name,) = [series.name for series in recording.series("*::tcp_throughput")]
    # 66,560 bytes in 40 ms.
    assert recording.samples(name)["value"].drop_nulls().median() == pytest.approx(13.3, rel=0.03)


def test_the_numbers_of_a_stacked_plot_are_its_shares(tmp_path: Path) -> None:
    from whydrop.show import figure_numbers as numbers

    document = json.loads(numbers.json_text(build("tcp_limits", linux(tmp_path))))
    traces = document["panels"][0]["traces"]
    assert {trace["series"].partition("::")[2] for trace in traces} == {
        "tcp_rwnd_limited", "tcp_sndbuf_limited", "tcp_network_limited", "tcp_not_busy",
    }  # fmt: skip
    assert pytest.approx(100.0) == sum(sum(trace["columns"]["y"]) / len(trace["columns"]["y"]) for trace in traces)
