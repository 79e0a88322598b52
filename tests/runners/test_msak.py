"""The runner for MSAK's throughput1 and latency1, against a server written after the protocol."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from runners.msak_server import msak_server
from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners import Outcome
from whydrop.measure.runners.msak import MsakRunner
from whydrop.measure.runners.msak.counting import Grid
from whydrop.measure.runners.msak.websocket import WebSocket, WebSocketError

slow = pytest.mark.slow


def flow_to(port: int, direction: str, length_s: float = 1.0, kind: str = "tcp", **options: Any) -> PlannedFlow:
    return PlannedFlow("Flow", kind, direction=direction, runner="msak", host="127.0.0.1", port=port, interval_s=0.2,
                       duration_s=length_s, options=options)  # fmt: skip


def measured(flow: PlannedFlow) -> tuple[dict[str, pl.DataFrame], Outcome]:
    runner = MsakRunner(flow, 7)
    assert runner.check() is None
    runner.start(time.monotonic_ns())
    outcome = runner.finish(20)
    return runner.drain(), outcome


@slow
def test_a_download_is_counted_here_and_the_senders_tcp_is_the_servers() -> None:
    with msak_server(rate_bps=40e6) as server:
        frames, outcome = measured(flow_to(server.port, "down"))
    assert (outcome.status, outcome.message) == ("complete", None)
    intervals = frames["intervals"]
    assert intervals["goodput_bps"][1:-1].mean() == pytest.approx(40e6, rel=0.2)
    assert (intervals["flow"] == 7).all()
    assert (intervals["start_ns"][1:] == intervals["end_ns"][:-1]).all()
    tcp = frames["tcp_info"].row(0, named=True)
    assert (tcp["srtt_ns"], tcp["min_rtt_ns"], tcp["congestion_window_packets"]) == (20_000_000, 18_000_000, 42)
    assert (tcp["delivery_rate_bps"], tcp["retransmitted_packets"], tcp["busy_ns"]) == (10e6, 3, 250_000_000)
    assert tcp["slow_start_threshold_packets"] is None
    assert tcp["pacing_rate_bps"] is None
    assert (outcome.facts["congestion_control"], outcome.facts["uuid"]) == ("bbr", "host_1_2")
    path, query = server.requests[0]
    assert path == "/throughput/v1/download"
    assert (query["streams"], query["duration"]) == ("1", "1000")
    # The server ends a download, and gets its farewell back.
    assert server.closed_by_client == 1
    # This end measures, too, and says so to the server.
    assert server.client_measurements[-1]["Application"]["BytesReceived"] > 1e6


@slow
def test_an_upload_is_what_the_server_counted():
    with msak_server() as server:
        frames, outcome = measured(flow_to(server.port, "up"))
    assert outcome.status == "complete", outcome.message
    sent = server.client_measurements[-1]["Application"]["BytesSent"]
    assert 0 < frames["intervals"]["payload_bytes"].sum() <= sent * 2
    assert frames["intervals"]["goodput_bps"].mean() > 1e6
    assert frames["tcp_info"]["congestion_window_packets"][0] > 0
    assert server.closed_by_client == 1


@slow
def test_several_streams_are_one_flow() -> None:
    with msak_server(rate_bps=10e6) as server:
        frames, outcome = measured(flow_to(server.port, "down", streams=3))
    assert outcome.status == "complete"
    assert frames["intervals"]["goodput_bps"][1:-1].mean() == pytest.approx(30e6, rel=0.25)
    assert len(server.requests) == 3
    assert len({query["mid"] for _, query in server.requests}) == 1
    assert "tcp_info" not in frames


@slow
def test_probes_have_the_servers_round_trips_and_the_direction_of_each_loss() -> None:
    with msak_server(lose=({5, 6}, {9}), session_s=1.0) as server:
        flow = flow_to(server.port, "both", 0.8, "probe", udp_port=server.udp_port)
        frames, outcome = measured(flow)
    assert outcome.status == "complete", outcome.message
    probes = frames["probes"].sort("sequence")
    fates = dict(zip(probes["sequence"], probes["fate"], strict=True))
    assert (fates[4], fates[5], fates[6], fates[9]) == ("ok", "lost-down", "lost-down", "lost-up")
    assert probes.filter(pl.col("fate") == "ok")["rtt_ns"].max() < 500e6
    assert probes["sent_ns"].is_sorted()
    assert outcome.facts["answered"] == probes.filter(pl.col("fate") == "ok").height


@slow
def test_a_longer_stream_of_probes_is_several_sessions() -> None:
    with msak_server(session_s=0.5) as server:
        flow = flow_to(server.port, "both", 6.5, "probe", udp_port=server.udp_port)
        frames, _ = measured(flow)
    assert [path for path, _ in server.requests].count("/latency/v1/authorize") == 2
    assert frames["probes"]["sequence"].to_list() == list(range(frames["probes"].height))


@slow
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"refuse": b"HTTP/1.1 401 Unauthorized\r\n\r\n"}, "refuses the upgrade to WebSocket: HTTP status 401"),
        ({"refuse": b"HTTP/1.1 101 X\r\nSec-WebSocket-Accept: x\r\n\r\n"}, "upgrade to WebSocket is wrong"),
        ({"refuse": b""}, "ended the connection"),
        ({"babble": b"\x81\xff" + bytes(12)}, "breaks the protocol"),
        ({"babble": b"\x81\x7f" + b"\x7f" * 8}, "breaks the protocol"),
    ],
)
def test_servers_that_refuse_or_babble_are_reported(how: dict[str, Any], said: str) -> None:
    with msak_server(**how) as server:
        _, outcome = measured(flow_to(server.port, "down"))
    assert outcome.status == "failed"
    assert said in (outcome.message or "")


@slow
def test_without_a_server_the_message_says_what_to_start() -> None:
    with msak_server() as server:
        port = server.port
    for kind, direction in (("tcp", "down"), ("probe", "both")):
        _, outcome = measured(flow_to(port, direction, kind=kind))
        assert outcome.status == "failed"
        assert "start msak-server there" in (outcome.message or ""), outcome.message


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (flow_to(1, "down", 30.0), "after 25 s"),
        (flow_to(1, "down", streams=0), "expected 1 to 64"),
        (flow_to(1, "both"), "in direction"),
        (flow_to(1, "down", what=1), "no option what"),
    ],
)
def test_settings_that_it_cannot_follow_are_refused(flow: PlannedFlow, said: str) -> None:
    assert said in (MsakRunner(flow, 0).check() or "")


@slow
def test_the_command_runs_it(tmp_path: Path, run: Any) -> None:
    with msak_server(rate_bps=20e6, session_s=3.0) as server:
        words = ["run", "tcp", "--to", f"127.0.0.1:{server.port}", "-R", "--with", "msak", "-t", "2s", "--json",
                 "--set", "delay=0s", "--no-counters", "--no-plot", "--output", tmp_path]  # fmt: skip
        done = run(*words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "complete"


class Pieces:
    """A connection that brings bytes in pieces of one size, behind the answer to the upgrade."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data, self._piece = data, piece
        self._pieces: list[bytes] = []
        self.out = b""

    def sendall(self, request: bytes) -> None:
        key = request.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
        head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        whole = head + b"Sec-WebSocket-Protocol: p\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n" + self._data
        self._pieces = [whole[at : at + self._piece] for at in range(0, len(whole), self._piece)]

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def recv(self, _: int) -> bytes:
        if not self._pieces:
            raise BlockingIOError
        return self._pieces.pop(0)

    def send(self, data: memoryview) -> int:
        self.out += bytes(data[:3])
        return min(3, len(data))


