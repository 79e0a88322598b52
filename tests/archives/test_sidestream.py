"""SideStream's ``.web100``."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.outcomes import check, tables
from archives.published import published
from archives.written import flipped
from whydrop.formats.archives.pieces import pieces
from whydrop.recording.errors import RecordingError

NAMES = (
    "cid PollTime LocalAddress LocalPort RemAddress RemPort State StartTimeSec StartTimeUsec Duration MinRTT CountRTT"
)
ROW = "C: 7 2017-02-03-12:00:03Z 192.0.2.1 3001 2001:db8::7 50000 1 1486123188 191060 14839426 72 3\n"
CONTENT = f"K: {NAMES}\n{ROW}{ROW.replace(' 7 ', ' 8 ').replace(' 72 3', ' 4294967295 0')}".encode()


def test_every_connection_of_the_published_file_is_read() -> None:
    tcp, ndt = tables(published("sidestream", "sidestream-files.tar.gz"))
    assert (tcp.height, ndt.height) == (6, 0)
    row = tcp.row(3, named=True)
    assert (row["local_address"], row["local_port"]) == ("213.248.112.75", 44869)
    assert (row["remote_address"], row["remote_port"]) == ("5.228.253.100", 52421)
    assert (row["acked_bytes"], row["sent_segments"], row["retransmitted_segments"]) == (22110209, 15178, 31)
    assert (row["min_rtt_ns"], row["sum_rtt_ns"], row["count_rtt"]) == (73 * 10**6, 557124 * 10**6, 7468)
    limited = ("sender_limited_ns", "congestion_limited_ns", "receiver_limited_ns")
    assert [row[column] for column in limited] == [277557000, 9973128000, 81181000]
    assert row["time_ns"] == 1486123201_977002000 + 11139277000
    assert row["test_id"] == "20170203T00:00:00Z_ALL0.web100/21615"
    # No threshold had been set on the first connection: 2^32 - 616 is "infinite".
    assert tcp["slow_start_threshold_bytes"][0] is None
    assert tcp["slow_start_threshold_bytes"][3] == 131400


def test_times_without_a_sample_are_null(tmp_path: Path) -> None:
    path = tmp_path / "a.web100"
    path.write_bytes(CONTENT)
    tcp, _ = tables(path)
    assert tcp["min_rtt_ns"].to_list() == [72 * 10**6, None]
    assert tcp["remote_address"].to_list() == ["2001:db8::7"] * 2
    assert tcp["state"].to_list() == ["CLOSED"] * 2


def test_a_line_of_another_length_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.web100"
    path.write_bytes(CONTENT + b"C: 9 too short\nnonsense\n" + ROW.encode())
    (piece,) = pieces(path)
    assert piece.frame.height == 3
    offset = len(CONTENT)
    assert piece.damage == (
        f"line 4, at offset {offset}: expected a connection (C:) of 12 values; 2 such lines were left out"
    )


def test_the_last_line_of_a_file_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.web100"
    path.write_bytes(CONTENT + ROW.encode()[:-2])
    (piece,) = pieces(path)
    assert piece.frame.height == 2
    assert piece.damage is not None
    assert piece.damage.startswith("line 4")


def test_connections_without_names_of_columns_are_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "a.web100"
    path.write_bytes(ROW.encode())
    with pytest.raises(RecordingError, match=r"a\.web100: line 1, at offset 0: .* names of columns \(K:\)"):
        list(pieces(path))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(CONTENT)), st.lists(st.integers(0, 8 * len(CONTENT) - 1), max_size=6))
def test_however_a_file_is_damaged_its_rows_or_one_line_come_of_it(tmp_path_factory, cut: int, bits: list[int]) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.web100"
    path.write_bytes(flipped(CONTENT, bits)[: cut if cut % 2 else None])
    check(path, most_rows=2)
