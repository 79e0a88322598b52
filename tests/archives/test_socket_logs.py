"""Logs that people make of ``ss``, and of bcc's tcpretrans and tcpdrop."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archives.outcomes import check, tables
from archives.written import flipped
from whydrop.formats.archives.pieces import pieces
from whydrop.formats.importing import open_recording
from whydrop.recording.errors import RecordingError

TITLES = "State Recv-Q Send-Q Local Address:Port Peer Address:Port Process"
ENDS = "192.0.2.1:50000 198.51.100.7:443"
INFO = (
    "skmem:(r0,rb131072,t0,tb87040,f1792,w42240,o0,bl0,d3) cubic wscale:7,10 rto:244 rtt:40.5/2.25 mss:1448 pmtu:1500 "
    "rcvmss:536 advmss:1448 cwnd:20 ssthresh:14 bytes_sent:150000 bytes_retrans:2896 bytes_acked:120000 segs_out:106 "
    "segs_in:60 data_segs_out:104 send 5720493bps lastsnd:4 lastrcv:900 lastack:4 pacing_rate 6864584bps/8000000bps "
    "delivery_rate 5000000bps delivered:84 busy:1924ms rwnd_limited:12ms(0.6%) unacked:19 retrans:1/2 lost:1 sacked:3 "
    "rcv_space:14480 rcv_ssthresh:64088 notsent:2896 minrtt:39.8 snd_wnd:65536"
)
SEEN: dict[str, Any] = {
    "state": "ESTABLISHED", "local_address": "192.0.2.1", "local_port": 50000, "remote_port": 443, "mss_bytes": 1448,
    "acked_bytes": 120000, "sent_bytes": 150000, "retransmitted_bytes": 2896, "retransmitted_segments": 2,
    "congestion_window_bytes": 20 * 1448, "slow_start_threshold_bytes": 14 * 1448, "flight_bytes": 19 * 1448,
    "srtt_ns": 40_500_000, "rtt_variation_ns": 2_250_000, "min_rtt_ns": 39_800_000,
    "retransmission_timeout_ns": 244_000_000, "busy_ns": 1_924_000_000, "receiver_limited_ns": 12_000_000,
    "send_buffer_limited_ns": 0, "pacing_rate_bps": 6864584.0, "max_pacing_rate_bps": 8e6, "delivery_rate_bps": 5e6,
    "delivery_rate_app_limited": False, "congestion_control": "cubic", "not_sent_bytes": 2896, "lost_segments": 1,
    "receive_window_bytes": 65536, "send_buffer_bytes": 87040, "socket_drops": 3, "delivered_packets": 84,
    "source": "ss", "received_bytes": 0, "current_timeout_count": None,
}  # fmt: skip


def of(tmp_path: Path, text: str, name: str = "ss.log") -> pl.DataFrame:
    path = tmp_path / name
    path.write_text(text)
    return tables(path)[0]


@pytest.mark.parametrize("between", [" ", "\n\t "], ids=["one line", "two lines"])
@pytest.mark.parametrize("first", ["ESTAB 0 30408 ", "tcp ESTAB 0 30408 ", "0 30408 "])
def test_every_field_of_ss_is_a_column_in_its_unit(tmp_path: Path, between: str, first: str) -> None:
    rows = of(tmp_path, f"1700000000.25\n{TITLES}\n{first}{ENDS}{between}{INFO}\n")
    (row,) = rows.to_dicts()
    assert {name: row[name] for name in SEEN} == SEEN
    assert row["time_ns"] == 1_700_000_000_250_000_000


@pytest.mark.parametrize(
    "time", ["1700000000", "Tue Nov 14 22:13:20 UTC 2023", "2023-11-14T23:13:20,000000000+01:00", "Time: 1700000000.0"]
)
def test_a_time_is_that_of_the_sockets_after_it(tmp_path: Path, time: str) -> None:
    later = "1700000001.5"
    rows = of(tmp_path, f"{time}\n{TITLES}\nESTAB 0 0 {ENDS} {INFO}\n{later}\n{TITLES}\nESTAB 0 0 {ENDS} {INFO}\n")
    assert rows["time_ns"].to_list() == [1_700_000_000_000_000_000, 1_700_000_001_500_000_000]


def test_where_a_log_begins_with_sockets_its_times_are_of_those_before_as_flent_s_are(tmp_path: Path) -> None:
    block = f"{TITLES}\nESTAB 0 0 {ENDS}\n\t {INFO}\n\n"
    rows = of(tmp_path, "".join(f"{block}Time: 170000000{n}.5\n---\n" for n in range(3)))
    assert rows["time_ns"].to_list() == [1_700_000_000_500_000_000 + n * 10**9 for n in range(3)]


def test_a_zone_that_does_not_say_its_distance_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ss.log"
    path.write_text(f"Tue Nov 14 22:13:20 CET 2023\n{TITLES}\nESTAB 0 0 {ENDS} {INFO}\n")
    notes = [note for piece in pieces(path) for note in piece.notes]
    assert notes == ["Times in a time zone of unknown offset, read as UTC: 1 (CET)"]


def test_a_log_without_times_says_what_to_put_between(tmp_path: Path) -> None:
    path = tmp_path / "ss.log"
    path.write_text(f"{TITLES}\nESTAB 0 0 {ENDS} {INFO}\n")
    assert tables(path)[0].height == 1
    with pytest.raises(RecordingError, match=r"has a time.*while sleep 1; do date \+%s.%N; ss -tinmO"):
        open_recording(path)


def test_counters_that_only_newer_kernels_have_are_null_where_these_lack_them(tmp_path: Path) -> None:
    old = "cubic wscale:7,7 rto:204 rtt:1.5/0.75 mss:1448 cwnd:10 send 77.2Mbps rcv_space:14600"
    (row,) = of(tmp_path, f"1700000000\n{TITLES}\nESTAB 0 0 {ENDS} {old}\n").to_dicts()
    for name in ("busy_ns", "receiver_limited_ns", "acked_bytes", "delivered_packets", "not_sent_bytes", "min_rtt_ns"):
        assert row[name] is None, name
    assert (row["retransmitted_segments"], row["flight_bytes"]) == (0, 0)


def test_lines_that_are_no_sockets_are_named_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "ss.log"
    path.write_text(f"1700000000\n{TITLES}\nESTAB 0 0 {ENDS} {INFO}\nbash: ss: command not found\nESTAB 0 0 x {INFO}\n")
    found = list(pieces(path))
    assert sum(piece.frame.height for piece in found) == 1
    assert [piece.damage for piece in found if piece.damage] == [
        f"line 4, at offset {path.read_bytes().index(b'bash')}: expected a socket as `ss -tinm` writes it, or a time "
        "as `date` does; 2 such lines were left out"
    ]


@contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            yield client, accepted


@pytest.mark.needs_program("ss")
@pytest.mark.parametrize("options", ["-tinmO", "-tinm", "-tinmOe", "-tin"])
def test_the_ss_of_this_machine_reports_what_its_kernel_reports(tmp_path: Path, options: str) -> None:
    program = shutil.which("ss")
    assert program is not None
    with connected() as (client, accepted):
        client.sendall(b"x" * 70_000)
        left = 70_000
        while left:
            left -= len(accepted.recv(left))
        ports = (client.getsockname()[1], accepted.getsockname()[1])
        # Another connection of this machine may have the same port at one end.
        wanted = ["sport", "=", f":{ports[0]}", "and", "dport", "=", f":{ports[1]}"]
        text = subprocess.run([program, options, *wanted], capture_output=True, text=True, check=True).stdout
    rows = of(tmp_path, f"1700000000\n{text}")
    (row,) = rows.to_dicts()
    assert (row["local_port"], row["remote_port"], row["state"]) == (*ports, "ESTABLISHED")
    # The kernel counts the SYN too.
    assert row["acked_bytes"] in (70_000, 70_001)
    assert row["congestion_control"] == Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    assert row["congestion_window_bytes"] >= row["mss_bytes"] > 0
    assert row["srtt_ns"] > 0
    assert (row["send_buffer_bytes"] is None) == ("m" not in options)


def test_a_log_of_ss_is_a_recording_of_its_connections(tmp_path: Path) -> None:
    blocks = "".join(
        f"170000000{n}.0\n{TITLES}\nESTAB 0 0 {ENDS} {INFO.replace('acked:120000', f'acked:{120000 + n * 100000}')}\n"
        for n in range(4)
    )
    path = tmp_path / "ss.log"
    path.write_text(blocks)
    found = open_recording(path)
    assert found.table("intervals")["goodput_bps"].to_list() == [800_000.0] * 3
    assert found.table("flows")["congestion_control"].to_list() == ["cubic"]


RETRANS = """TIME     PID    IP LADDR:LPORT          T> RADDR:RPORT          STATE
23:59:59 0      4  10.153.223.157:22    R> 69.53.245.40:34619   ESTABLISHED
23:59:59 0      4  10.153.223.157:22    R> 69.53.245.40:34619   ESTABLISHED
00:00:17 0      4  10.153.223.157:22    L> 69.53.245.40:22957   ESTABLISHED
00:00:18 1938   6  2001:db8::1:22       R> 2001:db8::2:22957    SYN_SENT
"""
DROPS = """TIME     PID    IP SADDR:SPORT          > DADDR:DPORT          STATE (FLAGS)
20:49:06 0      4  10.32.119.56:443     > 10.66.65.252:22912   CLOSE (ACK)
\ttcp_drop+0x1
\ttcp_v4_do_rcv+0x135

