"""Tests of the packets of a window of time: fates, packets between captures, the command that shows the same."""

from __future__ import annotations

import shlex
from pathlib import Path

import polars as pl
import pytest

import whydrop
from whydrop.explaining import windows
from whydrop.show import cells

EXAMPLES = Path(__file__).parents[1] / "examples"
NEAR, FAR = EXAMPLES / "policed-download.pcap.zst", EXAMPLES / "policed-download-far.pcap.zst"
DATA = "10.0.1.1:41001 > 10.0.3.1:5201"
ALL = (0, 1 << 62)


@pytest.fixture(scope="module")
def found() -> whydrop.Explanation:
    return whydrop.explain(NEAR)


def lost_segments(rows: pl.DataFrame) -> int:
    """The segments lost in packets; of a packet that is lost as a whole, as many as its payload has."""
    whole = rows.filter(pl.col("fate") == "lost")["payload_bytes"].to_list()
    parts = rows["fate"].str.extract(r"^(\d+) of").drop_nulls().cast(pl.Int64).sum()
    return sum(-(-size // 1448) for size in whole) + int(parts)


def test_large_packets_of_a_sender_have_the_fates_of_the_segments_in_them(found: whydrop.Explanation):
    rows, has_more = windows.seen(found, str(NEAR), *ALL, most=100_000)
    assert not has_more
    assert rows.height == found.captures[0].packets
    assert lost_segments(rows) == sum(flow.lost for flow in found.flows) == 96
    assert set(rows.filter(pl.col("payload_bytes") == 0)["fate"]) == {None}


def test_a_window_has_only_its_packets_and_says_that_there_are_more(found: whydrop.Explanation):
    first = int(found.table("segments")["time_ns"].min() or 0)
    rows, has_more = windows.seen(found, str(NEAR), first, first + 10**9, most=50)
    assert (rows.height, has_more) == (50, True)
    assert rows["time_ns"].is_between(first, first + 10**9).all()
    assert rows["frame_number"].is_sorted()


def test_the_fates_of_a_window_are_those_of_the_whole(found: whydrop.Explanation):
    every, _ = windows.seen(found, str(NEAR), *ALL, most=100_000)
    lost = every.filter(pl.col("fate").str.contains("lost"))
    begin, end = int(lost["time_ns"][3]), int(lost["time_ns"][12])
    part, _ = windows.seen(found, str(NEAR), begin, end, flows=[DATA], most=100_000)
    whole = every.filter(pl.col("time_ns").is_between(begin, end))
    assert (
        part.drop_nulls("fate")
        .select("frame_number", "fate")
        .equals(whole.drop_nulls("fate").select("frame_number", "fate"))
    )


def test_packets_between_captures_are_those_that_the_pair_counts():
    both = whydrop.explain(NEAR, FAR)
    assert both.pair is not None
    lost, has_more = windows.crossed(both, *ALL, lost=True)
    assert (lost.height, has_more) == (both.pair.lost_1_to_2 + both.pair.lost_2_to_1, False)
    of_flow, _ = windows.crossed(both, *ALL, flows=[DATA], most=100_000)
    backwards, _ = windows.crossed(both, *ALL, flows=[" > ".join(reversed(DATA.split(" > ")))], most=100_000)
    assert of_flow.height == backwards.height > 10_000
    assert of_flow["between"].unique().to_list() == ["1 and 2"]
    assert windows.crossed(both, *ALL, flows=["no such > flow"])[0].is_empty()


def test_packets_between_captures_have_the_numbers_that_each_capture_gives_them():
    rows, _ = windows.crossed(whydrop.explain(NEAR, FAR), *ALL, most=100_000)
    for number, capture in enumerate((NEAR, FAR), 1):
        packets = whydrop.packets(capture, most=100_000).table
        seen = rows.drop_nulls(f"frame_number_{number}")
        joined = seen.join(
            packets, left_on=f"frame_number_{number}", right_on=pl.col("frame_number").cast(pl.UInt32), suffix="_there"
        )
        assert joined.height == seen.height > 10_000
        assert (joined[f"time_{number}_ns"] == joined["time_ns"]).all()


def test_the_command_of_tshark_names_the_file_the_times_and_both_directions():
    words = shlex.split(windows.tshark("it's here.pcap", 1_000_000_001, 2_000_000_000, [DATA]))
    assert words[:4] == ["tshark", "-r", "it's here.pcap", "-Y"]
    assert words[4].startswith("frame.time_epoch >= 1.000000001 && frame.time_epoch <= 2.000000000 && (ip.addr ==")
    assert windows.tshark("a.pcap.xz", 0, 1).startswith("xz -dc a.pcap.xz | tshark -r - ")


def test_the_filter_of_flows_selects_their_connections(found: whydrop.Explanation):
    wanted = windows.filter_of([DATA, DATA])
    assert wanted is not None
    assert [flow.flow for flow in whydrop.explain(NEAR, filter=wanted).flows] == [DATA]
    assert windows.filter_of([]) is None
    assert windows.filter_of([], "tcp") == "tcp"
    both = windows.filter_of([DATA], "tcp or udp") or ""
    assert both.startswith("(tcp or udp) and (ip.addr == 10.0.1.1")
    rows, _ = windows.seen(found, str(NEAR), *ALL, filter="tcp.port == 41001", most=100_000)
    assert set(rows["source_port"]) | set(rows["destination_port"]) == {41001, 5201}
    with pytest.raises(ValueError, match="'nonsense' is no flow: expected ADDRESS:PORT > ADDRESS:PORT"):
        windows.filter_of(["nonsense"])


def test_a_cell_runs_as_it_is_given_and_draws_the_chart_that_it_names():
    cell = cells.of_charts(cells.explained([str(NEAR)], filter="tcp.port == 41001"), ["rtt"], DATA)["rtt"]
    names: dict[str, object] = {}
    exec(compile(cell.replace("found.chart", "chart = found.chart"), "cell", "exec"), names)
    assert type(names["chart"]).__name__ == "VConcatChart"


def test_what_cannot_be_opened_again_has_no_cell():
    assert cells.explained(["-"]) == ""
    assert cells.of_charts("", ["rtt"], DATA) == {}
