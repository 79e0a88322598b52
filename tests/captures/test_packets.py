"""The packets of a capture, one by one, as tshark has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import whydrop

EXAMPLES = Path(__file__).parents[2] / "examples"
CAPTURE = EXAMPLES / "policed-download.pcap.zst"


def fields_of_tshark(capture: Path, display_filter: str) -> list[tuple[int, ...]]:
    names = (
        "frame.number",
        "frame.len",
        "tcp.len",
        "tcp.seq_raw",
        "tcp.ack_raw",
        "tcp.window_size_value",
        "tcp.srcport",
    )
    command = ["tshark", "-r", str(capture), "-Y", display_filter, "-T", "fields", *(f"-e{name}" for name in names)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [tuple(map(int, line.split("\t"))) for line in printed.splitlines()]


@pytest.mark.needs_tshark
@pytest.mark.slow
def test_numbers_and_headers_are_tsharks():
    shown = whydrop.packets(CAPTURE, most=100_000, begin=1.0, end=1.5)
    columns = shown.table[
        "frame_number", "wire_bytes", "payload_bytes", "sequence", "acknowledgment", "window", "source_port"
    ]
    assert columns.rows() == fields_of_tshark(CAPTURE, "frame.time_relative >= 1 and frame.time_relative <= 1.5")
    assert not shown.has_more


def test_no_more_packets_are_returned_than_asked_for():
    assert whydrop.packets(CAPTURE, most=0).table.height == 0
    few = whydrop.packets(CAPTURE, most=7, filter="tcp.port == 5201")
    assert (few.table["frame_number"].to_list(), few.has_more) == ([1, 2, 3, 4, 5, 6, 7], True)


def arp_requests(count: int) -> bytes:
    """A capture of Ethernet frames without IP, a second apart."""
    ethernet = bytes(12) + b"\x08\x06" + bytes(28)
    lengths = len(ethernet).to_bytes(4, "little") * 2
    frames = [second.to_bytes(4, "little") + bytes(4) + lengths + ethernet for second in range(7, 7 + count)]
    return bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000") + b"".join(frames)


def test_a_packet_that_is_no_tcp_has_no_flags(tmp_path: Path):
    path = tmp_path / "arp.pcap"
    path.write_bytes(arp_requests(1))
    (row,) = whydrop.packets(path).table.rows(named=True)
    assert (row["protocol"], row["time_ns"], row["source"], row["flags"]) == ("not-ip", 7_000_000_000, None, None)


def test_a_capture_that_is_cut_off_is_read_to_its_cut(tmp_path: Path):
    path = tmp_path / "cut.pcap"
    path.write_bytes(arp_requests(3)[:-5])
    found = whydrop.packets(path)
    assert found.table["frame_number"].to_list() == [1, 2]
    assert "the packets before it are analysed" in found.notes[0]


def test_what_cannot_be_read_is_said(tmp_path: Path):
    with pytest.raises(whydrop.CaptureError, match="nowhere"):
        whydrop.packets(tmp_path / "nowhere.pcap")
    with pytest.raises(ValueError, match="expected"):
        whydrop.packets(CAPTURE, filter="tcp.port ==")
    with pytest.raises(whydrop.Error, match="0 or more"):
        whydrop.packets(CAPTURE, most=-1)
    with pytest.raises(whydrop.Error, match="no capture"):
        whydrop.packets()