20:49:50 12431  4  10.32.119.56:443     > 10.66.65.252:22912   CLOSE (RST|ACK)
\ttcp_drop+0x1
"""


def test_tcpretrans_counts_what_each_connection_retransmitted(tmp_path: Path) -> None:
    rows = of(tmp_path, RETRANS, "tcpretrans-20231114T235900Z.log")
    day_ns = 1_699_920_000_000_000_000
    times = [day_ns + 86_399 * 10**9] * 2 + [day_ns + 86_418 * 10**9]
    assert rows["time_ns"].to_list() == times
    assert rows["retransmitted_segments"].to_list() == [1, 2, 1]
    assert rows["local_address"].to_list() == ["10.153.223.157", "10.153.223.157", "2001:db8::1"]
    assert rows["remote_port"].to_list() == [34619, 34619, 22957]
    assert rows["state"].to_list() == ["ESTABLISHED", "ESTABLISHED", "SYN-SENT"]
    assert rows["source"].unique().to_list() == ["tcpretrans"]


def test_tcpretrans_s_totals_have_no_time(tmp_path: Path) -> None:
    text = "LADDR:LPORT              RADDR:RPORT             RETRANSMITS\n"
    rows = of(tmp_path, f"{text}192.168.10.50:60366  <-> 172.217.21.194:443         700\n[...]\n")
    assert rows.select("time_ns", "retransmitted_segments", "remote_port").row(0) == (None, 700, 443)


def test_tcpdrop_s_packets_came_from_the_other_end(tmp_path: Path) -> None:
    path = tmp_path / "drops.log"
    path.write_text(DROPS)
    (row, last) = tables(path)[0].to_dicts()
    assert (row["local_address"], row["local_port"], row["remote_port"]) == ("10.66.65.252", 22912, 443)
    assert (row["socket_drops"], last["socket_drops"], row["retransmitted_segments"]) == (1, 2, None)
    notes = [note for piece in pieces(path) for note in piece.notes]
    assert notes == ["Neither the file's name nor a line has the day: 1970-01-01 is assumed."]


LOGS = [f"1700000000\n{TITLES}\nESTAB 0 0 {ENDS}\n\t {INFO}\n".encode(), RETRANS.encode(), DROPS.encode()]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_however_a_log_is_damaged_its_rows_or_one_line_come_of_it(tmp_path_factory, data: st.DataObject) -> None:
    content = data.draw(st.sampled_from(LOGS))
    bits = data.draw(st.lists(st.integers(0, 8 * len(content) - 1), max_size=8))
    path = tmp_path_factory.getbasetemp() / "log.txt"
    path.write_bytes(flipped(content, bits)[: data.draw(st.none() | st.integers(0, len(content)))])
    check(path, most_rows=10)
