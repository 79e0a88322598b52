"""UDP in one capture: RTP is found by its header, told in words, and what looks like it is not taken for it."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import whydrop
from whydrop.show import tables


def _frame(ports: tuple[int, int], payload: bytes) -> bytes:
    udp = struct.pack(">HHHH", *ports, 8 + len(payload), 0) + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0xB8, 20 + len(udp), 0, 0, 64, 17, 0)
    return bytes(12) + b"\x08\x00" + head + bytes([192, 0, 2, 1, 192, 0, 2, 2]) + udp


def _capture(path: Path, packets: list[tuple[float, bytes]]) -> Path:
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for time, frame in sorted(packets):
            seconds = 1_700_000_000 + int(time)
            file.write(struct.pack("<IIII", seconds, int(time % 1 * 1e6), len(frame), len(frame)) + frame)
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
    assert "17 % of the UDP packets" in sheet.summed


def test_anything_else_of_udp_is_no_call(tmp_path: Path) -> None:
    random.seed(1)
    noise = [(0.02 * n, _frame((40_000, 5004), random.randbytes(100))) for n in range(500)]
    known = whydrop.explain(_capture(tmp_path / "noise.pcap", noise)).datagrams
    assert known is not None
    assert known["judged_packets"] == 0
    assert all(not flow["rtp"] and flow["spin"] is None for flow in known["flows"])
