"""``explain --filter`` and its times: connections as tshark finds them with the same display filter."""

from __future__ import annotations

import ipaddress
import itertools
import struct
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whydrop
from captures.test_explaining import EXAMPLES
from example_files import Run
from whydrop.explaining.sources import SourceError

CAPTURE = EXAMPLES / "policed-download.pcap.zst"

CLIENTS, SERVERS = ("10.0.0.1", "10.9.8.7", "192.0.2.1"), ("198.51.100.1", "192.0.2.77", "203.0.113.5")
ADDRESSES = ("10.0.0.0/8", "192.0.2.0/24", "0.0.0.0/0", "198.51.100.1")
PORTS = ("443", "5201", "22")

TESTS = st.one_of(
    st.sampled_from(["tcp", "udp", "ip", "ipv6"]),
    st.builds("{} {} {}".format, st.sampled_from(["ip.addr", "ip.src", "ip.dst"]), st.sampled_from(["==", "!="]),
              st.sampled_from(ADDRESSES)),
    st.builds("{} {} {}".format, st.sampled_from(["tcp.port", "tcp.srcport", "udp.dstport"]),
              st.sampled_from(["==", "!="]), st.sampled_from(PORTS)),
    st.builds("tcp.port in {{{}, 5000..5300}}".format, st.sampled_from(PORTS)),
)  # fmt: skip
FILTERS = st.recursive(
    TESTS,
    lambda inner: st.one_of(
        st.builds("not ({})".format, inner),
        st.builds("({}) and ({})".format, inner, inner),
        st.builds("({}) or ({})".format, inner, inner),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def handshakes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with a SYN and a SYN-ACK of each of many connections, and a datagram in each direction beside each."""
    path = tmp_path_factory.mktemp("filters") / "handshakes.pcap"
    frames = []
    for number, (client, server, port) in enumerate(itertools.product(CLIENTS, SERVERS, (443, 5201, 22, 5300))):
        ends = (client, server, 40_000 + number, port)
        back = (server, client, port, 40_000 + number)
        frames += [_ip(6, _tcp(0x02, *ends), *ends), _ip(6, _tcp(0x12, *back), *back)]
        frames += [_ip(17, _udp(*ends), *ends), _ip(17, _udp(*back), *back)]
    write(path, frames)
    return path


def write(path: Path, frames: list[bytes], delay_us: int = 0) -> None:
    """Write IP packets as a capture, one microsecond apart."""
    records = [
        struct.pack("<IIII", 1_700_000_000, delay_us + number, len(one), len(one)) + one
        for number, one in enumerate(frames)
    ]
    # Link type 101: raw IP.
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101) + b"".join(records))


def _ip(protocol: int, payload: bytes, source: str, destination: str, *_: int) -> bytes:
    addresses = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0, 64, protocol, 0) + addresses + payload


def _tcp(flags: int, _source: str, _destination: str, source_port: int, destination_port: int) -> bytes:
    return struct.pack(
        ">HHIIBBHHH", source_port, destination_port, 1, 1 if flags & 0x10 else 0, 0x50, flags, 8000, 0, 0
    )


def _udp(_source: str, _destination: str, source_port: int, destination_port: int) -> bytes:
    return struct.pack(">HHHH", source_port, destination_port, 8, 0)


def read(path: Path, display_filter: str) -> int:
    """How many packets whydrop reads under a filter."""
    packets: int = whydrop.explain(path, filter=display_filter, tables=False).document["captures"][0]["packets"]
    return packets


def conversations(path: Path, display_filter: str) -> int:
    """How many TCP and UDP conversations have a packet that satisfies the filter, as tshark says."""
    words = ["tshark", "-r", str(path), "-Y", display_filter, "-T", "fields", "-e", "tcp.stream", "-e", "udp.stream"]
    said = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    return len(set(said.stdout.splitlines()))


@pytest.mark.slow
@pytest.mark.needs_program("tshark")
def test_conversations_are_read_whole_where_tshark_finds_a_packet_of_them(handshakes: Path) -> None:
    @settings(max_examples=25, deadline=None)
    @given(FILTERS)
    def agrees(display_filter: str) -> None:
        assert read(handshakes, display_filter) == 2 * conversations(handshakes, display_filter), display_filter

    agrees()


def test_only_matching_packets_are_counted(run_here: Run) -> None:
    whole = whydrop.explain(CAPTURE, tables=False).document
    port = whole["flows"][0]["flow"].rpartition(":")[2]
    one = whydrop.explain(CAPTURE, filter=f"tcp.port == {port}", tables=False).document
    other = whydrop.explain(CAPTURE, filter=f"not tcp.port == {port}", tables=False).document
    packets = [document["captures"][0]["packets"] for document in (whole, one, other)]
    assert packets[0] == packets[1] + packets[2]
    assert other["captures"][0]["left_out"] == packets[1]
    printed = run_here("explain", CAPTURE, "--to", "1").stdout
    assert printed.index("leave out") < printed.index("Flows")


def test_times_are_seconds_since_the_start_or_moments() -> None:
    whole = whydrop.explain(CAPTURE, tables=False).document["captures"][0]
    start = datetime.fromtimestamp(whole["first"], UTC)
    early = whydrop.explain(CAPTURE, end=1.0, tables=False).document["captures"][0]
    late = whydrop.explain(CAPTURE, begin=1.000001, tables=False).document["captures"][0]
    assert 0 < early["packets"] < whole["packets"]
    assert early["packets"] + late["packets"] == pytest.approx(whole["packets"], abs=1)
    assert (
        whydrop.explain(CAPTURE, end=start + timedelta(seconds=1), tables=False).document["captures"][0]["packets"]
        == early["packets"]
    )


def test_a_wrong_filter_says_what_was_expected() -> None:
    with pytest.raises(SourceError, match=r"filter at character 13: expected a port from 0 to 65535"):
        whydrop.explain(CAPTURE, filter="tcp.port == https")


def test_times_are_of_one_capture() -> None:
    far = EXAMPLES / "policed-download-far.pcap.zst"
    with pytest.raises(SourceError, match="times select packets of one capture"):
        whydrop.explain(CAPTURE, far, begin=1.0)


def test_two_captures_of_handshakes_alone_hold_no_data_to_judge(run_here: Run, tmp_path: Path) -> None:
    frames = []
    for number in range(30):
        ends, back = (
            ("192.0.2.1", "198.51.100.1", 40_000 + number, 443),
            ("198.51.100.1", "192.0.2.1", 443, 40_000 + number),
        )
        frames += [_ip(6, _tcp(0x02, *ends), *ends), _ip(6, _tcp(0x12, *back), *back)]
    for name, delay_us in (("near.pcap", 0), ("far.pcap", 5000)):
        write(tmp_path / name, frames, delay_us)
    said = run_here("explain", tmp_path / "near.pcap", tmp_path / "far.pcap").stdout
    assert said.startswith("No verdict: no packet with data is in both captures.")
    assert "60 packets matched" in said
