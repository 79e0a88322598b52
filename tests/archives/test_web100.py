"""Web100 snaplogs: the published check values, both kernels, wraps, damage."""

from __future__ import annotations

import gzip
import itertools
import re
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.outcomes import check, tables
from archives.published import folders, published
from archives.written import VARIABLES, flipped, snaplog, tar
from whydrop.formats.archives import web100
from whydrop.formats.archives.pieces import pieces
from whydrop.formats.archives.web100_rows import MLAB_LAST_INDEX, signals_meaning
from whydrop.recording.errors import RecordingError

NAME = "20170430T11:54:26.658288000Z_client.example:53088.s2c_snaplog"


def of(tmp_path: Path, content: bytes, name: str = NAME) -> tuple[pl.DataFrame, pl.DataFrame]:
    path = tmp_path / name
    path.write_bytes(content)
    return tables(path)


def slowly(content: bytes, index: int) -> dict[str, Any]:
    """A record's variables, decoded one by one as the header says: a second decoder of the same numbers."""
    end = content.index(b"----End-Of-Header---- -1 -1\n") + 28
    group = content[:end].split(b"/read\n")[1].split(b"\n\n")[0]
    variables = re.findall(rb"(\w+) (\d+) (\d+) (\d+)", group)
    length = 24 + sum(int(size) for *_, size in variables)
    start = end + 52 + index * length + 24
    form = {b"0": "<i", b"1": "<i", b"3": "<I", b"4": "<I", b"5": "<I", b"7": "<Q", b"8": "<H"}
    return {
        name.decode(): struct.unpack_from(form[kind], content, start + int(offset))[0]
        for name, offset, kind, _ in variables
        if kind in form
    }


def test_a_download_of_kernel_2_5_27_has_the_published_values() -> None:
    path = published("web100", "20170430*53088.s2c_snaplog")
    log = web100.decode(path.read_bytes())
    assert (len(log.records), log.trailing_bytes, log.body_offset, log.record_bytes) == (1973, 0, 3248, 669)
    assert len(log.types) == 142
    tcp, ndt = tables(path)
    assert tcp.height == 1973
    first, last = tcp.row(0, named=True), tcp.row(-1, named=True)
    assert (first["congestion_window_bytes"], last["congestion_window_bytes"]) == (7260, 72600)
    assert (first["sent_bytes"], last["sent_bytes"]) == (5019, 16539441)
    assert last["acked_bytes"] == 16249281
    assert (first["elapsed_ns"], last["elapsed_ns"]) == (305573000, 10309133000)
    assert last["receive_window_bytes"] == 66560
    limited = ("receiver_limited_ns", "congestion_limited_ns", "sender_limited_ns")
    assert [last[name] for name in limited] == [9942115000, 62261000, 304556000]
    (test,) = ndt.to_dicts()
    rate = 8e9 * test["acked_bytes"] / sum(test[name] for name in limited)
    assert round(rate / 1e6, 2) == 12.61
    assert test["time_ns"] == 1493553266658288000
    assert test["start_ns"] == 1493553280451239000
    assert test["end_ns"] == 1493553280451239000 + 10309133000
    assert (test["direction"], test["protocol"]) == ("download", "web100")
    assert (test["local_address"], test["remote_address"]) == ("213.244.128.139", "80.132.134.233")
    assert (test["local_port"], test["remote_port"]) == (log.local_port, 53088)
    assert test["kernel"] == "2.5.27 201001301335 net100"
    assert test["mean_rtt_ns"] == 416703 * 10**6 // 10434
    assert test["server"] is None


def test_a_download_of_kernel_2_5_17_has_the_published_values() -> None:
    tcp, ndt = tables(published("web100", "20090601*60631.s2c_snaplog"))
    assert tcp.height == 2115
    first, last = tcp.row(0, named=True), tcp.row(-1, named=True)
    assert (first["congestion_window_bytes"], last["congestion_window_bytes"]) == (2920, 18980)
    assert tcp["congestion_window_bytes"].max() == 26280
    assert (first["sent_bytes"], last["sent_bytes"]) == (0, 301920)
    assert last["congestion_signals"] == 1
    assert ndt["kernel"].to_list() == ["2.5.17 200710051837 net100"]
    # Before the first sample of the round-trip time there is none, and the slow start threshold is infinite.
    assert first["count_rtt"] == 0
    for column in ("min_rtt_ns", "srtt_ns", "sample_rtt_ns", "max_rtt_ns", "slow_start_threshold_bytes"):
        assert first[column] is None, column


def test_kernels_count_congestion_signals_differently_and_the_number_is_kept() -> None:
    _, ndt = tables(published("ndt-web100-archives", "20170924T000000Z-mlab1-mad04*"))
    (test,) = ndt.to_dicts()
    assert (test["congestion_signals"], test["timeouts"]) == (8, 18)
    assert (test["server"], test["site"], test["metro"]) == ("mlab1.mad04.measurement-lab.org", "mad04", "mad")
    assert "without timeouts" in signals_meaning(test["kernel"])
    assert signals_meaning("2.5.17 200710051837 net100").endswith("and timeouts")
    assert signals_meaning("3.0").startswith("not known")


