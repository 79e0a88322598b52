"""Probes to reflectors of STAMP and TWAMP-Light: what they measure, and in which direction what was lost."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

from whydrop.measure.plan import PlannedFlow
from whydrop.measure.runners.stamp import LEAST_BYTES, Fates, StampRunner, ntp, packet, reflected

KEPT_NS = 300_000_000
# Of the reflector's own: another clock than that of the sender.
AHEAD_NS = 7 * 10**9


def answer(data: bytes, number: int, *, kept_ns: int = 0, ptp: bool = False, size_bytes: int = LEAST_BYTES) -> bytes:
    """A reflector's packet (RFC 8762, 4.3.1)."""
    received_ns = time.time_ns() + AHEAD_NS
    seconds = divmod(received_ns, 10**9), divmod(received_ns + kept_ns, 10**9)
    of_ptp = tuple(whole << 32 | rest for whole, rest in seconds)
    received, sent = of_ptp if ptp else (ntp(received_ns), ntp(received_ns + kept_ns))
    error = 0x4001 if ptp else 1
    own = struct.pack("!IQHHQ", number, sent, error, 0, received)
    return (own + data[:14] + b"\0\0" + bytes([64])).ljust(size_bytes, b"\0")


@contextmanager
def reflector(act: Callable[[bytes, int], list[bytes]]) -> Iterator[int]:
    """A reflector at a port: what it answers to a packet, with how many came before it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        one.settimeout(0.05)
        over = threading.Event()

        def serve() -> None:
            count = 0
            while not over.is_set():
                try:
                    data, sender = one.recvfrom(2048)
                except TimeoutError:
                    continue
                for found in act(data, count):
                    one.sendto(found, sender)
                count += 1

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield one.getsockname()[1]
        finally:
            over.set()
            thread.join()


def probed(port: int, count: int = 20, timeout_s: float = 0.3) -> tuple[pl.DataFrame, str, str | None]:
    """The rows of a stream of probes, its status, and its message."""
    flow = PlannedFlow("Ping", "probe", runner="stamp", host="127.0.0.1", port=port, interval_s=0.01,
                       duration_s=count * 0.01, timeout_s=timeout_s)  # fmt: skip
    runner = StampRunner(flow, 5)
    assert runner.check() is None
    runner.start(time.monotonic_ns())
    outcome = runner.finish(5)
    return runner.drain()["probes"].sort("sequence"), outcome.status, outcome.message


@pytest.mark.parametrize("ptp", [False, True])
def test_the_time_in_the_reflector_is_no_delay_of_the_path(ptp: bool):
    def late(data: bytes, count: int) -> list[bytes]:
        time.sleep(KEPT_NS / 1e9)
        return [answer(data, count, kept_ns=KEPT_NS, ptp=ptp)]

    with reflector(late) as port:
        rows, status, _ = probed(port, 1, timeout_s=10.0)
    assert status == "complete"
    assert rows["fate"].to_list() == ["ok"]
    # It may have slept longer than it says.
    assert rows["rtt_ns"].min() < KEPT_NS < (rows["received_ns"] - rows["sent_ns"]).min()
    assert rows["sent_ns"][0] == pytest.approx(time.time_ns(), abs=60e9)


@pytest.mark.parametrize("lost", ["up", "down", "unknown"])
def test_a_reflector_that_counts_shows_in_which_direction_packets_were_lost(lost: str):
    came = []

    def some(data: bytes, _count: int) -> list[bytes]:
        number = struct.unpack_from("!I", data)[0]
        gone = number % 5 == 3
        if lost == "up" and gone:
            return []
        # A packet that did not get there shows that it counts its answers.
        if lost == "down" and number == 1:
            return []
        came.append(number)
        own = number if lost == "unknown" else len(came) - 1
        return [] if gone else [answer(data, own)]

    with reflector(some) as port:
        rows, _, _ = probed(port, 22)
    fates = dict(rows.filter(pl.col("sequence") % 5 == 3).select("sequence", "fate").iter_rows())
    word = "lost" if lost == "unknown" else f"lost-{lost}"
    assert fates == dict.fromkeys((3, 8, 13, 18), word)
    assert rows.filter(pl.col("fate") == "ok").height == (17 if lost == "down" else 18)


@pytest.mark.parametrize(
    "lie",
    [
        lambda _: b"",
        lambda data: answer(data, 0)[:35],
        lambda data: answer(data[:4] + bytes(10), 0),  # one who did not see the packet
        lambda data: answer(b"\xff" * 14, 0),
    ],
)
def test_what_is_no_answer_to_a_probe_is_none(lie: Callable[[bytes], bytes]):
    with reflector(lambda data, _: [lie(data)]) as port:
        rows, status, message = probed(port, 3)
    assert rows["fate"].to_list() == ["lost"] * 3
    assert status == "no-data"
    assert message == (
        f"127.0.0.1 port {port} (UDP): no answer: start a STAMP or TWAMP-Light reflector there, or let the firewall "
        "pass the port"
    )


def test_answers_that_come_twice_or_with_times_that_make_no_sense_are_answers():
    with reflector(lambda data, count: [answer(data, count, kept_ns=-5)] * 2) as port:
        rows, status, _ = probed(port, 4)
    assert status == "complete"
    assert rows["fate"].to_list() == ["ok"] * 4
    assert (rows["rtt_ns"] > 0).all()


def test_a_port_without_a_reflector_is_named():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _, status, message = probed(port, 3)
    assert (status, message) == (
        "no-data",
        f"127.0.0.1 port {port} (UDP): port unreachable: no STAMP or TWAMP-Light reflector listens there",
    )


def test_a_stopped_stream_keeps_what_was_measured():
    flow = PlannedFlow("Ping", "probe", runner="stamp", host="127.0.0.1", interval_s=0.01, duration_s=60)
    with reflector(lambda data, count: [answer(data, count)]) as port:
        runner = StampRunner(PlannedFlow(**{**vars(flow), "port": port}), 0)
        runner.start(time.monotonic_ns())
        time.sleep(0.1)
        runner.stop()
        assert runner.finish(5).status == "stopped"
    assert runner.drain()["probes"].height >= 5


def test_numbers_that_come_in_another_order_change_no_fate():
    fates = Fates()
    # 2 and 1 were overtaken; 4 and 6 never came.
    for sender, own in ((0, 0), (3, 1), (2, 2), (1, 3), (5, 4), (7, 5)):
        fates.answered(sender, own)
    assert [fates.of(number) for number in (4, 6, 8)] == ["lost-up", "lost-up", "lost"]


@pytest.mark.parametrize("size_bytes", range(0, LEAST_BYTES))
def test_a_packet_that_is_cut_off_is_none_or_read_as_far_as_it_is_needed(size_bytes: int):
    whole = answer(packet(9, 10**18, LEAST_BYTES), 9)
    found = reflected(whole[:size_bytes])
    assert (found is None) == (size_bytes < 36)
    assert found is None or found.sender_number == 9


@pytest.mark.needs_program("tshark")
def test_wireshark_reads_the_packets(tmp_path: Path):
    wall_ns = 1_700_000_000_250_000_000
    payload = packet(77, wall_ns, LEAST_BYTES)
    udp = struct.pack("!HHHH", 40_000, 862, 8 + len(payload), 0) + payload
    ip = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes([127, 0, 0, 1]), bytes([127, 0, 0, 1])
    )
    frame = ip + udp
    header = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)
    file = tmp_path / "stamp.pcap"
    file.write_bytes(header + struct.pack("=IIII", 1, 0, len(frame), len(frame)) + frame)
    words = [
        "-d",
        "udp.port==862,twamp.test",
        "-T",
        "fields",
        "-e",
        "twamp.test.seq_number",
        "-e",
        "twamp.test.timestamp",
    ]
    done = subprocess.run(
        [shutil.which("tshark") or "tshark", "-r", str(file), *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\t")[0] == "77"
    assert "2023" in done.stdout
