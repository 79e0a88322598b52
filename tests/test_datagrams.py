"""UDP in one capture: RTP is found by its header and described in words, and what looks like it is not taken for it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

import whydrop
from plain_text import plain
from test_charts import layer_data
from whydrop.show import charts, explanation, tables, words
from whydrop.show.charts import streams
from whydrop.show.figure import NothingToDraw


def _segment(number: int) -> bytes:
    """A TCP header behind its ports, and ten bytes of data."""
    return struct.pack(">IIBBHHH", 1000 + 10 * number, 1, 0x50, 0x18, 1000, 0, 0) + bytes(10)


def _frame(ports: tuple[int, int], payload: bytes, protocol: int = 17) -> bytes:
    rest = struct.pack(">HH", 8 + len(payload), 0) if protocol == 17 else b""
    udp = struct.pack(">HH", *ports) + rest + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0xB8, 20 + len(udp), 0, 0, 64, protocol, 0)
    ends = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])
    source, destination = ends if ports[0] > ports[1] else ends[::-1]
    return bytes(12) + b"\x08\x00" + head + source + destination + udp


def _capture(path: Path, packets: list[tuple[float, bytes]]) -> Path:
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1))
        for time, frame in sorted(packets):
            seconds = 1_700_000_000 + int(time)
            file.write(struct.pack("<IIII", seconds, int(time % 1 * 1e9), len(frame), len(frame)) + frame)
    return path


def _speech(number: int) -> bytes:
    return struct.pack(">BBHII", 0x80, 0, number, number * 160, 0xBEEF) + bytes(160)


def test_a_call_is_found_with_its_loss_jitter_and_score(tmp_path: Path) -> None:
    lost = {40, 41, 200}
    call = [(0.02 * n, _frame((40_000, 5004), _speech(n))) for n in range(500) if n not in lost]
    queries = [(0.1 * n, _frame((30_000, 53), struct.pack(">H", n * 40_503 & 0xFFFF) + bytes(30))) for n in range(100)]
    found = whydrop.explain(_capture(tmp_path / "call.pcap", call + queries))
    known = found.datagrams
    assert known is not None
    [flow] = [flow for flow in known["flows"] if flow["rtp"]]
    [stream] = flow["rtp"]
    assert flow["flow"] == "192.0.2.1:40000 > 192.0.2.2:5004"
    assert (stream["lost"], stream["expected"], stream["loss_runs"]) == (3, 500, 2)
    assert stream["jitter_max_s"] < 1e-5
    assert stream["codec"] == "G.711 u-law"
    assert 4.2 < stream["mos"] < 4.4
    assert (known["packets"], known["judged_packets"]) == (597, 497)
    sheet = tables.datagrams(found)
    assert sheet.most_important(1)[0][3:5] == ("RTP type 0, G.711 u-law", "3 of 500")
    assert "17 % of the UDP packets" in plain(sheet.notes[0])


def test_anything_else_of_udp_is_no_call(tmp_path: Path) -> None:
    random.seed(1)
    noise = [(0.02 * n, _frame((40_000, 5004), random.randbytes(100))) for n in range(500)]
    known = whydrop.explain(_capture(tmp_path / "noise.pcap", noise)).datagrams
    assert known is not None
    assert known["judged_packets"] == 0
    assert all(not flow["rtp"] and flow["spin"] is None for flow in known["flows"])


def _stream_past_two_points(folder: Path, *, is_policed: bool) -> tuple[Path, Path]:
    """Datagrams of 28 Mbit/s, of which a policer of 20 Mbit/s and 24 kB, or chance, drops 28 %.

    The sender's timer lets out two or three at once, as that of iperf does, and its control connection goes beside.
    """
    random.seed(2)
    before, behind = [], []
    tokens, last = 24_576.0, 0.0
    for number in range(4000):
        tick = number * 408e-6 // 890e-6
        time = tick * 890e-6 + (number - -(-tick * 890e-6 // 408e-6)) * 110e-6 + random.uniform(0, 1e-6)
        frame = _frame((41_001, 5201), struct.pack(">Q", number) + random.randbytes(24) + bytes(1368))
        size = len(frame) - 14
        tokens, last = min(24_576.0, tokens + 2.5e6 * (time - last)), time
        passes = tokens >= size if is_policed else random.random() > 0.28
        tokens -= size if passes else 0
        before.append((time, frame))
        if passes:
            behind.append((time + 5e-6, frame))
    # answers, which show the clocks
    for number in range(20):
        answer = _frame((5201, 41_001), struct.pack(">Q", number) + random.randbytes(24))
        behind.append((0.07 * number, answer))
        before.append((0.07 * number + 5e-6, answer))
        control = _frame((53_100, 5201), _segment(number), protocol=6)
        before.append((0.07 * number + 2e-4, control))
        behind.append((0.07 * number + 2e-4 + 5e-6, control))
    return _capture(folder / "before.pcap", before), _capture(folder / "behind.pcap", behind)


def test_a_policer_of_evenly_sent_datagrams_is_found_between_two_captures(tmp_path: Path) -> None:
    headline = whydrop.explain(*_stream_past_two_points(tmp_path, is_policed=True)).verdicts[0]
    assert headline.cause == "policer"
    assert headline.flows == ("192.0.2.1:41001 > 192.0.2.2:5201",)
    rate, burst = headline.parameters["rate_bps"], headline.parameters["burst_bytes"]
    assert abs(rate.value / 20e6 - 1) < 1e-3
    assert rate.low < 20e6 < rate.high
    assert abs(burst.value - 24_576) < 1500


def test_as_many_datagrams_lost_by_chance_accuse_no_policer(tmp_path: Path) -> None:
    found = whydrop.explain(*_stream_past_two_points(tmp_path, is_policed=False))
    assert "policer" not in {verdict.cause for verdict in found.verdicts}
    assert found.verdicts[0].cause == "random-loss"


def _sender_report(ntp_s: float) -> bytes:
    seconds = int(ntp_s)
    return struct.pack(">BBHIIIIII", 0x80, 200, 6, 0xBEEF, seconds, int(ntp_s % 1 * 2**32), 0, 0, 0)


def _receiver_report(lost: int, jitter_ticks: int, echo_s: float, kept_s: float) -> bytes:
    echo = int(echo_s * 65_536) & 0xFFFF_FFFF
    block = struct.pack(">IIIIII", 0xBEEF, lost, 0, jitter_ticks, echo, int(kept_s * 65_536))
    return struct.pack(">BBHI", 0x81, 201, 7, 0xCAFE) + block


def _call_lost_beyond(path: Path, lost_at_3_s: int) -> whydrop.Explanation:
    """A call that is whole at the capture point, and not at its receiver."""
    call = [(0.02 * n, _frame((40_000, 5004), _speech(n))) for n in range(500)]
    share = 40 << 24 if lost_at_3_s else 0
    reports = [_receiver_report(share | lost_at_3_s * n, 80, 0, 0) for n in (1, 2)]
    control = [(5.0 * n, _frame((5005, 40_001), report)) for n, report in enumerate(reports)]
    return whydrop.explain(_capture(path / "beyond.pcap", call + control))


def test_losses_that_only_the_receiver_reports_stand_with_the_answer(tmp_path: Path) -> None:
    def left_out(found: whydrop.Explanation) -> str:
        return plain(" ".join(explanation._left_out(found)))

    stated = "Receivers of RTP reported 120 lost packets beyond the capture point (RTCP): of 192.0.2.1:40000 >"
    lossy = _call_lost_beyond(tmp_path, 60)
    assert left_out(lossy).startswith(stated)
    assert lossy.verdicts[0].cause == "unknown"
    assert "report 120 lost packets. The capture shows none missing" in words.stated(lossy.verdicts[0])
    whole = _call_lost_beyond(tmp_path, 0)
    assert left_out(whole) == ""
    assert whole.verdicts[0].cause == "none"


def _reported_call(path: Path) -> whydrop.Explanation:
    """A call that loses one run of packets and queues once; the receiver reports twice, 30 ms away."""
    lost = {100, 101}
    late = {300 + n: 0.05 - 0.005 * n for n in range(10)}
    call = [(0.02 * n + late.get(n, 0.0), _frame((40_000, 5004), _speech(n))) for n in range(500) if n not in lost]
    control = []
    for at in (3.0, 8.0):
        control.append((at, _frame((40_001, 5005), _sender_report(1000 + at))))
        report = _receiver_report(2, 80, 1000 + at, kept_s=0.5)
        control.append((at + 0.5 + 0.03, _frame((5005, 40_001), report)))
    return whydrop.explain(_capture(path / "call.pcap", call + control))


def test_the_receiver_of_a_call_reports_losses_jitter_and_round_trips(tmp_path: Path) -> None:
    found = _reported_call(tmp_path)
    [(_, stream)] = streams.streams(found)
    reported = stream["reported"]
    assert (reported["reports"], reported["lost"]) == (2, 2)
    assert reported["jitter_mean_s"] == pytest.approx(0.01)
    assert reported["rtt_median_s"] == pytest.approx(0.03, abs=1e-4)
    row = dict(
        zip([one.title for one in tables.datagrams(found).columns], tables.datagrams(found).rows[0], strict=True)
    )
    assert plain(row["Jitter at receiver"]) == "10.0 ms"
    assert plain(row["RTT median"]) == "30.0 ms"


def test_each_packet_of_a_call_is_in_its_table_with_its_delay(tmp_path: Path) -> None:
    rows = _reported_call(tmp_path).table("rtp")
    assert rows["number"].to_list() == [n for n in range(500) if n not in {100, 101}]
    late_ms = dict(zip(rows["number"], (rows["late_ns"] / 1e6).round(3), strict=True))
    assert (late_ms[299], late_ms[300], late_ms[309], late_ms[310]) == (0, 50, 5, 0)


def test_a_call_is_drawn_with_its_losses_and_the_reports(tmp_path: Path) -> None:
    drawn = _reported_call(tmp_path).chart("rtp").to_dict()
    assert drawn
    found = charts.figure(_reported_call(tmp_path), "rtp", 0)
    assert layer_data(found.panels[0], "packets lost")["x"].to_list() == pytest.approx([0.02 * 102])
    assert layer_data(found.panels[1], "reported by the receiver")["y"].to_list() == pytest.approx([10, 10])
    assert plain(found.notes[0]).startswith("2 of 500 packets were lost, in 1 run, before the capture point; jitter")
    assert "round trip to the receiver 30.0 ms" in plain(found.notes[0])


@pytest.mark.parametrize("jump", [20_000, -20_000])
def test_a_sender_that_starts_again_has_lost_and_delayed_nothing(tmp_path: Path, jump: int) -> None:
    numbers = [30_000 + n + (jump if n >= 250 else 0) for n in range(500)]
    speech = [
        struct.pack(">H", number % 65_536).join((_speech(n)[:2], _speech(n)[4:])) for n, number in enumerate(numbers)
    ]
    call = [(0.02 * n, _frame((40_000, 5004), payload)) for n, payload in enumerate(speech)]
    explained = whydrop.explain(_capture(tmp_path / "call.pcap", call))
    drawn = charts.figure(explained, "rtp", 0)
    assert [one.name for one in drawn.panels[0].layers] == ["packet"]
    assert layer_data(drawn.panels[0], "packet")["y"].max() < 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("lost", "words"),
    [(-6, "6 packets more than it expected (duplicates)"), (1, "1 lost packet"), (0, "0 lost packets")],
)
def test_the_count_of_a_receiver_is_said_as_it_is(lost: int, words: str) -> None:
    assert plain(streams._reported_lost(lost)) == words


def test_the_jitter_that_is_drawn_is_that_of_the_document(tmp_path: Path) -> None:
    explained = _reported_call(tmp_path)
    [(_, stream)] = streams.streams(explained)
    drawn = layer_data(charts.figure(explained, "rtp", 0).panels[1], "jitter at the capture point")["y"]
    assert drawn[-1] == pytest.approx(stream["jitter_s"] * 1e3, rel=1e-3, abs=1e-6)
    assert drawn.max() == pytest.approx(stream["jitter_max_s"] * 1e3, rel=1e-3)


def test_a_capture_without_rtp_has_no_such_chart(policed: whydrop.Explanation) -> None:
    assert charts.stream_figures(policed) == []
    with pytest.raises(NothingToDraw, match="0 RTP streams"):
        charts.figure(policed, "rtp", 0)


def test_a_report_page_of_calls_alone_has_their_charts(tmp_path: Path) -> None:
    page = _reported_call(tmp_path).write_report(tmp_path / "call.html").read_text()
    assert "An RTP stream: delay, losses and jitter" in page


def test_requests_are_a_table_with_their_outcomes(tmp_path: Path) -> None:
    def question(n: int) -> bytes:
        return struct.pack(">HHHHHH", n, 0x0100, 1, 0, 0, 0) + b"\x04" + f"n{n:03d}".encode() + b"\0\0\1\0\1"

    packets = [(n, _frame((30_000 + n, 53), question(n))) for n in range(10)]
    answers = [(n + 0.02, _frame((53, 30_000 + n), struct.pack(">HH", n, 0x8180) + question(n)[4:])) for n in range(8)]
    rest = [(20.0, _frame((40_000, 5004), _speech(1)))]
    found = whydrop.explain(_capture(tmp_path / "dns.pcap", packets + answers + rest))
    [server] = found.servers
    assert (server["service"], server["requests"], server["answered"], server["unanswered"]) == ("DNS", 10, 8, 2)
    assert (server["shortest_s"], server["longest_s"]) == (pytest.approx(0.02), pytest.approx(0.02))
    table = tables.servers(found)
    assert plain(table.rows[0][1]) == "DNS"