def test_a_test_s_server_and_speed_are_those_of_its_meta() -> None:
    tcp, ndt = tables(published("web100", "web100-files.tar.gz"))
    assert ndt["server"].unique().to_list() == ["mlab3.vie01.measurement-lab.org"]
    assert tcp.select("machine", "site").unique().rows() == [("mlab3", "vie01")]
    speeds = dict(ndt.select("direction", "mean_throughput_bps").rows())
    assert speeds == {"download": 36_000.0, "upload": 1_346_000.0}


@pytest.mark.parametrize(
    "path", folders("web100")[:4] or [None], ids=lambda path: path.name[-20:] if path else "missing"
)
def test_records_decoded_at_once_are_those_decoded_one_by_one(path: Path | None) -> None:
    if path is None:
        pytest.skip("Measurement Lab's files are not in ../shared/data/mlab: only synthetic files are read")
    content = path.read_bytes()
    log = web100.decode(content)
    for index in (0, 1, 700, len(log.records) - 1):
        for name, value in slowly(content, index).items():
            assert int(log.records[name][index]) == value, name


def test_data_bytes_out_counts_tcp_s_headers_in_both_kernels() -> None:
    # What docs/archives.md says of sent_bytes: 20 bytes of header a segment where there are no options.
    for pattern in ("20170430*53088.s2c_snaplog", "20090601*60631.s2c_snaplog"):
        content = published("web100", pattern).read_bytes()
        last = slowly(content, len(web100.decode(content).records) - 1)
        assert last["TimestampsEnabled"] == 0
        payload = (last["SndMax"] - last["SndISS"]) % 2**32 + last["BytesRetrans"]
        assert last["DataBytesOut"] == payload + 20 * last["PktsOut"]


def test_every_variable_of_the_ucl_study_is_there() -> None:
    tcp, _ = tables(published("web100", "20170430*53088.s2c_snaplog"))
    needed = [
        "sent_bytes", "elapsed_ns", "congestion_window_bytes", "send_stalls", "congestion_signals", "fast_retransmits",
        "timeouts", "subsequent_timeouts", "abrupt_timeouts", "current_timeout_count", "other_reductions",
        "congestion_over_count", "duplicate_acks", "slow_start_increases", "quenches_received", "sent_segments",
        "sample_rtt_ns", "srtt_ns", "min_rtt_ns", "max_rtt_ns", "sum_rtt_ns", "count_rtt", "ece_received",
        "receive_window_bytes",
    ]  # fmt: skip
    assert tcp.select(pl.col(needed).null_count()).row(0) == (0,) * len(needed)


def test_a_counter_that_wrapped_gives_its_growth(tmp_path: Path) -> None:
    steps = [2**32 - 1000, 2**32 - 1, 500, 2**31, 2**32 - 5, 4]
    tcp, ndt = of(tmp_path, snaplog([{"DataBytesOut": value, "SumRTT": value, "CountRTT": 1} for value in steps]))
    grown = [2**32 - 1000, 2**32 - 1, 2**32 + 500, 2**32 + 2**31, 2**33 - 5, 2**33 + 4]
    assert tcp["sent_bytes"].to_list() == grown
    assert tcp["sum_rtt_ns"].to_list() == [value * 10**6 for value in grown]
    assert ndt["mean_rtt_ns"].to_list() == [(2**33 + 4) * 10**6]


def test_gauges_do_not_wrap(tmp_path: Path) -> None:
    tcp, _ = of(tmp_path, snaplog([{"CurCwnd": value} for value in (2**32 - 1, 10)]))
    assert tcp["congestion_window_bytes"].to_list() == [2**32 - 1, 10]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**31 - 1), max_size=50))
def test_wraps_of_32_bits_are_undone_wherever_they_are(tmp_path_factory, start: int, growth: list[int]) -> None:
    exact = list(itertools.accumulate(growth, initial=start))
    content = snaplog([{"PktsOut": value % 2**32} for value in exact], {"PktsOut": 3})
    tcp, _ = of(tmp_path_factory.getbasetemp(), content)
    assert tcp["sent_segments"].to_list() == exact


def test_both_ends_may_have_ipv6_addresses(tmp_path: Path) -> None:
    record = {"LocalAddress": "2001:db8::1", "RemAddress": "2001:db8::2"}
    tcp, ndt = of(tmp_path, snaplog([record]))
    for frame in (tcp, ndt):
        assert frame.select("local_address", "remote_address").row(0) == ("2001:db8::1", "2001:db8::2")


def test_a_time_is_that_of_the_start_and_the_duration(tmp_path: Path) -> None:
    record = {"StartTimeSec": 1493553280, "StartTimeUsec": 451239, "Duration": 10309133, "State": 5}
    tcp, _ = of(
        tmp_path, snaplog([record, record | {"StartTimeSec": -1}, record | {"Duration": 2**64 - 1, "State": 77}])
    )
    assert tcp["time_ns"].to_list() == [1493553290760372000, None, None]
    assert tcp["elapsed_ns"].to_list() == [10309133000, 10309133000, None]
    assert tcp["state"].to_list() == ["ESTABLISHED", "ESTABLISHED", None]


