"""The ring on disk and its parts: filters, files, bounds, and a disk that is full."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from whydrop.monitoring.rolling import filters, pcapng
from whydrop.monitoring.rolling.ring import FullError, Ring, joined, remove_abandoned

HEAD = pcapng.head(pcapng.RAW_IP, 256, "eth0")
SECOND_NS = 1_000_000_000
BEGIN_NS = 1_700_000_000 * SECOND_NS


def packets(first_s: float, count: int = 10, size: int = 100) -> list[tuple[int, bytes, int]]:
    """Packets a millisecond apart."""
    begin_ns = BEGIN_NS + round(first_s * SECOND_NS)
    return [(begin_ns + number * 1_000_000, bytes([0x45]) + bytes(size - 1), 1500) for number in range(count)]


def ring(folder: Path, seconds: float = 10, most_bytes: int = 1_000_000) -> Ring:
    """A ring in a folder of its own."""
    own = folder / "ring"
    own.mkdir()
    return Ring(own, HEAD, seconds=seconds, most_bytes=most_bytes)


def on_disk(folder: Path) -> int:
    """Bytes of the files of a ring."""
    return sum(path.stat().st_size for path in (folder / "ring").iterdir() if path.name != "lock")


def test_the_ring_loses_what_is_older_than_its_seconds(tmp_path: Path) -> None:
    held = ring(tmp_path)
    for second in range(40):
        held.write(packets(second))
        assert held.buffered_s <= 11
    assert held.buffered_s >= 9
    assert held.packets == held.packets // 10 * 10 <= 120
    assert len(list((tmp_path / "ring").iterdir())) <= 12
    held.expire(BEGIN_NS + 100 * SECOND_NS)
    assert (held.packets, held.size_bytes, on_disk(tmp_path)) == (0, 0, 0)


def test_the_ring_has_no_more_bytes_than_it_may(tmp_path: Path) -> None:
    held = ring(tmp_path, seconds=1000, most_bytes=100_000)
    for number in range(100):
        held.write(packets(number / 100, count=50))
        assert on_disk(tmp_path) == held.size_bytes <= 100_000
    assert held.size_bytes > 80_000


def test_a_clock_that_is_set_back_loses_no_packet_that_comes(tmp_path: Path) -> None:
    held = ring(tmp_path)
    held.write(packets(100))
    held.write(packets(5))
    assert held.packets == 20
    assert held.buffered_s >= 0


@pytest.mark.needs_program("tshark")
def test_what_is_kept_is_one_file_that_tshark_reads_whole(tmp_path: Path) -> None:
    held = ring(tmp_path)
    for second in range(25):
        held.write(packets(second))
    parts = held.keep(BEGIN_NS + 20 * SECOND_NS, tmp_path / "kept.pcapng")
    assert len(parts) > 1
    held.close()
    (kept,) = joined(parts, tmp_path / "kept.pcapng", len(HEAD))
    assert [path.name for path in tmp_path.iterdir()] == ["kept.pcapng"]
    shown = subprocess.run(
        ["tshark", "-r", kept, "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = [line.split() for line in shown.stdout.splitlines()]
    wanted = [one for second in range(20, 25) for one in packets(second)]
    assert [float(row[0]) for row in rows[-50:]] == pytest.approx([time_ns / 1e9 for time_ns, _, _ in wanted], abs=1e-6)
    assert {tuple(row[1:]) for row in rows} == {("1500", "100")}
    assert kept.stat().st_mode & 0o077 == 0


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", place], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.needs_program("tshark")
def test_on_a_full_disk_the_ring_keeps_what_it_has_and_goes_on_when_there_is_room(small: Path) -> None:
    held = ring(small, seconds=1000)
    number = 0
    while not held.problem:
        held.write(packets(number))
        number += 1
    assert "No space left" in held.problem
    assert (held.packets, held.unwritten) == ((number - 1) * 10, 10)
    parts = held.keep(0, small / "kept.pcapng")
    # There is no room to join them.
    assert joined(parts, small / "kept.pcapng", len(HEAD)) == parts
    counted = 0
    for part in parts:
        shown = subprocess.run(["tshark", "-r", part], capture_output=True, text=True, check=True)
        counted += len(shown.stdout.splitlines())
    assert counted == held.packets
    for part in parts:
        part.unlink()
    held.expire(BEGIN_NS + 10_000 * SECOND_NS)
    held.write(packets(20_000))
    assert (held.problem, held.packets) == ("", 10)


def test_the_ring_of_a_killed_process_is_removed_and_no_other(tmp_path: Path) -> None:
    held = ring(tmp_path)
    held.write(packets(0))
    other = tmp_path / "mine"
    other.mkdir()
    killed = tmp_path / "killed"
    subprocess.run(
        [sys.executable, "-c", "import os, sys; from pathlib import Path\n"
         "from whydrop.monitoring.rolling.ring import Ring\n"
         "folder = Path(sys.argv[1]); folder.mkdir(); Ring(folder, b'', seconds=9, most_bytes=9); os._exit(0)", killed],
        check=True,
    )  # fmt: skip
    assert killed.exists()
    remove_abandoned(tmp_path.iterdir())
    assert {path.name for path in tmp_path.iterdir()} == {"ring", "mine"}
    assert held.packets == 10
    assert on_disk(tmp_path) == held.size_bytes


def test_what_cannot_be_kept_is_said_and_leaves_nothing_behind(tmp_path: Path) -> None:
    held = ring(tmp_path)
    held.write(packets(0))
    with pytest.raises(FullError, match="No such file"):
        held.keep(0, tmp_path / "missing" / "kept.pcapng")
    assert held.packets == 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tcp port", "at 'port'"),
        ("port", "expected a port"),
        ("port 70000", "expected a port"),
        ("port ٣", "expected a port"),
        ("host example.org", "expected an address"),
        ("(tcp", "at its end: expected )"),
        ("tcp)", "at ')'"),
        ("not", "at its end"),
        ("(" * 200 + "tcp", "nested too deeply"),
        ("tcp or " * 300 + "tcp", "at most 250"),
    ],
)
def test_a_filter_with_a_mistake_is_refused_with_the_place(text: str, words: str) -> None:
    with pytest.raises(filters.FilterError) as refused:
        filters.read(text)
    assert words in str(refused.value)


def test_a_filter_that_the_kernel_would_not_take_is_refused() -> None:
    term = filters.read(" or ".join(f"port {number}" for number in range(1, 60)))
    with pytest.raises(filters.FilterError, match="too long for the kernel"):
        filters.program(term, base=14, snap_bytes=96)


@pytest.mark.parametrize(
    ("text", "is_wanted"),
    [
        ("", True), ("tcp", True), ("udp", False), ("not udp", True), ("ip6", False), ("ip", True),
        ("host 192.0.2.1 and port 443", True), ("host 192.0.2.1 and not port 443", False),
        ("host 192.0.2.9 or port 50000", True), ("not (host 192.0.2.9 or port 50000)", False),
    ],
)  # fmt: skip
def test_a_filter_holds_for_connections_as_for_their_packets(text: str, is_wanted: bool) -> None:
    term = filters.read(text)
    ends = filters.Ends(("::ffff:192.0.2.1", "198.51.100.1"), (50_000, 443))
    assert (term is None or term.matches(ends)) == is_wanted
