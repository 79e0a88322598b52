"""UDP in one capture: RTP is found by its header and described in words, and what looks like it is not taken for it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import whydrop
from plain_text import plain
from whydrop.show import tables


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