def test_the_true_last_record_is_a_test_s_unless_m_lab_s_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(snaplog([{"PktsOut": index} for index in range(3001)]))
    (tcp, ndt), (_, theirs) = tables(path), tables(path, last_record=MLAB_LAST_INDEX)
    assert tcp.height == 3001
    assert ndt["sent_segments"].to_list() == [3000]
    assert theirs["sent_segments"].to_list() == [2800]
    notes = [note for piece in pieces(path) for note in piece.notes]
    assert any("2800" in note and "true last" in note for note in notes)


def test_variables_may_come_in_any_order_and_be_missing(tmp_path: Path) -> None:
    tcp, ndt = of(tmp_path, snaplog([{"CurCwnd": 7, "PktsOut": 9}], {"CurCwnd": 4, "_Old": 8, "PktsOut": 3}))
    assert tcp.select("congestion_window_bytes", "sent_segments", "acked_bytes").rows() == [(7, 9, None)]
    assert ndt["duration_ns"].to_list() == [None]


def test_a_snaplog_that_was_cut_off_gives_its_whole_records() -> None:
    content = published("web100", "20170430*53088.s2c_snaplog").read_bytes()
    for cut in range(3248, len(content), 99_991):
        log = web100.decode(content[:cut])
        assert (len(log.records), log.trailing_bytes) == divmod(cut - 3248, 669)


def test_damage_within_a_snaplog_is_named_and_costs_no_other_record(tmp_path: Path) -> None:
    content = snaplog([{"PktsOut": index} for index in range(10)])
    length = (len(content) - content.index(b"----Begin-Snap")) // 10
    body = len(content) - 10 * length
    path = tmp_path / f"{NAME}.gz"
    path.write_bytes(gzip.compress(flipped(content, [8 * (body + 4 * length + 3)])[:-5]))
    tcp, ndt = pieces(path)
    assert tcp.frame["sent_segments"].to_list() == [0, 1, 2, 3, 5, 6, 7, 8]
    assert tcp.damage is not None
    assert f"1 records lack their mark, the first at offset {body + 4 * length}" in tcp.damage
    assert f"cut off within a record: {length - 5} of {length} bytes at offset {body + 9 * length}" in tcp.damage
    assert ndt.frame["sent_segments"].to_list() == [8]
    assert ndt.notes == ["Its totals are those before the damage."]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((b"----End-Of-Header----", b"----End-Of-Heeder----"), "the end of the header"),
        ((b"/read\nLocalAddress 0", b"/raed\nLocalAddress 0"), "no group b'read'"),
        ((b"RemAddress 17 9 17", b"RemAddress 18 9 17"), "RemAddress in the header: offset 18, expected 17"),
        ((b"State 34 0 4", b"State 34 0 8"), "State in the header: 8 bytes, expected 4 of type 0"),
        ((b"State 34 0 4", b"State 34 99 4"), "State in the header: type 99, expected 0 to 12"),
        (
            (b"State 34 0 4", b"RemAddress 34 9 17"),
            "RemAddress in the header: offset 34, expected 34 and each name once",
        ),
    ],
)
def test_a_header_that_cannot_be_followed_is_one_clear_line(
    tmp_path: Path, change: tuple[bytes, bytes], message: str
) -> None:
    content = snaplog([{}])
    assert change[0] in content
    with pytest.raises(RecordingError, match=re.escape(message)) as error:
        of(tmp_path, content.replace(*change))
    assert "\n" not in str(error.value)
    assert NAME in str(error.value)


def test_a_damaged_snaplog_costs_no_other_of_its_archive(tmp_path: Path) -> None:
    path = tmp_path / "20170922T000000Z-mlab1-los01-ndt-0004.tgz"
    other = NAME.replace("53088", "53089")
    path.write_bytes(tar({f"2017/{NAME}": b"no snaplog at all", f"2017/{other}": snaplog([{}, {}])}, packed=True))
    damaged, tcp, ndt = pieces(path)
    assert damaged.source == f"{path}: 2017/{NAME}"
    assert damaged.damage is not None
    assert damaged.frame.is_empty()
    assert (tcp.frame.height, tcp.source) == (2, str(path))
    assert ndt.frame["server"].to_list() == ["mlab1.los01.measurement-lab.org"]


MADE_UP = snaplog(
    [{name: (index * 7919 + 13) % 2**16 for name, kind in VARIABLES.items() if kind != 9} for index in range(5)]
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(MADE_UP)), st.lists(st.integers(0, 8 * len(MADE_UP) - 1), max_size=6))
def test_however_a_snaplog_is_damaged_its_rows_or_one_line_come_of_it(
    tmp_path_factory, cut: int, bits: list[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / NAME
    path.write_bytes(flipped(MADE_UP, bits)[:cut] if cut % 2 else flipped(MADE_UP, bits))
    check(path, most_rows=5)
