"""tcp-info's snapshots, and sock_diag's raw answers."""

from __future__ import annotations

import base64
import json
import socket
import struct
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.outcomes import check, tables
from archives.published import published
from archives.written import flipped, tcp_info_lines, zstd
from whydrop.formats.archives.linux_tcp import FIELDS
from whydrop.formats.archives.pieces import pieces
from whydrop.recording.errors import RecordingError
from whydrop.store.tables import KEYS

NAME = "host_1500000000_00000000000000AB.00000.jsonl.zst"
TIME = "2019-05-16T00:00:05.205Z"


def info(length: int = 232, **values: int) -> bytes:
    """The bytes of struct tcp_info with these fields; the others are zero."""
    content = bytearray(256)
    for field, value in values.items():
        offset, size = FIELDS[field]
        content[offset : offset + size] = value.to_bytes(size, "little")
    return bytes(content[:length])


def rows(tmp_path: Path, *infos: bytes) -> pl.DataFrame:
    path = tmp_path / NAME
    path.write_bytes(zstd(tcp_info_lines([(TIME, each) for each in infos])))
    return tables(path)[0]


def test_the_published_archive_has_its_published_values() -> None:
    path = published("tcpinfo", "20190516T013026*.tgz")
    (piece,) = pieces(path)
    assert piece.frame.height == 10_429
    assert piece.notes == ["Empty files: 2"]
    assert piece.frame["test_id"].n_unique() == 348  # of 362 files: long connections have several
    tcp = piece.frame.filter(pl.col("test_id").str.ends_with("2C37"))
    assert tcp.height == 94
    assert (tcp["acked_bytes"][0], tcp["acked_bytes"][-1]) == (0, 130444)
    assert tcp["retransmitted_segments"][-1] == 44
    windows = (tcp["congestion_window_bytes"] // tcp["mss_bytes"]).to_list()
    assert (windows[0], windows[-1]) == (10, 3)
    assert tcp.select("machine", "site", "congestion_control").unique().rows() == [("mlab4", "arn02", "cubic")]


def test_a_rotated_file_of_a_long_connection_is_read() -> None:
    tcp, _ = tables(published("tcpinfo", "ndt-jdczh*.jsonl.zst"))
    assert tcp.height == 150
    assert tcp["test_id"].unique().to_list() == ["ndt-jdczh_1553815964_00000000000003E8"]
    assert tcp.select("local_address", "local_port", "remote_address", "remote_port").row(0) == (
        "192.168.14.134", 9091, "192.168.14.129", 43508,
    )  # fmt: skip


def test_raw_answers_of_the_kernel_are_read_without_times() -> None:
    path = published("tcpinfo", "testdata.zst")
    tcp, _ = tables(path)
    # Counted by walking the file's message lengths alone.
    import pyarrow

    content = pyarrow.input_stream(str(path), compression="zstd").read()
    count = offset = 0
    while offset < len(content):
        offset += (struct.unpack_from("<I", content, offset)[0] + 3) // 4 * 4
        count += 1
    assert tcp.height == count == 420
    assert tcp["time_ns"].null_count() == count
    assert tcp["remote_address"].null_count() == 0
    # Three answers about 140 sockets: nothing of it is a duplicate, or in conflict.
    assert tcp.select(KEYS["tcp"]).n_unique() == count
    assert tcp["test_id"].is_sorted()
    assert tcp["test_id"][-1] == "testdata/0000419"


@pytest.mark.parametrize("length", [0, 104, 168, 224, 232, 256])
def test_the_tail_that_an_older_kernel_lacks_is_null_and_not_zero(tmp_path: Path, length: int) -> None:
    tcp = rows(tmp_path, info(length))
    columns = {
        "BytesAcked": "acked_bytes", "BusyTime": "busy_ns", "Delivered": "delivered_packets", "BytesSent": "sent_bytes",
        "ReordSeen": "reordering_seen", "SndWnd": "receive_window_bytes", "TotalRetrans": "retransmitted_segments",
    }  # fmt: skip
    for field, column in columns.items():
        offset, size = FIELDS[field]
        assert tcp[column].to_list() == [0 if offset + size <= length else None], column


def test_windows_are_bytes_times_nanoseconds_and_rates_bits(tmp_path: Path) -> None:
    values = {
        "State": 1, "SndCwnd": 10, "SndMSS": 1448, "SndSsThresh": 7, "RTT": 20_000, "RTTVar": 500, "MinRTT": 19_000,
        "RTO": 220_000, "PacingRate": 10**9, "DeliveryRate": 125_000, "BusyTime": 5, "RWndLimited": 6,
        "SndBufLimited": 7,
    }  # fmt: skip
    (row,) = rows(tmp_path, info(**values)).to_dicts()
    expected = {
        "state": "ESTABLISHED", "congestion_window_bytes": 14480, "slow_start_threshold_bytes": 10136,
        "mss_bytes": 1448, "srtt_ns": 20_000_000, "rtt_variation_ns": 500_000, "min_rtt_ns": 19_000_000,
        "retransmission_timeout_ns": 220_000_000, "pacing_rate_bps": 8e9, "delivery_rate_bps": 1e6, "busy_ns": 5000,
        "receiver_limited_ns": 6000, "send_buffer_limited_ns": 7000, "time_ns": 1557964805205000000,
        "local_address": "192.0.2.1", "local_port": 443, "remote_address": "198.51.100.7", "remote_port": 50000,
        "test_id": "host_1500000000_00000000000000AB", "source": "tcp-info", "congestion_control": "cubic",
    }  # fmt: skip
    assert {column: row[column] for column in expected} == expected


def test_what_was_never_measured_is_null(tmp_path: Path) -> None:
    endless = {"MinRTT": 2**32 - 1, "SndSsThresh": 2**31 - 1, "PacingRate": 2**64 - 1, "SndMSS": 1448}
    for values in (endless, {}):
        (row,) = rows(tmp_path, info(**values)).to_dicts()
        columns = ["min_rtt_ns", "srtt_ns", "rtt_variation_ns", "pacing_rate_bps", "delivery_rate_bps"]
        assert [row[column] for column in columns] == [None] * 5
    assert rows(tmp_path, info(**endless))["slow_start_threshold_bytes"].to_list() == [None]


def test_a_real_socket_s_tcp_info_says_what_was_sent(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        peer, _ = server.accept()
        client.sendall(b"x" * 10_000)
        received = 0
        while received < 10_000:
            received += len(peer.recv(65536))
        peer.sendall(b"y" * 77)
        client.recv(77, socket.MSG_WAITALL)
        kernel = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
        peer.close()
    (row,) = rows(tmp_path, kernel).to_dicts()
    assert (row["state"], row["sent_bytes"], row["received_bytes"]) == ("ESTABLISHED", 10_000, 77)
    assert row["srtt_ns"] > 0


def test_bbr_s_bandwidth_is_bits_a_second(tmp_path: Path) -> None:
    lines = tcp_info_lines([(TIME, info())]).splitlines()
    record = json.loads(lines[1])
    record["Attributes"] += [None] * 11 + [base64.b64encode(struct.pack("<5I", 125_000, 1, 30_000, 739, 256)).decode()]
    path = tmp_path / NAME
    path.write_bytes(lines[0] + b"\n" + json.dumps(record).encode())
    (row,) = tables(path)[0].to_dicts()
    assert (row["bbr_bandwidth_bps"], row["bbr_min_rtt_ns"]) == (8.0 * (125_000 + 2**32), 30_000_000)


def test_a_socket_of_ipv4_has_its_address_in_the_first_bytes(tmp_path: Path) -> None:
    message = bytes([2, 1, 0, 0]) + struct.pack(">HH", 80, 81) + bytes([10, 0, 0, 1]).ljust(16, b"\0")
    message += bytes([10, 0, 0, 2]).ljust(16, b"\0") + bytes(32)
    header = struct.pack("<IHHII", 16 + len(message), 20, 0, 1, 1)
    path = tmp_path / "answers"
    path.write_bytes(header + message + header + bytes([1]) + message[1:])
    tcp, _ = tables(path)
    ends = tcp.select("state", "local_address", "local_port", "remote_address", "remote_port").rows()
    assert ends == [("ESTABLISHED", "10.0.0.1", 80, "10.0.0.2", 81), (None,) * 5]


def test_lines_that_are_damaged_are_named_and_the_others_read(tmp_path: Path) -> None:
    lines = tcp_info_lines([(TIME, info(PacingRate=n)) for n in (1, 2, 3)]).splitlines(keepends=True)
    lines[2] = b'{"Timestamp": 7, "RawIDM": "!!"}\n'
    path = tmp_path / NAME
    path.write_bytes(b"".join(lines)[:-40])
    (piece,) = pieces(path)
    assert piece.frame["pacing_rate_bps"].to_list() == [8.0]
    offset = len(lines[0] + lines[1])
    assert piece.damage == (f"line 3, at offset {offset}: no snapshot of tcp-info in JSON; 2 such lines were left out")


def test_an_empty_file_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(b"")
    (piece,) = pieces(path)
    assert (piece.frame.height, piece.notes, piece.damage) == (0, ["Empty files: 1"], None)


def test_a_file_that_is_damaged_from_its_beginning_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes(zstd(b"\xff" * 100))
    with pytest.raises(RecordingError, match=r"\.zst: line 1, at offset 0: no snapshot"):
        list(pieces(path))


CONTENT = tcp_info_lines([(TIME, info(RTT=n)) for n in (1, 2, 3)])
HEADER = struct.pack("<IHHII", 16 + 72 + 4 + 104, 20, 0, 1, 1) + bytes([10, 1]) + bytes(70) + struct.pack("<HH", 108, 2)
RAW = (HEADER + bytes(104)) * 3


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.data())
def test_however_a_file_is_damaged_its_rows_or_one_line_come_of_it(tmp_path_factory, data: st.DataObject) -> None:
    content = data.draw(st.sampled_from([CONTENT, zstd(CONTENT), RAW]))
    bits = data.draw(st.lists(st.integers(0, 8 * len(content) - 1), max_size=6))
    path = tmp_path_factory.getbasetemp() / NAME
    path.write_bytes(flipped(content, bits)[: data.draw(st.none() | st.integers(0, len(content)))])
    check(path, most_rows=50)
