"""The Python API on real captures, its frames, and its examples."""

from __future__ import annotations

import doctest
import importlib
import struct
import tomllib
from pathlib import Path

import polars as pl
import pyarrow
import pytest

import whydrop
from example_files import EXAMPLES, POLICED, ROOT
from whydrop import Explanation
from whydrop.explaining.explained import TABLES

DOCUMENTED = (
    "whydrop",
    "whydrop.api.explaining",
    "whydrop.api.measuring",
    "whydrop.api.recordings",
    "whydrop.text.printable",
    "whydrop.explaining.matching",
    "whydrop.explaining.selection",
    "whydrop.show.charts.scene",
    "whydrop.show.vega.drawing",
    "whydrop.show.words",
    "whydrop.text.quantities",
)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_examples_in_the_docstrings_run(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.failed == 0
    assert outcome.attempted > 0


def test_the_version_is_the_same_in_every_place():
    files = (ROOT / "pyproject.toml", ROOT / "crates/responder/pyproject.toml")
    project, responder = (tomllib.loads(file.read_text(encoding="utf-8"))["project"]["version"] for file in files)
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    assert whydrop.__version__ == project == responder == workspace


def test_the_policed_example_is_recognised_with_the_truth_inside_the_intervals(policed: Explanation):
    headline = policed.verdicts[0]
    assert headline.cause == "policer"
    rate, burst = headline.parameters["rate_bps"], headline.parameters["burst_bytes"]
    assert (rate.low or 0) <= 20e6 <= (rate.high or float("inf"))
    assert (burst.low or 0) <= 51_200 <= (burst.high or float("inf"))


def test_the_shallow_queue_example_is_not_accused_of_policing():
    found = whydrop.explain(EXAMPLES / "shallow-queue.pcap.zst")
    assert found.verdicts[0].cause == "shallow-queue"
    assert all(verdict.cause != "policer" for verdict in found.verdicts)


def test_what_was_lost_before_the_capture_point_is_attributed_to_no_queue_behind_it():
    assert whydrop.explain(EXAMPLES / "shallow-queue-far.pcap.zst").verdicts[0].cause == "unknown"


def test_a_policer_before_the_capture_point_is_recognised_by_the_bursts_that_it_lets_through():
    headline = whydrop.explain(EXAMPLES / "policed-download-far.pcap.zst").verdicts[0]
    assert headline.cause == "policer"
    rate, burst = headline.parameters["rate_bps"], headline.parameters["burst_bytes"]
    assert (rate.low or 0) <= 20e6 <= (rate.high or float("inf"))
    assert (burst.low or 0) <= 51_200 <= (burst.high or float("inf"))


def test_a_policer_is_recognised_by_the_data_alone(tmp_path: Path):
    with pyarrow.CompressedInputStream(str(POLICED), "zstd") as packed:
        raw = packed.read()
    ways, at = [raw[:24]], 24
    while at < len(raw):
        end = at + 16 + struct.unpack_from("<I", raw, at + 8)[0]
        # the source address of an Ethernet frame's IPv4 packet: that of the client, which sends the data
        if raw[at + 16 + 26 : at + 16 + 30] == bytes((10, 0, 1, 1)):
            ways.append(raw[at:end])
        at = end
    (tmp_path / "data.pcap").write_bytes(b"".join(ways))
    headline = whydrop.explain(tmp_path / "data.pcap").verdicts[0]
    assert headline.cause == "policer"
    rate = headline.parameters["rate_bps"]
    assert (rate.low or 0) <= 20e6 <= (rate.high or float("inf"))


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith("rtp")])
def test_every_table_is_a_frame(policed: Explanation, name: str):
    frame = policed.table(name)
    assert isinstance(frame, pl.DataFrame)
    assert frame.height > 0


def test_tables_agree_with_the_document(policed: Explanation):
    segments = policed.table("segments")
    for number, flow in enumerate(policed.flows):
        own = segments.filter(pl.col("flow") == number)
        assert own.filter(pl.col("fate") == "lost").height == flow.lost, flow.flow
        assert own.filter(pl.col("kind") != "new").height == flow.retransmitted, flow.flow
        assert own.filter(pl.col("spurious")).height == flow.spurious, flow.flow