def upgraded(data: bytes, piece: int) -> WebSocket:
    return WebSocket.upgraded(Pieces(data, piece), "h", "/", "p", "test")  # type: ignore[arg-type]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1000])
def test_frames_are_read_wherever_they_are_cut(piece: int) -> None:
    pong_wanted = b"\x89\x02hi"
    data = (
        b"\x82\x7e" + (300).to_bytes(2, "big") + bytes(300) + b"\x01\x02{}" + pong_wanted + b"\x80\x01 "
        + b"\x82\x05" + bytes(5) + b"\x81\x00"
    )  # fmt: skip
    web = upgraded(data, piece)
    texts = [text for _ in range(len(data)) for text in web.receive()]
    assert texts == [b"{} ", b""]
    assert web.received_bytes == 300 + 3 + 5
    assert web.waits_to_send
    web.pump()
    # A client's pong: two bytes of head, four of its mask, and the payload.
    assert len(web.connection.out) == 2 + 4 + 2  # type: ignore[attr-defined]


def test_a_part_of_a_message_counts_when_it_comes() -> None:
    web = upgraded(b"\x82\x7f" + (100_000).to_bytes(8, "big") + bytes(60_000), 1000)
    for _ in range(100):
        assert list(web.receive()) == []
    assert 60_000 <= web.received_bytes <= 60_010


def test_a_frame_that_a_client_would_send_is_refused() -> None:
    web = upgraded(b"\x81\x80\0\0\0\0", 1000)
    with pytest.raises(WebSocketError, match="breaks the protocol"):
        list(web.receive())


def test_streams_that_end_early_keep_their_bytes() -> None:
    grid = Grid(2, 0, 100)
    grid.count(0, 100, 50)
    grid.end(0)
    grid.count(1, 250, 250)
    assert list(grid.whole()) == [(0, 100, 150.0), (100, 200, 100.0)]
    assert list(grid.rest()) == [(200, 250, 50.0)]
    assert grid.total_bytes == 300