def test_tables_refer_to_each_other_by_numbers_and_all_times_are_nanoseconds(policed: Explanation):
    segments, transfers, flows = map(policed.table, ("segments", "transfers", "flows"))
    times = transfers.select("transfer", "flow", "start_ns", "end_ns")
    joined = segments.join(times, on=["transfer", "flow"]).join(flows.select("flow", "name"), on="flow")
    assert joined.height > 10_000
    assert ((joined["time_ns"] + 1000 >= joined["start_ns"]) & (joined["time_ns"] <= joined["end_ns"] + 1000)).all()
    model = policed.table("model").join(policed.table("verdicts").select("verdict", "cause"), on="verdict")
    assert set(model["cause"]) == {"policer"}


def test_verdicts_are_a_frame_with_a_column_for_each_parameter(policed: Explanation):
    (row,) = policed.table("verdicts").head(1).to_dicts()
    headline = policed.verdicts[0]
    assert (row["cause"], row["lost"], row["flows"]) == (headline.cause, headline.lost, list(headline.flows))
    rate = headline.parameters["rate_bps"]
    assert (row["rate_bps_low"], row["rate_bps"], row["rate_bps_high"]) == (rate.low, rate.value, rate.high)


def test_frames_share_the_memory_of_the_analysis():
    from whydrop import _core

    table = _core.explain([POLICED]).table("segments")
    first, second = pl.DataFrame(table), pl.DataFrame(table)
    address = first["time_ns"]._get_buffer_info()[0]
    assert address == second["time_ns"]._get_buffer_info()[0]


def test_a_frame_outlives_its_analysis():
    frame = whydrop.explain(POLICED).table("segments")
    assert frame["ip_bytes"].sum() > 1_000_000


def test_an_unknown_table_is_refused_with_the_tables_there_are(policed: Explanation):
    with pytest.raises(KeyError, match="segments"):
        policed.table("packets")


def test_names_that_are_not_known_are_errors_for_the_user(policed: Explanation):
    for ask in (policed.table, policed.chart):
        with pytest.raises(whydrop.Error, match=r"^no (table|chart) 'nonsense'; there are "):
            ask("nonsense")
    with pytest.raises(whydrop.Error, match="expected a port, 1 to 65535"):
        whydrop.watch(ports=[99_999])


def test_a_missing_file_raises_a_capture_error_that_names_it():
    with pytest.raises(whydrop.CaptureError, match=r"missing\.pcap"):
        whydrop.explain("missing.pcap")


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        ((), {}, "no source given"),
        ((POLICED, POLICED), {}, "are the same file"),
        (("-", "-"), {}, "standard input can be read only once"),
        ((POLICED,), {"switch_port": ("store", "s1/uplink")}, "belongs to a recording"),
    ],
)
def test_sources_that_do_not_go_together_are_refused(sources: tuple[Path, ...], options: dict, message: str):
    with pytest.raises(whydrop.Error, match=message):
        whydrop.explain(*sources, **options)


def test_a_list_of_captures_is_refused_as_it_could_mean_pieces_or_points():
    with pytest.raises(TypeError, match="one by one"):
        whydrop.explain([POLICED, POLICED])  # type: ignore[arg-type]


def test_two_captures_are_two_points_of_a_path_and_a_sequence_is_one_capture(tmp_path: Path):
    far = EXAMPLES / "policed-download-far.pcap.zst"
    assert whydrop.explain(POLICED, far, tables=False).pair is not None
    pieces = [tmp_path / "first.pcap.zst", tmp_path / "again.pcap.zst"]
    for piece in pieces:
        piece.write_bytes(POLICED.read_bytes())
    assert whydrop.explain(*pieces, sequence=True, tables=False).pair is None


def test_every_error_for_users_has_one_base():
    assert issubclass(whydrop.CaptureError, whydrop.Error)
    with pytest.raises(whydrop.Error):
        whydrop.open("missing.recording")
    with pytest.raises(whydrop.Error):
        whydrop.start("rrull", to="192.0.2.1")


def test_progress_reports_the_bytes_read():
    told: list[tuple[int, int]] = []
    whydrop.explain(POLICED, progress=lambda done, total: told.append((done, total)))
    assert told
    assert all(0 <= done <= POLICED.stat().st_size for done, _ in told)


def test_what_the_progress_callable_raises_stops_the_analysis():
    def stop(_done: int, _total: int) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        whydrop.explain(POLICED, progress=stop)


def test_an_explanation_shows_its_headline(policed: Explanation):
    assert "policer" in repr(policed)


@pytest.mark.slow
def test_a_chart_of_a_flow_is_an_altair_chart(policed: Explanation):
    chart = policed.chart("rtt", flow=":41001")
    assert "vconcat" in chart.to_dict()


def test_a_capture_given_as_a_path_object_or_a_string_is_the_same():
    assert whydrop.explain(str(POLICED)).json() == whydrop.explain(Path(POLICED)).json()
